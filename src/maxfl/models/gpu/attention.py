"""Causal attention, a head of a sequence at a time, whose scores are never written to memory.

    s = q · kᵀ / √d,   p = softmax(s) over itself and those before,   y = p · v
    dv = pᵀ · g,   ds = p · (g · vᵀ − Σ_j p · (g · vᵀ)),   dq = ds · k / √d,   dk = dsᵀ · q / √d

with g the gradient of y. As in Dao et al., "FlashAttention" (NeurIPS 2022), scores are computed
anew backward; but a sequence is short enough that one program holds a head of it. Sizes within a
program are powers of two, so that it is taken in pieces: one of 80 positions is 64 and 16, and has
a third of the scores that 128 have, since a piece needs none with a later one.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental import pallas as pl

from maxfl.models.gpu.fused import fused
from maxfl.models.gpu.launch import launch, over_clients
from maxfl.models.gpu.program import count, load, multiply, store
from maxfl.models.gpu.sizes import LEAST, power_of_two

LARGEST = 64
"""Positions of a piece, at most; this and the numbers of warps were measured on an H200."""
FORWARD_WARPS, BACKWARD_WARPS = 2, 4


class Heads(NamedTuple):
    """Positions of a sequence, number of heads, and features of each."""

    length: int
    number: int
    features: int


class Piece(NamedTuple):
    """Neighbouring positions: the first, and how many, a power of two."""

    start: int
    size: int


def pieces(length: int) -> list[Piece]:
    """Divide a sequence; the last piece may reach beyond its end."""
    found, start = [], 0
    while start < length:
        rest = length - start
        size = min(max(1 << (rest.bit_length() - 1), LEAST), LARGEST)
        found.append(Piece(start, size))
        start += size
    return found


def attention(heads: int, plain: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return the function of queries, keys and values [n, length, 3 · width] that gives y.

    Args:
        heads: Of each of the three, side by side.
        plain: The same function in JAX.
    """

    def forward(together: Array) -> tuple[Array, tuple[()]]:
        return mixed(heads, together), ()

    def backward(arguments: tuple[Array, ...], _: tuple[()], g: Array) -> tuple[Array, ...]:
        (together,) = arguments
        return (gradients(heads, together, g),)

    return fused(plain, forward, backward)


def mixed(heads: int, together: Array) -> Array:
    """Compute y."""
    return over_clients(functools.partial(_mix, heads), together)[0]


def gradients(heads: int, together: Array, g: Array) -> Array:
    """Compute dq, dk and dv, side by side as q, k and v are."""
    return over_clients(functools.partial(_differentiate, heads), together, g)[0]


@functools.partial(jax.jit, static_argnums=0)
def _mix(heads: int, together: Array) -> tuple[Array]:
    return (_launch(_mixing_kernel, heads, together.shape[-1] // 3, FORWARD_WARPS, together),)


@functools.partial(jax.jit, static_argnums=0)
def _differentiate(heads: int, together: Array, g: Array) -> tuple[Array]:
    return (
        _launch(_mixing_gradient_kernel, heads, together.shape[-1], BACKWARD_WARPS, together, g),
    )


def _launch(kernel: Any, heads: int, width: int, warps: int, *arrays: Array) -> Array:
    """Run a program for each head of each sequence, all together [clients, n, length, width]."""
    clients, n, length, wide = arrays[0].shape
    each = Heads(length, heads, wide // (3 * heads))
    shape = jax.ShapeDtypeStruct((clients, n * length * width), arrays[0].dtype)
    grid = clients, n, heads
    (found,) = launch(functools.partial(kernel, each), arrays, [shape], grid, warps)
    return found.reshape(clients, n, length, width)


def _mixing_kernel(heads: Heads, together: Any, out: Any) -> None:
    """Mix the values of one head, piece by piece."""
    q, k, v = (_head(heads, together, 3, part) for part in range(3))
    for i, piece in enumerate(pieces(heads.length)):
        value = jnp.zeros(q[i].shape, jnp.float32)
        for j, shares in enumerate(_shares(heads, q[i], k[: i + 1])):
            value += multiply(shares.astype(v[j].dtype), v[j])
        store(out, *_at(heads, piece, 1, 0), value)


def _mixing_gradient_kernel(heads: Heads, together: Any, g: Any, out: Any) -> None:
    """Compute the gradients of one head's queries, keys and values."""
    q, k, v = (_head(heads, together, 3, part) for part in range(3))
    gradient = _head(heads, g, 1, 0)
    of_k, of_v = ([jnp.zeros(a.shape, jnp.float32) for a in k] for _ in range(2))
    places = pieces(heads.length)
    for i, piece in enumerate(places):
        shares = _shares(heads, q[i], k[: i + 1])
        of_shares = [multiply(gradient[i], v[j].T) for j in range(i + 1)]
        means = [(p * d).sum(1) for p, d in zip(shares, of_shares, strict=True)]
        mean = functools.reduce(jnp.add, means)[:, None]
        of_q = jnp.zeros(q[i].shape, jnp.float32)
        for j, (p, d) in enumerate(zip(shares, of_shares, strict=True)):
            of_products = (p * (d - mean) / math.sqrt(heads.features)).astype(q[i].dtype)
            of_q += multiply(of_products, k[j])
            of_k[j] += multiply(of_products.T, q[i])
            of_v[j] += multiply(p.astype(q[i].dtype).T, gradient[i])
        store(out, *_at(heads, piece, 3, 0), of_q)
    for j, piece in enumerate(places):
        store(out, *_at(heads, piece, 3, 1), of_k[j])
        store(out, *_at(heads, piece, 3, 2), of_v[j])


def _shares(heads: Heads, q: Array, keys: list[Array]) -> list[Array]:
    """Return the softmax of a piece's scores with those before it and, last, with itself."""
    scores = [multiply(q, k.T) / math.sqrt(heads.features) for k in keys]
    position = count(len(q))
    scores[-1] = jnp.where(position[:, None] >= position[None, :], scores[-1], -jnp.inf)
    # A maximum without NaN does no harm: the difference from it is NaN again.
    largest = functools.reduce(jnp.maximum, [s.max(1) for s in scores])
    powers = [jnp.exp(s - largest[:, None]) for s in scores]
    total = functools.reduce(jnp.add, [p.sum(1) for p in powers])
    return [p / total[:, None] for p in powers]


def _head(heads: Heads, table: Any, parts: int, part: int) -> list[Array]:
    """Load the pieces of a program's head, of one of several parts side by side."""
    return [load(table, *_at(heads, piece, parts, part)) for piece in pieces(heads.length)]


def _at(heads: Heads, piece: Piece, parts: int, part: int) -> tuple[Array, Array, Array]:
    """Return where a piece lies: rows, columns, and whether both exist."""
    position, feature = piece.start + count(piece.size), count(power_of_two(heads.features))
    exists = (position < heads.length)[:, None] & (feature < heads.features)[None, :]
    row = (pl.program_id(1) * heads.length + position) * parts + part
    column = pl.program_id(2) * heads.features + feature
    return row * (heads.number * heads.features), column, exists
