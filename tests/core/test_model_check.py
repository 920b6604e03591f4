"""Models that do not fit the data, and state that nobody takes, are refused before any training."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from maxfl.core.model_check import check_model
from support import batch_norm


def federation(y, x=None):
    x = np.ones((2, 4), np.float32) if x is None else x
    return maxfl.Federation.from_clients([(x, y)], [(x, y)])


CLASSES = federation(np.array([0, 1]))
NUMBERS = federation(np.array([0.5, 1.5]))


def linear(outputs=2, **options):
    return maxfl.Model(
        lambda key: jax.random.normal(key, (4, outputs)), lambda w, x, _=None: x @ w, **options
    )


@pytest.mark.parametrize(
    ("model", "data"),
    [
        (linear(), CLASSES),
        (linear(1, loss=maxfl.losses.squared_error), NUMBERS),
        (linear(3, loss=maxfl.losses.multi_label), federation(np.ones((2, 3), int))),
        (batch_norm.MODEL, CLASSES),
        (maxfl.Model(batch_norm.init, batch_norm.apply, keep_local=True), CLASSES),
    ],
)
def test_what_fits_is_taken(model, data):
    check_model(model, data)


@pytest.mark.parametrize(
    ("model", "data", "what"),
    [
        (linear(), NUMBERS, "loss=maxfl.losses.squared_error"),
        (linear(2, loss=maxfl.losses.squared_error), NUMBERS, "one output for each number"),
        (linear(1), CLASSES, r"expected \[2, 2\] or more, one logit per class"),
        (linear(loss=lambda o, y: o.sum()), CLASSES, r"expected one number for each"),  # noqa: ARG005
        (linear(loss=lambda o: o), CLASSES, "the loss can't be computed"),
        (
            linear(metrics={"gap": maxfl.Metric(lambda o, y: o, higher_is_better=False)}),  # noqa: ARG005
            CLASSES,
            "the metric gap gives",
        ),
        (
            linear(3, loss=maxfl.losses.multi_label),
            federation(np.full((2, 3), 4)),
            "labels of 0 and 1, but they run from 4 to 4",
        ),
        (
            linear(tokens=True),
            federation(np.array([0, 1]), -np.ones((2, 4), int)),
            "smallest is -1",
        ),
        (linear(keep_local=True), CLASSES, "keep_local is set, but the model has no state"),
        (linear(tokens=True), CLASSES, "numbers of tokens, but features are float32"),
    ],
)
def test_what_does_not_fit_is_refused(model, data, what):
    with pytest.raises(maxfl.InputError, match=what):
        check_model(model, data)


def test_errors_of_any_library_are_explained():
    class LibraryError(Exception):
        pass

    def apply(*_):
        raise LibraryError("BatchNorm is not mutable")

    with pytest.raises(maxfl.InputError, match=r"can't be applied.*BatchNorm is not mutable"):
        check_model(maxfl.Model(lambda _: (), apply), CLASSES)


def test_new_state_must_be_returned_and_alike():
    forgets = maxfl.Model(batch_norm.init, lambda v, x, _=None: batch_norm.apply(v, x))
    with pytest.raises(maxfl.InputError, match=r"must return \(outputs, new state\)"):
        check_model(forgets, CLASSES)

    def counts(v, x, key=None):
        found = batch_norm.apply(v, x, key)
        return found if key is None else (found[0], {**found[1], "count": jnp.zeros(())})

    with pytest.raises(maxfl.InputError, match="must keep its structure"):
        check_model(maxfl.Model(batch_norm.init, counts), CLASSES)
    undeclared = maxfl.Model(
        lambda key: batch_norm.init(key).params,
        lambda p, x, key=None: batch_norm.apply(
            maxfl.Variables(p, batch_norm.init(key).state), x, key
        ),
    )
    with pytest.raises(maxfl.InputError, match="init returns no state"):
        check_model(undeclared, CLASSES)


def dropped(v, x, key=None):
    """Apply a BatchNorm, and drop its new statistics, as a careless wrapper does."""
    found = batch_norm.apply(v, x, key)
    return found if key is None else found[0]


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, jax.checkpoint])
def test_statistics_among_the_parameters_that_nobody_renews_are_refused(wrap):
    inner = wrap(lambda v, x, key: dropped(v, x, key))
    model = maxfl.Model(
        lambda key: tuple(batch_norm.init(key)),
        lambda p, x, key=None: inner(maxfl.Variables(*p), x, key),
    )
    with pytest.raises(maxfl.InputError, match=r"state in training mode that nobody takes.*mean"):
        check_model(model, CLASSES)


def test_statistics_that_apply_closes_over_are_refused():
    state = jax.tree.map(jnp.asarray, batch_norm.init(None).state)
    model = maxfl.Model(
        lambda key: batch_norm.init(key).params,
        lambda p, x, key=None: dropped(maxfl.Variables(p, state), x, key),
    )
    with pytest.raises(maxfl.InputError, match="an array that apply closes over"):
        check_model(model, CLASSES)


def test_what_only_evaluation_reads_is_no_state():
    """A temperature that scales logits in evaluation mode, or a constant, is nobody's mistake."""
    scale = jnp.array([2.0, 2.0])
    model = maxfl.Model(
        lambda key: jax.random.normal(key, (4, 2)),
        lambda w, x, key=None: x @ w * scale if key is None else x @ w,
    )
    check_model(model, CLASSES)


def test_state_that_never_changes_is_refused():
    def frozen_mode(v, x, key=None):
        outputs = batch_norm.apply(v, x)
        return outputs if key is None else (outputs, v.state)

    with pytest.raises(maxfl.InputError, match="returns its state unchanged in training mode"):
        check_model(maxfl.Model(batch_norm.init, frozen_mode), CLASSES)


def test_a_loss_without_a_gradient_is_refused():
    model = linear(loss=lambda outputs, y: (outputs.argmax(1) != y).astype(int))
    with pytest.raises(maxfl.InputError, match="the loss gives int32, which has no gradient"):
        check_model(model, CLASSES)
