"""The CNN: the parameters that papers count, and its outputs by plain NumPy."""

import jax
import jax.numpy as jnp
import numpy as np

import maxfl
from support.plain_convolution import convolved


def count(model):
    return sum(a.size for a in jax.tree.leaves(jax.eval_shape(model.init, jax.random.key(0))))


def test_parameters_as_published():
    assert count(maxfl.cnn((28, 28), 62)) == 6_603_710  # LEAF, Caldas et al., 2018
    assert count(maxfl.cnn((28, 28), 10, hidden=(512,))) == 1_663_370  # McMahan et al., 2017


def test_parameters_by_hand():
    small = maxfl.cnn((9, 8, 2), 3, channels=(4,), kernel=3, conv_padding="valid", hidden=(6,))
    # 9 x 8 becomes 7 x 6, then 3 x 3.
    assert count(small) == (9 * 2 * 4 + 4) + (3 * 3 * 4 * 6 + 6) + (6 * 3 + 3)


def test_outputs_by_plain_numpy():
    model = maxfl.cnn((8, 9), 3, channels=(2, 3), kernel=3, hidden=(5,))
    params = model.init(jax.random.key(0))
    x = np.random.default_rng(0).normal(size=(2, 8, 9)).astype(np.float32)
    h = x[..., None]
    for weight, bias in params.convolutions:
        h = np.maximum(convolved(h, np.asarray(weight), 1, "same") + np.asarray(bias), 0)
        n, height, width, channels = h.shape
        h = h[:, : height // 2 * 2, : width // 2 * 2]
        h = h.reshape(n, height // 2, 2, width // 2, 2, channels).max((2, 4))
    assert h.shape == (2, 2, 2, 3)
    (w1, b1), (w2, b2) = (tuple(map(np.asarray, layer)) for layer in params.dense)
    expected = np.maximum(h.reshape(2, -1) @ w1 + b1, 0) @ w2 + b2
    np.testing.assert_allclose(jax.jit(model.outputs)(params, x), expected, atol=1e-5)


def test_dropout_is_for_training():
    model = maxfl.cnn((4, 4, 2), 3, channels=(2,), kernel=3, hidden=(40,), dropout=0.5)
    params, x = model.init(jax.random.key(0)), jnp.ones((2, 4, 4, 2))
    trained, _ = model.training_outputs(params, x, jax.random.key(1))
    assert (trained != model.outputs(params, x)).any()
