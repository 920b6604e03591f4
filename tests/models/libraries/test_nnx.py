"""Models of flax.nnx, with BatchNorm and dropout."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from support.adapted import X, check_batch_norm

pytestmark = pytest.mark.extras
nnx = pytest.importorskip("flax.nnx", reason="needs maxfl[flax]")


class Normalised(nnx.Module):
    """BatchNorm, a dense layer, and a counter."""

    def __init__(self, rngs):
        self.norm = nnx.BatchNorm(4, momentum=0.9, rngs=rngs)
        self.layers = nnx.List([nnx.Linear(4, 3, rngs=rngs)])
        self.steps = nnx.Variable(jnp.zeros((), jnp.int32))

    def __call__(self, x):
        self.steps[...] += 1
        return self.layers[0](self.norm(x))


class Dropped(nnx.Module):
    """Dropout, twice."""

    def __init__(self, rngs):
        self.first, self.second = (nnx.Dropout(0.5, rngs=rngs) for _ in range(2))

    def __call__(self, x):
        return jnp.stack([self.first(x), self.second(x)])


def test_statistics_are_state():
    model = maxfl.from_nnx(Normalised)
    variables = jax.jit(model.init)(jax.random.key(0))
    assert isinstance(variables, maxfl.Variables)

    def statistics(state):
        return state["norm"]["mean"], state["norm"]["var"]

    kernel = variables.params["layers"][0]["kernel"]
    state = check_batch_norm(model, variables, statistics, kernel, 1e-5)
    assert (state["steps"], state["steps"].dtype) == (1, jnp.float32)
    evaluated = model.outputs(variables._replace(state=state), X)
    wanted = (X - state["norm"]["mean"]) / np.sqrt(state["norm"]["var"] + 1e-5) @ kernel
    np.testing.assert_allclose(evaluated, wanted, atol=1e-4)


def test_dropout_is_drawn_in_training_alone():
    model = maxfl.from_nnx(Dropped)
    params = model.init(jax.random.key(0))
    np.testing.assert_array_equal(model.outputs(params, X)[0], X)
    outputs, state = model.training_outputs(params, X, jax.random.key(1))
    other, _ = model.training_outputs(params, X, jax.random.key(2))
    assert set(np.unique(np.round(outputs / X, 3))) == {0, 2}
    assert state == ()
    assert (outputs != other).any()
    assert (outputs[0] != outputs[1]).any()


def test_a_trained_module_keeps_its_parameters():
    module = nnx.Linear(4, 3, rngs=nnx.Rngs(5))
    model = maxfl.from_nnx(module)
    params = model.init(jax.random.key(0))
    np.testing.assert_array_equal(params["kernel"], module.kernel[...])
    np.testing.assert_allclose(model.outputs(params, X), module(X), atol=1e-5)


def test_a_call_that_takes_random_streams_gets_them():
    class Noisy(nnx.Module):
        def __init__(self, _rngs):
            self.scale = nnx.Param(jnp.ones(()))

        def __call__(self, x, *, rngs):
            return x + self.scale * rngs.normal(())

    model = maxfl.from_nnx(Noisy)
    params = model.init(jax.random.key(0))
    first, second = (model.training_outputs(params, X, jax.random.key(i))[0] for i in (1, 2))
    assert abs(first - second).max() > 1e-3
