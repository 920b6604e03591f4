"""Max-pooling of four products with the bias and ReLU after it, and how it passes gradients."""

import functools
from collections.abc import Sequence

import jax.numpy as jnp
from jax import Array

from maxfl.models.gpu.program import larger


def pool(totals: Sequence[Array], bias: Array, *units: Array) -> tuple[Array, Array]:
    """Return relu(max(totals) + bias), and which are the largest: a bit each, none where it is 0.

    Args:
        totals: Products of each of four places, [places, outputs].
        bias: [outputs].
        units: Of the factors of these products, [1], if they are in units.
    """
    largest = functools.reduce(larger, totals)
    passed = functools.reduce(jnp.multiply, units, largest) + bias.astype(jnp.float32)[None, :]
    bits = ((total == largest).astype(jnp.int32) << i for i, total in enumerate(totals))
    is_largest = jnp.where(passed > 0, functools.reduce(jnp.bitwise_or, bits), 0)
    # Not by ``jnp.maximum``, which loses NaN in a Triton kernel.
    return jnp.where(passed <= 0, 0.0, passed), is_largest


def share(gradient: Array, is_largest: Array) -> list[Array]:
    """Share the gradient of what was pooled between the largest of four, by their bits."""
    bits = [(is_largest >> i) & 1 for i in range(4)]
    each = gradient.astype(jnp.float32) / functools.reduce(jnp.add, bits).astype(jnp.float32)
    return [jnp.where(bit == 1, each, 0.0).astype(gradient.dtype) for bit in bits]
