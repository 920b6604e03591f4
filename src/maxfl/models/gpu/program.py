"""What a program of a kernel does: load, store and multiply tiles, and count addresses."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental.pallas import triton


def load(table: Any, row: Array, column: Array, exists: Array) -> Array:
    """Load a flat table at row + column, [rows, columns]; 0 where there is nothing."""
    index = row[:, None] + column[None, :]
    return triton.load(table.at[index], mask=exists, other=jnp.zeros((), table.dtype))


def store(table: Any, row: Array, column: Array, exists: Array, values: Array) -> None:
    """Store values in a flat table at row + column, where there is something."""
    index = row[:, None] + column[None, :]
    triton.store(table.at[index], values.astype(table.dtype), mask=exists)


def multiply(a: Array, b: Array) -> Array:
    """Multiply matrices, with sums in float32."""
    return jnp.dot(a, b, preferred_element_type=jnp.float32)


def count(size: int) -> Array:
    """Return 0, 1, 2, ... in the type of addresses."""
    return jnp.arange(size, dtype=jnp.int32)


def larger(a: Array, b: Array) -> Array:
    """Return the larger of two, NaN where one is; ``jnp.maximum`` loses it in a Triton kernel."""
    return jnp.where((a > b) | (a != a), a, b)


def divide(number: Array, size: int) -> tuple[Array, Array]:
    """Return quotient and remainder; ``//`` and ``%`` would round down, which takes longer."""
    if size == 1:
        return number, jnp.zeros_like(number)
    return jax.lax.div(number, jnp.int32(size)), jax.lax.rem(number, jnp.int32(size))


def wait() -> None:
    """Let all warps of a program come here before any goes on: what they stored can be read."""
    if not _interpreted.get():
        triton.debug_barrier()


@contextmanager
def traced_for(*, interpret: bool) -> Iterator[None]:
    """Say whether kernels that are traced within are for the interpreter, which has no warps."""
    token = _interpreted.set(interpret)
    try:
        yield
    finally:
        _interpreted.reset(token)


_interpreted = ContextVar("interpreted", default=False)
