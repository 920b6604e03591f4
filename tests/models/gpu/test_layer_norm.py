"""Gradients of layer normalisation by a kernel against NumPy and against JAX's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maxfl.models import normalisation
from maxfl.models.gpu.layer_norm import gradients
from maxfl.models.normalisation import Scaling, layer_norm_beside

RNG = np.random.default_rng(0)


def drawn(*shape):
    return RNG.normal(1, 2, shape).astype(np.float32)


def test_gradients_of_a_row_by_hand():
    """Variance 3 and ε = 1: deviation 2, ĥ = ∓√3/2; d = (3, 1) has mean 2, and −√3/2 along ĥ."""
    half = np.sqrt(3) / 2
    h, g, passed = ([-2 * half, 2 * half], [3, 1], [10, 20])
    row = (jnp.asarray([a], jnp.float32) for a in (h, passed, g))
    of_scale, of_shift, change = gradients(1.0, jnp.ones(2), *row)
    np.testing.assert_allclose(of_scale, [-3 * half, half], rtol=1e-6)
    np.testing.assert_allclose(of_shift, [3, 1])
    np.testing.assert_allclose(change, [[10 + (3 - 2 - 0.75) / 2, 20 + (1 - 2 + 0.75) / 2]])


@pytest.mark.parametrize(
    "shape", [(3, 5, 12), pytest.param((300, 24), marks=pytest.mark.slow)], ids=str
)
def test_gradients_are_those_of_jax(monkeypatch, shape):
    """Of two clients at once, with scales of their own; also in several programs."""
    features = shape[-1]
    arguments = drawn(2, features), drawn(2, features), drawn(2, *shape)

    def values_and_gradients(by_kernel):
        monkeypatch.setattr(normalisation, "takes_layer_norm", lambda *_: by_kernel)

        def clients(scale, shift, h):
            return layer_norm_beside(Scaling(scale, shift), h)

        values, back = jax.vjp(jax.vmap(clients), *arguments)
        weights = jnp.cos(jnp.arange(values[0].size)).reshape(values[0].shape)
        return *values, *back((weights, weights + 1))

    pairs = zip(values_and_gradients(True), values_and_gradients(False), strict=True)
    for found, expected in pairs:
        np.testing.assert_allclose(found, expected, atol=2e-4)


def test_a_nan_spoils_the_gradient_of_its_own_row_alone():
    h = jnp.asarray(drawn(4, 6)).at[1, 2].set(jnp.nan)
    *_, change = gradients(1e-5, jnp.ones(6), h, jnp.zeros((4, 6)), jnp.ones((4, 6)))
    np.testing.assert_array_equal(jnp.isnan(change).all(1), [False, True, False, False])
    assert not jnp.isnan(change[jnp.asarray([0, 2, 3])]).any()


@pytest.mark.slow
def test_second_derivatives_are_those_of_jax(monkeypatch):
    arguments = drawn(6), drawn(6), drawn(4, 6)

    def second(by_kernel):
        monkeypatch.setattr(normalisation, "takes_layer_norm", lambda *_: by_kernel)

        def loss(scale, shift, h):
            passed, normal = layer_norm_beside(Scaling(scale, shift), h)
            return (jnp.sin(normal) * passed).sum()

        def length(*arguments):
            return sum(jnp.square(g).sum() for g in jax.grad(loss, (0, 1, 2))(*arguments))

        return jax.grad(length, (0, 1, 2))(*arguments)

    for found, expected in zip(second(True), second(False), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
