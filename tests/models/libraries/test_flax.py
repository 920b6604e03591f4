"""Models of flax.linen, with BatchNorm and dropout."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from support.adapted import X, check_batch_norm

pytestmark = pytest.mark.extras
nn = pytest.importorskip("flax.linen", reason="needs maxfl[flax]")


class Normalised(nn.Module):
    """BatchNorm, a dense layer, and a counter."""

    @nn.compact
    def __call__(self, x, train):
        x = nn.BatchNorm(use_running_average=not train, momentum=0.9)(x)
        self.variable("counts", "steps", lambda: jnp.zeros((), jnp.int32)).value += train
        return nn.Dense(3)(x)


class Dropped(nn.Module):
    """Dropout alone, as a module without parameters."""

    @nn.compact
    def __call__(self, x, deterministic=True):
        return nn.Dropout(0.5, deterministic=deterministic)(x)


class Noisy(nn.Module):
    """A stream and a flag with names of their own."""

    @nn.compact
    def __call__(self, x, learn):
        return nn.Dense(2)(x) + (jax.random.normal(self.make_rng("noise"), ()) if learn else 0)


def test_statistics_are_state():
    model = maxfl.from_flax(Normalised(), X[:1])
    variables = model.init(jax.random.key(0))
    assert isinstance(variables, maxfl.Variables)
    dense = variables.params["Dense_0"]

    def statistics(state):
        found = state["batch_stats"]["BatchNorm_0"]
        return found["mean"], found["var"]

    state = check_batch_norm(model, variables, statistics, dense["kernel"], 1e-5)
    assert state["counts"]["steps"] == 1
    assert state["counts"]["steps"].dtype == jnp.float32


def test_dropout_is_drawn_in_training_alone():
    model = maxfl.from_flax(Dropped(), X)
    np.testing.assert_array_equal(model.outputs({}, X), X)
    outputs, state = model.training_outputs({}, X, jax.random.key(1))
    again, _ = model.training_outputs({}, X, jax.random.key(1))
    assert set(np.unique(np.round(outputs / X, 3))) == {0, 2}
    assert state == ()
    np.testing.assert_array_equal(outputs, again)


def test_other_names_of_flags_and_streams_can_be_given():
    model = maxfl.from_flax(Noisy(), X, train_argument="learn", rngs=("dropout", "noise"))
    params = model.init(jax.random.key(0))
    shift = model.training_outputs(params, X, jax.random.key(1))[0] - model.outputs(params, X)
    assert abs(shift[0, 0]) > 1e-3
    np.testing.assert_allclose(shift, shift[0, 0], atol=1e-5)


def test_equal_modules_give_equal_models():
    first, second = (maxfl.from_flax(Normalised(), X, keep_local=True) for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
    assert first != maxfl.from_flax(Normalised(), X)
    assert first.keep_local


def test_anything_else_is_refused():
    for given in (lambda x: x, Normalised):
        with pytest.raises(maxfl.InputError, match="expected an instance of flax"):
            maxfl.from_flax(given, X)
