"""Causal attention of one head of one sequence at a time, whose scores never leave the chip.

    p = softmax(q kᵀ / √d),   out = p v
    dv = pᵀ g,   ds = p · (g vᵀ − Σ p · g vᵀ) / √d,   dq = ds k,   dk = dsᵀ q

(Dao et al., "FlashAttention", NeurIPS 2022, for sequences that fit as a whole.)
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental import pallas as pl

from maxfl.models.gpu.fused import (
    divide,
    fused,
    launch,
    load,
    multiply,
    of_one,
    power_of_two,
    store,
)

BLOCK = 32
"""Positions that look back at once."""


class Heads(NamedTuple):
    """Sizes: positions of a sequence, heads, and features of each."""

    length: int
    heads: int
    features: int

    @property
    def width(self) -> int:
        """Features of all heads."""
        return self.heads * self.features


def causal_attention(heads: Heads, plain: Callable[[Array], Array]) -> Callable[..., Array]:
    """Return the function of [n, length, 3 · width] that gives [n, length, width].

    Args:
        heads: Sizes; queries, keys and values lie side by side, and the heads of each.
        plain: The same function in JAX.
    """

    def forward(together: Array) -> tuple[Array, tuple[()]]:
        return of_one(functools.partial(_attend, heads), together)[0], ()

    def backward(arguments: tuple[Array, ...], _: tuple[()], g: Array) -> tuple[Array, ...]:
        return of_one(functools.partial(_differentiate, heads), *arguments, g)

    return fused(plain, forward, backward)


def _attend(heads: Heads, together: Array) -> tuple[Array]:
    return (_launch(heads, _forward_kernel, (together,), heads.width),)


def _differentiate(heads: Heads, together: Array, g: Array) -> tuple[Array]:
    return (_launch(heads, _backward_kernel, (together, g), 3 * heads.width),)


def _launch(heads: Heads, kernel: Any, arrays: tuple[Array, ...], width: int) -> Array:
    clients, n = arrays[0].shape[:2]
    shape = clients, n, heads.length, width
    result = jax.ShapeDtypeStruct((clients, math.prod(shape[1:])), arrays[0].dtype)
    grid = clients, n * heads.heads
    return launch(functools.partial(kernel, heads), arrays, [result], grid)[0].reshape(shape)


def _forward_kernel(heads: Heads, together: Any, out: Any) -> None:
    """Let each position of one head look at itself and those before it, a few after others."""
    number, everywhere = pl.program_id(1), jnp.arange(power_of_two(heads.length))
    key, value = (load(together, *_at(heads, number, everywhere, 3, i)) for i in (1, 2))

    def look(block: Array, nothing: Array) -> Array:
        here = block * BLOCK + jnp.arange(BLOCK)
        query = load(together, *_at(heads, number, here, 3, 0))
        shares = _shares(heads, query, key, here)
        store(out, *_at(heads, number, here, 1, 0), multiply(shares.astype(value.dtype), value))
        return nothing

    jax.lax.fori_loop(0, pl.cdiv(heads.length, BLOCK), look, jnp.int32(0))


def _backward_kernel(heads: Heads, together: Any, g: Any, change: Any) -> None:
    """Compute the gradients of one head's queries, keys and values."""
    number, everywhere = pl.program_id(1), jnp.arange(power_of_two(heads.length))
    key, value = (load(together, *_at(heads, number, everywhere, 3, i)) for i in (1, 2))

    def look(block: Array, sums: tuple[Array, Array]) -> tuple[Array, Array]:
        here = block * BLOCK + jnp.arange(BLOCK)
        query = load(together, *_at(heads, number, here, 3, 0))
        gradient = load(g, *_at(heads, number, here, 1, 0))
        shares = _shares(heads, query, key, here)
        of_shares = multiply(gradient, value.T)
        mean = (shares * of_shares).sum(1)[:, None]
        of_scores = shares * (of_shares - mean) / math.sqrt(heads.features)
        of_scores, shares = of_scores.astype(query.dtype), shares.astype(query.dtype)
        store(change, *_at(heads, number, here, 3, 0), multiply(of_scores, key))
        of_key, of_value = sums
        return of_key + multiply(of_scores.T, query), of_value + multiply(shares.T, gradient)

    nothing = jnp.zeros(key.shape, jnp.float32)
    sums = jax.lax.fori_loop(0, pl.cdiv(heads.length, BLOCK), look, (nothing, nothing))
    for part, total in enumerate(sums, 1):
        store(change, *_at(heads, number, everywhere, 3, part), total)


def _at(
    heads: Heads, number: Array, position: Array, parts: int, part: int
) -> tuple[Array, Array, Array]:
    """Return where positions of a head, by its number, lie in an array of that many parts.

    Returns:
        Rows, columns, and whether both exist.
    """
    sequence, head = divide(number, heads.heads)
    feature = jnp.arange(power_of_two(heads.features))
    row = (sequence * heads.length + position) * (parts * heads.width)
    column = part * heads.width + head * heads.features + feature
    exists = (position < heads.length)[:, None] & (feature < heads.features)[None, :]
    return row, column, exists


def _shares(heads: Heads, query: Array, key: Array, here: Array) -> Array:
    """Return how much positions here take of each position, [here, everywhere]."""
    scores = multiply(query, key.T) / math.sqrt(heads.features)
    position = jnp.arange(len(key))
    is_past = (position[None, :] <= here[:, None]) & (position < heads.length)[None, :]
    scores = jnp.where(is_past, scores, -jnp.inf)
    shares = jnp.exp(scores - scores.max(1)[:, None])
    return shares / shares.sum(1)[:, None]
