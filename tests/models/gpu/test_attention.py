"""Attention by a kernel, in pieces, against plain loops and JAX's gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maxfl.models import attention as layer
from maxfl.models.attention import mix
from maxfl.models.gpu.attention import pieces

RNG = np.random.default_rng(0)


def drawn(*shape):
    return RNG.normal(0, 1, shape).astype(np.float32)


def test_pieces_by_hand():
    """Powers of two from 16 to 64; only the last may reach beyond the end."""
    sizes = {80: [64, 16], 128: [64, 64], 100: [64, 32, 16], 7: [16], 17: [16, 16]}
    for length, expected in sizes.items():
        found = pieces(length)
        assert [piece.size for piece in found] == expected
        assert [piece.start for piece in found] == [sum(expected[:i]) for i in range(len(found))]


def test_every_position_sees_itself_and_those_before_it(monkeypatch):
    """Over two pieces, whose second reaches beyond the end."""
    monkeypatch.setattr(layer, "takes_attention", lambda *_: True)
    heads, features, length = 2, 3, 20
    together = drawn(1, length, 3 * heads * features)
    q, k, v = together.reshape(length, 3, heads, features).transpose(1, 2, 0, 3)
    expected = np.zeros((length, heads, features))
    for head in range(heads):
        for i in range(length):
            scores = np.exp(k[head, : i + 1] @ q[head, i] / np.sqrt(features))
            expected[i, head] = scores @ v[head, : i + 1] / scores.sum()
    found = mix(together, heads)
    np.testing.assert_allclose(found, expected.reshape(1, length, -1), atol=1e-5)


@pytest.mark.parametrize("length", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_gradients_are_those_of_jax(monkeypatch, length):
    """Of two clients at once."""
    together, g = drawn(2, 3, length, 3 * 4 * 5), drawn(2, 3, length, 4 * 5)

    def value_and_gradient(by_kernel):
        monkeypatch.setattr(layer, "takes_attention", lambda *_: by_kernel)
        value, back = jax.vjp(jax.vmap(lambda each: mix(each, 4)), together)
        return value, *back(g)

    for found, expected in zip(value_and_gradient(True), value_and_gradient(False), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.slow
def test_in_bfloat16_sums_are_in_float32(monkeypatch):
    """As near to float32 as factors of 8 bits allow."""
    monkeypatch.setattr(layer, "takes_attention", lambda *_: True)
    together = jnp.asarray(drawn(2, 20, 24), jnp.bfloat16)
    found = mix(together, 2)
    assert found.dtype == jnp.bfloat16
    expected = mix(together.astype(jnp.float32), 2)
    np.testing.assert_allclose(found.astype(jnp.float32), expected, atol=0.02)


@pytest.mark.slow
def test_second_derivatives_are_those_of_jax(monkeypatch):
    together = drawn(1, 18, 12)

    def twice(by_kernel):
        monkeypatch.setattr(layer, "takes_attention", lambda *_: by_kernel)

        def steepness(x):
            return jnp.square(jax.grad(lambda x: jnp.sin(mix(x, 2)).sum())(x)).sum()

        return jax.grad(steepness)(together)

    np.testing.assert_allclose(twice(True), twice(False), atol=1e-4)


def test_nan_stays_one(monkeypatch):
    """With a maximum that loses it, as a GPU's does.

    Of positions before it, JAX spoils all (0 · NaN), and the kernel those of its piece.
    """
    monkeypatch.setattr(layer, "takes_attention", lambda *_: True)
    monkeypatch.setattr(jnp, "maximum", jnp.fmax)
    together = jnp.asarray(drawn(1, 20, 6)).at[0, 17].set(jnp.nan)
    assert jnp.isnan(mix(together, 1)[:, 17:]).all()
