"""Attention by a kernel against that in JAX, which is tested against plain loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maxfl.models import attention


@pytest.mark.parametrize("length", [5, 32, 70])
def test_values_and_gradients_are_those_of_jax(monkeypatch, length):
    """Of two clients with weights of their own; 70 positions are more than look back at once."""
    keys = jax.random.split(jax.random.key(0))
    weights = jax.vmap(lambda key: attention.init_attention(key, 12))(keys)
    h = np.random.default_rng(0).normal(size=(2, 3, length, 12)).astype(np.float32)

    def value_and_gradients(by_kernel):
        monkeypatch.setattr(attention, "takes_attention", lambda *_: by_kernel)
        attend = jax.vmap(lambda weights, h: attention.attend(weights, h, 3))
        value, back = jax.vjp(attend, weights, h)
        return value, *back(jnp.cos(jnp.arange(value.size)).reshape(value.shape))

    found, expected = value_and_gradients(True), value_and_gradients(False)
    for a, b in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
