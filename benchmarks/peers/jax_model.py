"""Both models in JAX, on parameters as `Task.start` has them."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

CHUNK = 64


def apply(model: str, dropout: float, params: Any, x: Array, key: Array | None = None) -> Array:
    """Compute logits of inputs [n, 28, 28]; a key turns dropout on."""
    return {"mlp": mlp, "cnn": cnn}[model](dropout, params, x, key)


def mlp(dropout: float, params: Any, x: Array, key: Array | None = None) -> Array:
    """Apply dense layers with ReLU, and dropout after the first."""
    h = x.reshape(len(x), -1)
    for i in range(0, len(params) - 2, 2):
        h = jax.nn.relu(h @ params[i] + params[i + 1])
        h = _drop(dropout, h, key) if i == 0 else h
    return h @ params[-2] + params[-1]


def cnn(dropout: float, params: Any, x: Array, key: Array | None = None) -> Array:
    """Apply two convolutions with pooling, a dense layer with dropout, and the output.

    Many images go through in chunks: the windows of all would leave the cache.
    """
    whole = len(x) // CHUNK * CHUNK
    if key is None and len(x) > CHUNK:
        chunks = x[:whole].reshape(-1, CHUNK, *x.shape[1:])
        logits = jax.lax.map(lambda part: cnn(dropout, params, part), chunks)
        rest = [cnn(dropout, params, x[whole:])] if whole < len(x) else []
        return jnp.concatenate([logits.reshape(whole, -1), *rest])
    w1, b1, w2, b2, w3, b3, w4, b4 = params
    h = _pool(jax.nn.relu(_convolve(x[..., None], w1) + b1))
    h = _pool(jax.nn.relu(_convolve(h, w2) + b2))
    h = jax.nn.relu(h.reshape(len(x), -1) @ w3 + b3)
    return _drop(dropout, h, key) @ w4 + b4


def _convolve(x: Array, weight: Array) -> Array:
    """Convolve 3 × 3 by one matrix multiplication: on a CPU, XLA's convolution is much slower."""
    height, width = x.shape[1] - 2, x.shape[2] - 2
    windows = [x[:, i : i + height, j : j + width] for i in range(3) for j in range(3)]
    patches = jnp.concatenate(windows, axis=-1)
    return patches @ weight.reshape(-1, weight.shape[3])


def _pool(h: Array) -> Array:
    """Apply 2 × 2 max-pooling; rows and columns left over are dropped."""
    n, height, width, channels = h.shape
    h = h[:, : height // 2 * 2, : width // 2 * 2]
    return h.reshape(n, height // 2, 2, width // 2, 2, channels).max((2, 4))


def _drop(rate: float, h: Array, key: Array | None) -> Array:
    if key is None:
        return h
    return jnp.where(jax.random.bernoulli(key, 1 - rate, h.shape), h / (1 - rate), 0.0)
