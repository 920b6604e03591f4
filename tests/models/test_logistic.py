"""Logistic regression is one dense layer."""

import jax
import numpy as np

import maxfl


def test_logits_are_linear_in_the_inputs():
    model = maxfl.logistic(6, 3)
    params = model.init(jax.random.key(0))
    (layer,) = params
    assert sum(a.size for a in jax.tree.leaves(params)) == 6 * 3 + 3
    x = np.arange(12.0, dtype=np.float32).reshape(2, 2, 3)
    expected = x.reshape(2, 6) @ np.asarray(layer.weight) + np.asarray(layer.bias)
    np.testing.assert_allclose(model.apply(params, x), expected, rtol=1e-5)
    np.testing.assert_array_equal(model.apply(params, x, jax.random.key(1)), model.apply(params, x))


def test_with_another_loss_it_is_linear_regression():
    model = maxfl.logistic(6, 1, loss=maxfl.losses.squared_error)
    assert model.loss is maxfl.losses.squared_error
    assert model.metric_infos[0].name == "mae"
