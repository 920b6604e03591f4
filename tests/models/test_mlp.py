"""The MLP of the paper: its shapes, its start, its dropout, its steps at once on a GPU."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from maxfl.core.algorithm import descend
from maxfl.engine.minibatches import BatchGradient, Minibatches, Task
from maxfl.models import mlp
from support.small import DROPOUT_MODEL, SMALL

RATE = jnp.float32(0.3)


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


@pytest.fixture
def pretend(monkeypatch):
    """Return the function that pretends there is a kernel for at most so many steps at once."""

    def at_most(steps):
        monkeypatch.setattr(mlp, "most_perceptron_steps", lambda *_: steps)

    return at_most


@pytest.fixture
def counts(monkeypatch):
    """Collect how many steps are taken at once."""
    seen, take = set(), mlp._Perceptron.take_steps

    def count(self, params, steps):
        seen.add(len(steps.y))
        return take(self, params, steps)

    monkeypatch.setattr(mlp._Perceptron, "take_steps", count)
    return seen


def batch_gradient(model, client=0, **minibatches):
    """Return the gradient of a client of the small federation on minibatches of four."""
    train = jax.tree.map(jnp.asarray, SMALL.train)
    task = Task(model, SMALL.input_scaling, train)
    return BatchGradient(task, Minibatches(client, jax.random.key(7), 4, **minibatches))


def after_steps(gradient, params, steps=5, optimizer=None):
    """Return the parameters after local steps."""
    return descend(params, gradient, steps, RATE, optimizer)


def one_by_one(gradient):
    """Return a gradient that does not know how to take steps at once."""
    return lambda *arguments: gradient(*arguments)


@pytest.mark.parametrize(
    ("used", "flips"),
    [(None, None), (np.array([4, 3, 1, 2]), np.array([True, False, False, True]))],
    ids=["all samples", "some, and labels that are flipped"],
)
def test_steps_at_once_are_those_one_by_one(pretend, counts, used, flips):
    """Of four clients, with parameters, dropout and minibatches of their own: 2 + 2 + 1 steps."""
    pretend(2)
    params = jax.vmap(DROPOUT_MODEL.init)(jax.random.split(jax.random.key(1), 4))

    def trained(wrap, params, client, used, flips):
        classes = None if flips is None else SMALL.classes
        of_client = {"used": used, "flips": flips, "classes": classes}
        gradient = wrap(batch_gradient(DROPOUT_MODEL, client, **of_client))
        return after_steps(gradient, params)

    found, expected = (
        jax.jit(jax.vmap(partial(trained, wrap)))(params, jnp.arange(4), used, flips)
        for wrap in (lambda gradient: gradient, one_by_one)
    )
    assert counts == {1, 2}
    jax.tree.map(partial(np.testing.assert_allclose, atol=1e-5), found, expected)


@pytest.mark.slow
def test_derivatives_of_steps_at_once_are_those_one_by_one(pretend):
    pretend(2)
    params, gradient = DROPOUT_MODEL.init(jax.random.key(1)), batch_gradient(DROPOUT_MODEL, 2)

    def total(params, gradient):
        after = after_steps(gradient, params)
        return sum(jnp.sin(3 * a).sum() for a in jax.tree.leaves(after))

    found, expected = (
        jax.jit(jax.grad(partial(total, gradient=g)))(params)
        for g in (gradient, one_by_one(gradient))
    )
    jax.tree.map(partial(np.testing.assert_allclose, atol=1e-5), found, expected)


@pytest.mark.parametrize(
    ("most", "steps", "expected"),
    [(2, 5, {2, 1}), (3, 5, {3, 2}), (4, 9, {3}), (5, 11, {4, 3}), (8, 3, {3}), (1, 3, set())],
)
def test_steps_are_in_parts_of_about_one_size(pretend, counts, most, steps, expected):
    pretend(most)
    params = jax.eval_shape(DROPOUT_MODEL.init, jax.random.key(0))
    jax.eval_shape(partial(after_steps, batch_gradient(DROPOUT_MODEL), steps=steps), params)
    assert counts == expected


def squared(outputs, y):
    """Compute a loss of one's own, of labels of classes."""
    return ((outputs - jax.nn.one_hot(y, 3)) ** 2).mean(-1)


@pytest.mark.parametrize(
    "model",
    [
        maxfl.mlp(4, (6, 5), 3, dropout=0.4, loss=squared),
        maxfl.with_precision(DROPOUT_MODEL, "bfloat16"),
        maxfl.with_precision(DROPOUT_MODEL, "float32"),
        maxfl.fast_convolutions(DROPOUT_MODEL),
    ],
    ids=["another loss", "half precision", "full precision", "another apply"],
)
def test_steps_of_other_models_are_taken_one_by_one(pretend, counts, model):
    pretend(2)
    params = jax.eval_shape(model.init, jax.random.key(0))
    gradient = batch_gradient(model)
    assert gradient.steps_at_once(params, 5) == 0
    jax.eval_shape(partial(after_steps, gradient), params)
    assert not counts


@pytest.mark.parametrize(
    ("steps", "optimizer"),
    [(5, maxfl.local_optimizers.momentum()), (np.int32(5), None)],
    ids=["momentum", "a number that may differ"],
)
def test_other_steps_are_taken_one_by_one(pretend, counts, steps, optimizer):
    pretend(2)
    params = jax.eval_shape(DROPOUT_MODEL.init, jax.random.key(0))
    gradient = batch_gradient(DROPOUT_MODEL)
    jax.eval_shape(partial(after_steps, gradient, steps=steps, optimizer=optimizer), params)
    assert gradient.steps_at_once(params, 5) == 2
    assert not counts


def test_steps_are_taken_one_by_one_on_a_cpu():
    params, gradient = DROPOUT_MODEL.init(jax.random.key(0)), batch_gradient(DROPOUT_MODEL)
    assert gradient.steps_at_once(params, 5) == 0
    assert gradient.descend(params, 5, RATE) is None
