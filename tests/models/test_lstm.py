"""The recurrent network: its cell by plain NumPy, parameters as published, both kinds of output."""

import jax
import jax.numpy as jnp
import numpy as np

import maxfl
from maxfl.models.lstm import Recurrent, recur

RNG = np.random.default_rng(0)


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def test_the_cell_by_plain_numpy():
    length, n, inputs, units = 4, 3, 2, 5
    layer = Recurrent(
        *(
            RNG.normal(size=s).astype(np.float32)
            for s in ((inputs, 4 * units), (units, 4 * units), 4 * units)
        )
    )
    x = RNG.normal(size=(length, n, inputs)).astype(np.float32)
    h, c, expected = np.zeros((n, units)), np.zeros((n, units)), []
    for position in x:
        gates = position @ layer.inputs + h @ layer.state + layer.bias
        i, f, g, o = (gates[:, k * units : (k + 1) * units] for k in range(4))
        c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        expected.append(h)
    np.testing.assert_allclose(recur(layer, x), expected, atol=1e-5)


def test_parameters_as_published():
    """The network for Shakespeare with 90 characters; Reddi et al., ICLR 2021, count 820,522."""
    shapes = jax.eval_shape(maxfl.lstm(90).init, jax.random.key(0))
    assert sum(a.size for a in jax.tree.leaves(shapes)) == 820_522


def test_outputs_are_of_every_position_or_of_the_last():
    x = jnp.array([[1, 2, 0, 4], [3, 3, 1, 0]])
    every = maxfl.lstm(5, hidden=(3,))
    params = every.init(jax.random.key(0))
    apply = jax.jit(every.outputs)
    logits = apply(params, x)
    assert every.tokens
    assert logits.shape == (2, 4, 5)
    assert every.loss == maxfl.losses.next_token(0)
    changed = apply(params, x.at[:, 2].set(2))
    np.testing.assert_array_equal(changed[:, :2], logits[:, :2])
    assert (changed[:, 2:] != logits[:, 2:]).any()
    last = maxfl.lstm(5, classes=5, hidden=(3,))
    assert last.loss is maxfl.losses.cross_entropy
    np.testing.assert_allclose(jax.jit(last.outputs)(params, x), logits[:, -1], atol=1e-6)


def test_dropout_is_for_training():
    model = maxfl.lstm(5, hidden=(8,), dropout=0.5)
    params, x = model.init(jax.random.key(0)), jnp.array([[1, 2, 0]])
    assert (model.apply(params, x, jax.random.key(1)) != model.apply(params, x)).any()
