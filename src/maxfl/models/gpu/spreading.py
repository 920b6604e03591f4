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

from maxfl.models.gpu.factors import Factor, divided, exact, finite_sizes, unit_of
from maxfl.models.gpu.launch import launch, over_clients
from maxfl.models.gpu.pooling import share
from maxfl.models.gpu.program import count, divide, load, store
from maxfl.models.gpu.sizes import power_of_two

PLACES = 64
"""Pooled places that a program has at once."""


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
    def blocks(self) -> int:
        """Number of programs that spread some of the places each."""
        return pl.cdiv(self.places, PLACES)


class Block(NamedTuple):
    """Some places and all outputs: numbers of both, and which exist, [places, outputs]."""

    place: Array
    output: Array
    exists: Array


def spread(g: Array, is_largest: Array) -> tuple[Factor, Array]:
    """Return the gradient before pooling, and that of the bias in float32, [outputs].

    Args:
        g: Gradient of what was pooled, [n, rows, columns, outputs].
        is_largest: Which of the four were the largest, uint8 of the same shape with a bit for each.

    Returns:
        The first is [n, 2 · rows, 2 · columns, outputs], in float16 if g is float32.
    """
    numbers, unit, of_bias = over_clients(_spread, g, is_largest)
    return (Factor(numbers, unit) if g.dtype == jnp.float32 else exact(numbers)), of_bias


@jax.jit
def _spread(g: Array, is_largest: Array) -> tuple[Array, Array, Array]:
    clients, pooled = len(g), Pooled(*g.shape[1:])
    steps, parts = divided(pooled.blocks)
    maxima, sums = launch(
        functools.partial(_measuring_kernel, pooled, steps),
        (g, is_largest),
        [
            jax.ShapeDtypeStruct((clients, parts), jnp.float32),
            jax.ShapeDtypeStruct((clients, parts * pooled.outputs), jnp.float32),
        ],
        (clients, parts),
    )
    dtype = jnp.float16 if g.dtype == jnp.float32 else g.dtype
    numbers, unit = launch(
        functools.partial(_spreading_kernel, pooled, parts),
        (g, is_largest, maxima),
        [
            jax.ShapeDtypeStruct((clients, 4 * pooled.places * pooled.outputs), dtype),
            jax.ShapeDtypeStruct((clients, 1), jnp.float32),
        ],
        (clients, pooled.blocks),
    )
    shape = clients, pooled.n, 2 * pooled.rows, 2 * pooled.columns, pooled.outputs
    of_bias = sums.reshape(clients, parts, pooled.outputs).sum(1)
    return numbers.reshape(shape), unit[:, 0], of_bias


def _measuring_kernel(
    pooled: Pooled, steps: int, g: Any, is_largest: Any, maxima: Any, sums: Any
) -> None:
    """Find the largest gradient of a part of all places, and sum them."""
    part, output = pl.program_id(1), count(power_of_two(pooled.outputs))

    def add(step: Array, found: tuple[Array, Array]) -> tuple[Array, Array]:
        largest, total = found
        block = _block(pooled, part * steps + step)
        gradient, bits = _load(pooled, block, g, is_largest)
        passed = jnp.where(bits > 0, gradient.astype(jnp.float32), 0.0)
        return jnp.maximum(largest, finite_sizes(passed)), total + passed

    nothing = jnp.zeros((PLACES, len(output)), jnp.float32)
    largest, total = jax.lax.fori_loop(0, steps, add, (nothing, nothing))
    triton.store(maxima.at[part + count(1)], largest.max().reshape(1))
    is_output = output < pooled.outputs
    triton.store(sums.at[part * pooled.outputs + output], total.sum(0), mask=is_output)


def _spreading_kernel(
    pooled: Pooled, parts: int, g: Any, is_largest: Any, maxima: Any, numbers: Any, unit: Any
) -> None:
    """Scale, share and round the gradients of some places, and write the unit."""
    number = pl.program_id(1)
    block = _block(pooled, number)
    gradient, bits = _load(pooled, block, g, is_largest)
    power, inverse = unit_of(maxima, parts)
    if g.dtype == jnp.float32:
        gradient *= inverse[:, None]
    image, inside = divide(block.place, pooled.rows * pooled.columns)
    i, j = divide(inside, pooled.columns)
    for which, each in enumerate(share(gradient, bits)):
        row, column = (image * pooled.rows + i) * 2 + which // 2, 2 * j + which % 2
        start = (row * 2 * pooled.columns + column) * pooled.outputs
        store(numbers, start, block.output, block.exists, each)
    triton.store(unit.at[count(1)], power, mask=(number + count(1)) == 0)


def _block(pooled: Pooled, number: Array) -> Block:
    place, output = number * PLACES + count(PLACES), count(power_of_two(pooled.outputs))
    exists = (place < pooled.places)[:, None] & (output < pooled.outputs)[None, :]
    return Block(place, output, exists)


def _load(pooled: Pooled, block: Block, g: Any, is_largest: Any) -> tuple[Array, Array]:
    """Load gradients, and the bits, int32."""
    start = block.place * pooled.outputs
    gradient, bits = (load(table, start, block.output, block.exists) for table in (g, is_largest))
    return gradient, bits.astype(jnp.int32)
