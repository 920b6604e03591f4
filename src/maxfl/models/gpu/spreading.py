"""The gradient of what was pooled, spread over the places before pooling, in half precision.

Every 2 × 2 places have one gradient, which the largest of them share. A first kernel looks for the
largest gradient and sums them, for the bias; a second one scales, shares and rounds them.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from maxfl.models.gpu.factors import Factor, exact, finite_sizes, unit_of
from maxfl.models.gpu.launch import launch, over_clients
from maxfl.models.gpu.pooling import share
from maxfl.models.gpu.program import count, divide, load, store
from maxfl.models.gpu.sizes import power_of_two

PLACES = 64
"""Pooled places of a program."""


class Pooled(NamedTuple):
    """Shape of what was pooled of a client's images."""

    n: int
    rows: int
    columns: int
    outputs: int

    @property
    def places(self) -> int:
        """Number of places in all images."""
        return self.n * self.rows * self.columns

    @property
    def parts(self) -> int:
        """Programs that have some of the places each."""
        return pl.cdiv(self.places, PLACES)


def spread(g: Array, is_largest: Array) -> tuple[Factor, Array]:
    """Return the gradient before pooling, and that of the bias in float32, [outputs].

    Args:
        g: Gradient of what was pooled, [n, rows, columns, outputs].
        is_largest: Which of the four were the largest, uint8 of the same shape with a bit for each.

    Returns:
        The first is [n, 2 · rows, 2 · columns, outputs]: float16, or bfloat16 if g is that.
    """
    numbers, unit, of_bias = over_clients(_spread, g, is_largest)
    return (Factor(numbers, unit) if numbers.dtype != g.dtype else exact(numbers)), of_bias


@jax.jit
def _spread(g: Array, is_largest: Array) -> tuple[Array, Array, Array]:
    clients, pooled = len(g), Pooled(*g.shape[1:])
    dtype = jnp.float16 if g.dtype == jnp.float32 else g.dtype
    maxima, sums = launch(
        functools.partial(_measuring_kernel, pooled),
        (g, is_largest),
        [
            jax.ShapeDtypeStruct((clients, pooled.parts), jnp.float32),
            jax.ShapeDtypeStruct((clients, pooled.parts * pooled.outputs), jnp.float32),
        ],
        (clients, pooled.parts),
    )
    numbers, unit = launch(
        functools.partial(_spreading_kernel, pooled),
        (g, is_largest, maxima),
        [
            jax.ShapeDtypeStruct((clients, 4 * pooled.places * pooled.outputs), dtype),
            jax.ShapeDtypeStruct((clients, 1), jnp.float32),
        ],
        (clients, pooled.parts),
    )
    shape = clients, pooled.n, 2 * pooled.rows, 2 * pooled.columns, pooled.outputs
    of_bias = sums.reshape(clients, pooled.parts, pooled.outputs).sum(1)
    return numbers.reshape(shape), unit[:, 0], of_bias


def _measuring_kernel(pooled: Pooled, g: Any, is_largest: Any, maxima: Any, sums: Any) -> None:
    """Find the largest gradient at some places, and sum them."""
    part, output = pl.program_id(1), count(power_of_two(pooled.outputs))
    gradient, bits = _load(pooled, part, output, g, is_largest)
    passed = jnp.where(bits > 0, gradient.astype(jnp.float32), 0.0)
    triton.store(maxima.at[part + count(1)], finite_sizes(passed).max().reshape(1))
    is_output = output < pooled.outputs
    triton.store(sums.at[part * pooled.outputs + output], passed.sum(0), mask=is_output)


def _spreading_kernel(
    pooled: Pooled, g: Any, is_largest: Any, maxima: Any, numbers: Any, unit: Any
) -> None:
    """Scale, share and round the gradients of some places, and write the unit."""
    part, output = pl.program_id(1), count(power_of_two(pooled.outputs))
    gradient, bits = _load(pooled, part, output, g, is_largest)
    here, inverse = unit_of(maxima, pooled.parts)
    if numbers.dtype == jnp.float16:
        gradient *= inverse[:, None]
    place = part * PLACES + count(PLACES)
    image, inside = divide(place, pooled.rows * pooled.columns)
    i, j = divide(inside, pooled.columns)
    exists = (place < pooled.places)[:, None] & (output < pooled.outputs)[None, :]
    for which, each in enumerate(share(gradient, bits)):
        row, column = (image * pooled.rows + i) * 2 + which // 2, 2 * j + which % 2
        start = (row * 2 * pooled.columns + column) * pooled.outputs
        store(numbers, start, output, exists, each)
    triton.store(unit.at[count(1)], here, mask=(part + count(1)) == 0)


def _load(
    pooled: Pooled, part: Array, output: Array, g: Any, is_largest: Any
) -> tuple[Array, Array]:
    """Load the gradients of a program's places, and the bits, int32."""
    place = part * PLACES + count(PLACES)
    exists = (place < pooled.places)[:, None] & (output < pooled.outputs)[None, :]
    start = place * pooled.outputs
    gradient, bits = (load(table, start, output, exists) for table in (g, is_largest))
    return gradient, bits.astype(jnp.int32)
