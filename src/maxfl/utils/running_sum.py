"""Sums of any number of float32 values: what rounding takes away is carried along.

A plain float32 sum stops growing near 2²⁴ times the size of its terms, so that the mean loss of a
client with ten million samples would be wrong by per cents.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array


class RunningSum(NamedTuple):
    """A sum so far, and what rounding has taken from it; float32, of one shape."""

    total: Array
    lost: Array


def start_sum(shape: tuple[int, ...] = ()) -> RunningSum:
    """Return a sum of nothing."""
    zeros = jnp.zeros(shape, jnp.float32)
    return RunningSum(zeros, zeros)


def add(so_far: RunningSum, value: Array) -> RunningSum:
    """Add a value; what is lost is exact (TwoSum: Knuth, The Art of Computer Programming, 4.2.2).

    Compilers keep the order of these operations: neither XLA nor this package allows reassociation.
    """
    total = so_far.total + value
    added = total - so_far.total
    lost = (so_far.total - (total - added)) + (value - added)
    return RunningSum(total, so_far.lost + lost)


def value_of(so_far: RunningSum) -> Array:
    """Return the sum; infinite or NaN where a value was."""
    return jnp.where(jnp.isfinite(so_far.lost), so_far.total + so_far.lost, so_far.total)
