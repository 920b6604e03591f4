"""Models of Equinox, with BatchNorm and dropout."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from support.adapted import X, check_batch_norm

pytestmark = pytest.mark.extras
eqx = pytest.importorskip("equinox", reason="needs maxfl[equinox]")


class Normalised(eqx.Module):
    """BatchNorm and a dense layer."""

    norm: eqx.nn.BatchNorm
    dense: eqx.nn.Linear

    def __init__(self, key, mode):
        self.norm = eqx.nn.BatchNorm(4, axis_name="batch", momentum=0.9, mode=mode)
        self.dense = eqx.nn.Linear(4, 3, use_bias=False, key=key)

    def __call__(self, x, state):
        x, state = self.norm(x, state)
        return self.dense(x), state


class Dropped(eqx.Module):
    """Dropout, an array of integers, and a function that each instance has for itself."""

    dropout: eqx.nn.Dropout
    scale: jax.Array
    table: jax.Array
    activation: object = eqx.field(static=True)

    def __init__(self, key):
        self.dropout, self.scale = eqx.nn.Dropout(0.5), jax.random.normal(key)
        self.table, self.activation = jnp.array([3, 2, 1, 0]), lambda x: x

    def __call__(self, x, key):
        return self.activation(self.dropout(x, key=key)[self.table])


def test_statistics_are_state():
    model = maxfl.from_equinox(
        lambda key: eqx.nn.make_with_state(Normalised)(key, mode="batch"), keep_local=True
    )
    variables = jax.jit(model.init)(jax.random.key(0))
    assert isinstance(variables, maxfl.Variables)
    assert model.keep_local

    def statistics(state):
        return [leaf for leaf in state if leaf.shape == (4,)]

    kernel = variables.params.dense.weight.T
    state = check_batch_norm(model, variables, statistics, kernel, 1e-5)
    assert all(leaf.dtype == jnp.float32 for leaf in state)
    assert [float(leaf) for leaf in state if leaf.shape == ()] == [1]
    assert model.outputs(variables._replace(state=state), X).shape == (8, 3)


def test_flags_are_carried_as_numbers():
    model = maxfl.from_equinox(lambda key: eqx.nn.make_with_state(Normalised)(key, mode="ema"))
    variables = model.init(jax.random.key(0))
    _, state = jax.jit(model.training_outputs)(variables, X, jax.random.key(1))
    flags = [[float(leaf) for leaf in s if leaf.shape == ()] for s in (variables.state, state)]
    assert flags == [[1], [0]]
    mean, _ = (leaf for leaf in state if leaf.shape == (4,))
    np.testing.assert_allclose(mean, X.mean(0), atol=1e-5)


def test_dropout_is_drawn_for_each_sample_in_training_alone():
    model = maxfl.from_equinox(Dropped)
    params = jax.jit(model.init)(jax.random.key(0))
    x = np.broadcast_to(X[:1], X.shape)
    np.testing.assert_array_equal(model.outputs(params, x), x[:, ::-1])
    outputs, state = model.training_outputs(params, x, jax.random.key(1))
    assert set(np.unique(np.round(outputs / x[:, ::-1], 3))) == {0, 2}
    assert (outputs != outputs[0]).any()
    assert state == ()


def test_parameters_become_a_module_again():
    model = maxfl.from_equinox(lambda key: eqx.nn.Linear(4, 3, key=key))
    params = model.init(jax.random.key(0))
    module = eqx.combine(params, eqx.nn.Linear(4, 3, key=jax.random.key(9)))
    np.testing.assert_allclose(jax.vmap(module)(X), model.outputs(params, X), atol=1e-5)
