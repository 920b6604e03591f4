"""Group normalisation by a kernel against NumPy and against JAX's gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maxfl.models import normalisation
from maxfl.models.gpu.group_norm import Image, _group_mean
from maxfl.models.normalisation import Scaling, group_norm_relu

RNG = np.random.default_rng(0)


def drawn(*shape):
    return RNG.normal(1, 2, shape).astype(np.float32)


@pytest.mark.parametrize("shortcuts", [0, 1])
def test_an_image_is_normalised(monkeypatch, shortcuts):
    monkeypatch.setattr(normalisation, "takes_group_norm", lambda *_: True)
    h, scale, shift = drawn(2, 3, 5, 6), drawn(6), drawn(6)
    more = [drawn(2, 3, 5, 6)] * shortcuts
    expected = np.empty_like(h)
    for n in range(2):
        for first in (0, 3):
            part = h[n, :, :, first : first + 3]
            expected[n, :, :, first : first + 3] = (part - part.mean()) / np.sqrt(part.var() + 1e-5)
    expected = np.maximum(expected * scale + shift + sum(more), 0)
    found = group_norm_relu(Scaling(scale, shift), h, 2, *more)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("shortcuts", [0, 1])
@pytest.mark.parametrize(
    "groups", [4, pytest.param(1, marks=pytest.mark.slow), pytest.param(12, marks=pytest.mark.slow)]
)
def test_gradients_are_those_of_jax(monkeypatch, groups, shortcuts):
    """Of two clients at once, with scales of their own."""
    arguments = [drawn(2, 12), drawn(2, 12), drawn(2, 3, 5, 6, 12)]
    arguments += [drawn(2, 3, 5, 6, 12)] * shortcuts

    def value_and_gradients(by_kernel):
        monkeypatch.setattr(normalisation, "takes_group_norm", lambda *_: by_kernel)

        def clients(scale, shift, h, *shortcut):
            return group_norm_relu(Scaling(scale, shift), h, groups, *shortcut)

        value, back = jax.vjp(jax.vmap(clients), *arguments)
        return value, *back(jnp.cos(jnp.arange(value.size)).reshape(value.shape))

    for found, expected in zip(value_and_gradients(True), value_and_gradients(False), strict=True):
        np.testing.assert_allclose(found, expected, atol=2e-5)


def test_a_nan_spoils_the_mean_of_its_own_group_alone():
    values = jnp.arange(12.0).reshape(2, 6).at[0, 1].set(jnp.nan)
    (found,) = _group_mean(Image(2, 6, 2, 0.0), values)
    np.testing.assert_array_equal(found, [np.nan] * 3 + [7.0] * 3)
