"""Models that do not fit the data are refused before any training."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from maxfl.core.checks.model import check_model
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


def test_a_loss_without_a_gradient_is_refused():
    model = linear(loss=lambda outputs, y: (outputs.argmax(1) != y).astype(int))
    with pytest.raises(maxfl.InputError, match="the loss gives int32, which has no gradient"):
        check_model(model, CLASSES)


def test_labels_beyond_the_vocabulary_are_refused():
    tokens = np.array([[1, 2, 0], [5, 1, 2]])
    model = maxfl.transformer(vocabulary=5, length=3, width=4, depth=1, heads=1)
    with pytest.raises(maxfl.InputError, match=r"up to 5, but the model has 5 logits, .* 0 to 4"):
        check_model(model, federation(tokens, tokens))
    inputs = np.minimum(tokens, 4)
    check_model(model, federation(inputs, inputs))
    padded = dataclasses.replace(model, loss=maxfl.losses.next_token(padding=5))
    check_model(padded, federation(tokens, inputs))
    padded = dataclasses.replace(model, loss=maxfl.losses.next_token(padding=-100))
    with pytest.raises(maxfl.InputError, match="smallest label is -1"):
        check_model(padded, federation(np.array([[1, -100, 0], [-1, 1, 2]]), inputs))
