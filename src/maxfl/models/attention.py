"""Causal self-attention of several heads (Vaswani et al., NeurIPS 2017).

    out[i] = Σ_{j ≤ i} softmax_j(q_i · k_j / √d) v_j

of each head, which has d features.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from maxfl.models.gpu.support import takes_attention
from maxfl.models.layers import Layer, dense, init_dense


class Attention(NamedTuple):
    """Dense layers: to queries, keys and values [width, 3 · width], and from heads [width, width].

    Attributes:
        inputs: To queries, keys and values, in this order, the heads of each side by side.
        outputs: From the heads, side by side.
    """

    inputs: Layer
    outputs: Layer


def init_attention(key: Array, width: int) -> Attention:
    """Draw both layers."""
    keys = jax.random.split(key)
    return Attention(init_dense(keys[0], width, 3 * width), init_dense(keys[1], width, width))


def attend(attention: Attention, h: Array, heads: int) -> Array:
    """Let each position of h [n, length, width] look at itself and those before it."""
    _, length, width = h.shape
    together = dense(attention.inputs, h)
    look: Callable[[Array], Array] = partial(_look_back, heads)
    if takes_attention(h, heads):
        from maxfl.models.gpu.attention import Heads, causal_attention

        look = causal_attention(Heads(length, heads, width // heads), look)
    return dense(attention.outputs, look(together))


def _look_back(heads: int, together: Array) -> Array:
    """Return what positions see, [n, length, width], of queries, keys and values side by side."""
    n, length, wide = together.shape
    each = wide // 3 // heads
    parts = together.reshape(n, length, 3, heads, each)
    queries, keys, values = (parts[:, :, i] for i in range(3))
    scores = jnp.einsum("nihd,njhd->nhij", queries, keys) / math.sqrt(each)
    is_past = jnp.tril(jnp.ones((length, length), bool))
    shares = jax.nn.softmax(jnp.where(is_past, scores, -jnp.inf), axis=-1)
    return jnp.einsum("nhij,njhd->nihd", shares, values).reshape(n, length, heads * each)
