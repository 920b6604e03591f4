"""The MLP of the paper: its shapes, its start, its dropout."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maxfl


def test_shapes_and_start():
    model = maxfl.mlp(784, (64, 30), 62)
    params = model.init(jax.random.key(0))
    assert [p.weight.shape for p in params] == [(784, 64), (64, 30), (30, 62)]
    for layer, inputs in zip(params, (784, 64, 30), strict=True):
        bound = 1 / np.sqrt(inputs)
        assert abs(layer.weight).max() <= bound
        assert layer.weight.std() == pytest.approx(bound / np.sqrt(3), rel=0.1)
        assert layer.bias.std() == pytest.approx(bound / np.sqrt(3), rel=0.5)
    assert model.apply(params, jnp.zeros((5, 28, 28))).shape == (5, 62)


def test_dropout_is_off_without_a_key():
    model = maxfl.mlp(4, (50,), 2, dropout=0.9)
    params, x = model.init(jax.random.key(0)), jnp.ones((3, 4))
    np.testing.assert_array_equal(model.apply(params, x), model.apply(params, x))
    drawn = [model.apply(params, x, jax.random.key(s)) for s in (1, 2)]
    assert (drawn[0] != drawn[1]).any()


@pytest.mark.parametrize("hidden", [3, (0,), (-2,), (2.5,), None])
def test_bad_widths_are_refused(hidden):
    with pytest.raises(maxfl.InputError, match="hidden"):
        maxfl.mlp(4, hidden, 2)
    assert maxfl.mlp(4, [3], 2) is maxfl.mlp(4, (3,), 2)


@pytest.mark.parametrize("rate", [1.0, -0.1])
def test_a_bad_rate_is_refused(rate):
    with pytest.raises(maxfl.InputError, match="dropout"):
        maxfl.mlp(4, (3,), 2, dropout=rate)
