"""Factors of products, in half precision.

Where XLA multiplies float32, by default such GPUs round it to TF32, which has digits of 11 bits. So
has float16, but tensor cores multiply it twice as fast and in any order that it has in memory, of
which it takes half. Its range is small: numbers are scaled by a power of two, which rounds nothing,
until the largest is near the end of it. Digits are lost only below 2⁻²⁸ of the largest.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from maxfl.models.gpu.launch import launch, over_clients
from maxfl.models.gpu.program import count
from maxfl.models.gpu.sizes import power_of_two

BLOCK, PARTS = 4096, 256
"""Numbers that a program reads at once, and most programs of a client that look for the largest."""
EXPONENT, BIAS = 23, 127
"""Of float32: bits below an exponent, and what is added to it."""
LARGEST = 15
"""Scaled numbers are at most 2 to this power, half of what float16 reaches."""


class Factor(NamedTuple):
    """Numbers in the type in which they are multiplied.

    Attributes:
        numbers: Array of any shape.
        unit: What a 1 of them stands for, [], a power of two.
    """

    numbers: Array
    unit: Array


def exact(x: Array) -> Factor:
    """Return a factor as it is: of float32, tensor cores round it to TF32."""
    return Factor(x, jnp.ones((), jnp.float32))


def rounded(x: Array) -> Factor:
    """Return float32 in float16, other types as they are."""
    if x.dtype != jnp.float32:
        return exact(x)
    numbers, unit = over_clients(_rounded, x)
    return Factor(numbers, unit)


def finite_sizes(x: Array) -> Array:
    """Return the absolute values, 0 of what is no finite number."""
    size = jnp.abs(x.astype(jnp.float32))
    return jnp.where(size < jnp.inf, size, 0.0)


def unit_of(maxima: Any, parts: int) -> tuple[Array, Array]:
    """Return in a kernel the unit of numbers whose parts have these maxima, and 1 / unit, both [1].

    The largest number is from 2¹⁴ to 2¹⁵ of these powers of two; or less, if 1 / unit would leave
    float32's range.
    """
    part = count(power_of_two(parts))
    largest = triton.load(maxima.at[part], mask=part < parts, other=0.0).max(keepdims=True)
    exponent = jax.lax.bitcast_convert_type(largest, jnp.int32) >> EXPONENT
    exponent = jnp.clip(exponent + 1 - LARGEST, 1, 2 * BIAS - 1)
    both = exponent << EXPONENT, (2 * BIAS - exponent) << EXPONENT
    unit, inverse = (jax.lax.bitcast_convert_type(bits, jnp.float32) for bits in both)
    return unit, inverse


def divided(blocks: int) -> tuple[int, int]:
    """Return how many blocks a program looks at for the largest number, and how many programs."""
    steps = pl.cdiv(blocks, PARTS)
    return steps, pl.cdiv(blocks, steps)


@jax.jit
def _rounded(x: Array) -> tuple[Array, Array]:
    clients, size = len(x), x[0].size
    blocks = pl.cdiv(size, BLOCK)
    steps, parts = divided(blocks)
    (maxima,) = launch(
        functools.partial(_largest_kernel, size, steps),
        (x,),
        [jax.ShapeDtypeStruct((clients, parts), jnp.float32)],
        (clients, parts),
    )
    numbers, unit = launch(
        functools.partial(_rounding_kernel, size, parts),
        (x, maxima),
        [
            jax.ShapeDtypeStruct((clients, size), jnp.float16),
            jax.ShapeDtypeStruct((clients, 1), jnp.float32),
        ],
        (clients, blocks),
    )
    return numbers.reshape(x.shape), unit[:, 0]


def _largest_kernel(size: int, steps: int, x: Any, maxima: Any) -> None:
    """Find the largest number of a part."""
    part = pl.program_id(1)

    def larger(step: Array, largest: Array) -> Array:
        at = (part * steps + step) * BLOCK + count(BLOCK)
        found = triton.load(x.at[at], mask=at < size, other=0.0)
        return jnp.maximum(largest, finite_sizes(found))

    largest = jax.lax.fori_loop(0, steps, larger, jnp.zeros(BLOCK, jnp.float32))
    triton.store(maxima.at[part + count(1)], largest.max(keepdims=True))


def _rounding_kernel(size: int, parts: int, x: Any, maxima: Any, numbers: Any, unit: Any) -> None:
    """Scale and round a block, and write the unit."""
    block = pl.program_id(1)
    at = block * BLOCK + count(BLOCK)
    power, inverse = unit_of(maxima, parts)
    found = triton.load(x.at[at], mask=at < size, other=0.0) * inverse
    triton.store(numbers.at[at], found.astype(jnp.float16), mask=at < size)
    triton.store(unit.at[count(1)], power, mask=(block + count(1)) == 0)
