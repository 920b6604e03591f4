"""Attention against plain loops in NumPy."""

import jax
import numpy as np

from maxfl.models.attention import attend, init_attention


def test_every_position_sees_itself_and_those_before_it():
    heads, width, length = 2, 6, 4
    attention = init_attention(jax.random.key(0), width)
    h = np.random.default_rng(0).normal(size=(3, length, width)).astype(np.float32)
    together = h @ np.asarray(attention.inputs.weight) + np.asarray(attention.inputs.bias)
    queries, keys, values = np.split(together, 3, axis=-1)
    mixed = np.zeros_like(h)
    for n in range(len(h)):
        for head in range(heads):
            own = slice(3 * head, 3 * head + 3)
            for i in range(length):
                scores = [queries[n, i, own] @ keys[n, j, own] / np.sqrt(3) for j in range(i + 1)]
                shares = np.exp(scores) / np.exp(scores).sum()
                mixed[n, i, own] = shares @ values[n, : i + 1, own]
    expected = mixed @ np.asarray(attention.outputs.weight) + np.asarray(attention.outputs.bias)
    found = jax.jit(attend, static_argnums=2)(attention, h, heads)
    np.testing.assert_allclose(found, expected, atol=1e-5)
