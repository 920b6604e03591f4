"""From what clients require to thresholds: values of single clients, and the rest of them."""

import numpy as np
import pytest

import maxfl
from maxfl.core.criterion import Criterion
from maxfl.core.requirements.requirement import Solo
from maxfl.core.requirements.thresholds import align, needs_solo, thresholds

LOSS, ACCURACY = Criterion(), Criterion(0, higher_is_better=True)
ONE = (np.ones((2, 2)), np.array([0, 1]))
NAMED = maxfl.Federation.from_clients([ONE] * 3, [ONE] * 3, names=["north", "south", "7"])
SOLO = Solo(
    judging_loss=np.float32([[1, 2, 3]]),
    test_loss=np.float32([[4, 5, 6]]),
    test_metrics=(np.float32([[0.4, 0.5, 0.6]]),),
    judging_metric=np.float32([[0.7, 0.8, 0.9]]),
)


def found(requirement, criterion=LOSS):
    sides = thresholds(align(requirement, NAMED), criterion, NAMED, SOLO, 1)
    return tuple([round(float(rho), 6) for rho in side[0]] for side in sides)


def test_values_in_order_and_by_name():
    assert found(maxfl.per_client([0.5, 0.25, 0.75])) == ([0.5, 0.25, 0.75],) * 2
    by_name = maxfl.per_client({"south": 0.25, 7: 0.75, "north": 0.5})
    assert found(by_name) == ([0.5, 0.25, 0.75],) * 2
    pairs = maxfl.per_client([0.5, 0.25, 0.75], test=[1, 2, 3])
    assert found(pairs) == ([0.5, 0.25, 0.75], [1, 2, 3])
    by_name = maxfl.per_client({"south": 1, "north": 1, 7: 1}, {7: 3, "south": 2, "north": 1})
    assert found(by_name) == ([1, 1, 1], [1, 2, 3])


@pytest.mark.parametrize(
    ("otherwise", "train", "test"),
    [
        (maxfl.solo(2.0), [2, 0.5, 6], [8, 0.5, 12]),
        (maxfl.fixed(0.125), [0.125, 0.5, 0.125], [0.125, 0.5, 0.125]),
        (maxfl.custom(lambda _, solo: solo.test_loss), [4, 0.5, 6], [4, 0.5, 6]),
    ],
)
def test_clients_without_a_value_fall_back(otherwise, train, test):
    assert found(maxfl.per_client({"south": 0.5}, otherwise=otherwise)) == (train, test)
    in_order = maxfl.per_client([np.nan, 0.5, None], otherwise=otherwise)
    assert found(in_order) == (train, test)


def test_values_of_a_metric():
    alone = maxfl.solo(0.5, metric="accuracy")
    assert found(alone, ACCURACY) == ([0.35, 0.4, 0.45], [0.2, 0.25, 0.3])
    assert found(maxfl.metric("accuracy", 0.8), ACCURACY) == ([0.8] * 3,) * 2
    mixed = maxfl.per_client({"7": 0.95}, metric="accuracy", otherwise=maxfl.solo())
    assert mixed.metric == "accuracy"
    assert found(mixed, ACCURACY) == ([0.7, 0.8, 0.95], [0.4, 0.5, 0.95])


def test_a_rule_may_give_a_pair():
    pair = maxfl.custom(lambda _, solo: (solo.judging_loss, np.array([9, 8, 7])))
    assert found(pair) == ([1, 2, 3], [9, 8, 7])
    by_metric = maxfl.custom(lambda _, solo: solo.judging_metric, metric="accuracy")
    assert found(by_metric, ACCURACY) == ([0.7, 0.8, 0.9],) * 2


def test_some_clients_of_many_have_their_values():
    few = NAMED._replace(train=NAMED.train._replace(offsets=NAMED.train.offsets[:3]))
    aligned = align(maxfl.per_client([5.0, 6.0, 7.0]), NAMED)
    one = Solo(*(np.ones((1, 2), np.float32),) * 2, (np.ones((1, 2), np.float32),))
    assert thresholds(aligned, LOSS, few, one, 1, np.array([2, 0])).judging.tolist() == [[7, 5]]


def test_solo_models_are_needed_where_somebody_compares_with_them():
    assert needs_solo(maxfl.solo())
    assert not needs_solo(maxfl.fixed(1.0))
    assert not needs_solo(maxfl.metric("accuracy", 0.5))
    assert not needs_solo(align(maxfl.per_client([1, 2, 3]), NAMED))
    assert needs_solo(align(maxfl.per_client([1, 2, np.nan], otherwise=maxfl.solo()), NAMED))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: maxfl.per_client([1, 2]), "has 2 values, and the federation 3 clients"),
        (lambda: maxfl.per_client({"north": 1}), "2 of 3 clients have no requirement .south, 7."),
        (lambda: maxfl.per_client([1, np.nan, 2]), "give them one, or say what they require"),
        (
            lambda: maxfl.per_client({"north": 1, 7: 2, "sout": 3, "x": 4}),
            r"1 of 3 .* no requirement .south., and requirements name 2 clients that the "
            r"federation does not have .sout, x.: give them .* Did you mean 'south'",
        ),
    ],
)
def test_values_that_do_not_fit_the_clients_are_refused(make, words):
    with pytest.raises(maxfl.InputError, match=words):
        align(make(), NAMED)


def test_a_name_that_may_be_a_slip_is_said():
    given = maxfl.per_client({"nort": 1, "south": 2, 7: 3}, otherwise=maxfl.solo())
    words = r"name 1 client .* not have .nort., while 1 of its clients .* Did you mean 'north'"
    with pytest.warns(maxfl.TrainingWarning, match=words):
        assert align(given, NAMED).clients.judging[1:].tolist() == [2, 3]


def test_values_of_clients_that_were_left_out_do_no_harm():
    more = maxfl.per_client({"north": 1, "south": 2, "7": 3, "too small": 4})
    assert found(more) == ([1, 2, 3],) * 2
