"""Causal self-attention of several heads (Vaswani et al., NeurIPS 2017).

    out[i] = Σ_{j ≤ i} softmax_j(q_i · k_j / √d) v_j

of each head, which has d features.
"""

import math
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
    return dense(attention.outputs, mix(dense(attention.inputs, h), heads))


def mix(together: Array, heads: int) -> Array:
    """Mix the values of each position and those before it, to [n, length, width].

    Args:
        together: Queries, keys and values, [n, length, 3 · width], the heads of each side by side.
        heads: Their number.
    """
    n, length, wide = together.shape
    features = wide // (3 * heads)

    def plain(together: Array) -> Array:
        parts = together.reshape(n, length, 3, heads, features)
        queries, keys, values = (parts[:, :, i] for i in range(3))
        scores = jnp.einsum("nihd,njhd->nhij", queries, keys) / math.sqrt(features)
        is_past = jnp.tril(jnp.ones((length, length), bool))
        shares = jax.nn.softmax(jnp.where(is_past, scores, -jnp.inf), axis=-1)
        return jnp.einsum("nhij,njhd->nihd", shares, values).reshape(n, length, heads * features)

    if not takes_attention(together, heads):
        return plain(together)
    from maxfl.models.gpu.attention import attention

    return attention(heads, plain)(together)
