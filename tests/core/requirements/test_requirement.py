"""What clients demand: the kinds of requirement."""

import numpy as np
import pytest

import maxfl
from support.small import PAPER, SMALL, simulation

STEPS = 6


def a_rule(_federation, solo):
    return solo.judging_loss


def prepare(requirement):
    return simulation(maxfl.fedavg(), requirement=requirement, seed=3).prepare()


def test_kinds_of_requirement():
    solo, thresholds = prepare(maxfl.solo(multiple=[2.0, 0.5], steps=STEPS, **PAPER))
    np.testing.assert_allclose(thresholds.judging, [[2], [0.5]] * solo.judging_loss)
    np.testing.assert_allclose(thresholds.test, [[2], [0.5]] * solo.test_loss)
    _, thresholds = prepare(maxfl.fixed([0.7, 0.9], steps=STEPS, **PAPER))
    np.testing.assert_allclose(thresholds.judging, np.repeat([[0.7], [0.9]], SMALL.clients, 1))

    def rule(federation, solo):
        return solo.judging_loss + 1 / federation.train_sizes

    solo, thresholds = prepare(maxfl.custom(rule, steps=STEPS, **PAPER))
    np.testing.assert_allclose(thresholds.test, solo.judging_loss + 1 / SMALL.train_sizes)


@pytest.mark.parametrize("given", [1.0, [1.0], np.full(8, np.nan), "words", ([1.0], [[2.0], []])])
def test_a_rule_that_gives_nonsense_is_refused(given):
    with pytest.raises(maxfl.InputError, match="the requirement's rule gave"):
        prepare(maxfl.custom(lambda *_: given, steps=STEPS, **PAPER))


def test_bad_numbers_are_refused():
    for make in (
        lambda: maxfl.solo(multiple=0),
        lambda: maxfl.solo(steps=-1),
        lambda: maxfl.solo(steps=5.5),
        lambda: maxfl.fixed(float("nan")),
        lambda: maxfl.fixed(-1.0),
        lambda: maxfl.custom(3),
        lambda: maxfl.custom(lambda _: 1.0),
        lambda: maxfl.metric(None, 0.5),
        lambda: maxfl.metric(maxfl.metrics.accuracy, 0.5),
        lambda: maxfl.metric("accuracy", "much"),
        lambda: maxfl.solo(metric=3),
    ):
        with pytest.raises(maxfl.InputError, match=r"requirement\."):
            make()


def test_it_prints_as_it_would_be_written():
    for requirement, words in (
        (maxfl.solo(), "solo(1.0, steps=100)"),
        (maxfl.solo([1, 2], metric="accuracy"), "solo([1, 2], steps=100, metric='accuracy')"),
        (
            maxfl.solo(local_lr=[0.1, 0.01], batch_size=4, judge_fraction=0.5),
            "solo(1.0, steps=100, local_lr=[0.1, 0.01], batch_size=4, judge_fraction=0.5)",
        ),
        (maxfl.fixed(0.5), "fixed(0.5)"),
        (maxfl.fixed(0.5, [7, 8], local_lr="training"),
         "fixed(0.5, steps=[7, 8], local_lr='training')"),
        (maxfl.per_client([1.0], batch_size=4), "per_client(1 values, batch_size=4)"),
        (maxfl.metric("mae", 0.3), "metric('mae', 0.3)"),
        (maxfl.custom(a_rule), "custom(a_rule)"),
        (maxfl.per_client([1.0, 2.0]), "per_client(2 values)"),
        (
            maxfl.per_client({"a": 1.0, "b": np.nan}, metric="mae", otherwise=maxfl.solo(2.0)),
            "per_client(1 values, metric='mae', otherwise=solo(2.0, steps=100, metric='mae'))",
        ),
    ):  # fmt: skip
        assert repr(requirement) == words


def test_solo_models_of_single_values_have_steps_too():
    assert maxfl.per_client([1.0], steps=7).training.steps == (7,)
    assert maxfl.per_client([1.0], otherwise=maxfl.solo(steps=8)).training.steps == (8,)
    with pytest.raises(maxfl.InputError, match=r"requirement\.steps"):
        maxfl.per_client([1.0], steps=-1)


def test_values_and_the_rest_are_of_one_metric():
    for metric, otherwise in (
        ("accuracy", maxfl.fixed(0.5)),
        (None, maxfl.metric("accuracy", 0.5)),
        ("accuracy", maxfl.solo(metric="other")),
    ):
        with pytest.raises(maxfl.InputError, match="a run has one that decides"):
            maxfl.per_client([1.0], metric=metric, otherwise=otherwise)
    with pytest.raises(maxfl.InputError, match="expected solo"):
        maxfl.per_client([1.0], otherwise=maxfl.per_client([1.0]))
    assert maxfl.per_client([1.0], metric="accuracy", otherwise=maxfl.solo(2.0)).multiple == 2.0


def test_options_of_the_rest_hold_for_single_values_unless_others_are_given():
    rest = maxfl.solo(steps=7, local_lr=0.3, judge_fraction=0.5)
    same = maxfl.per_client([1.0], otherwise=rest)
    assert (same.training, same.judging) == (rest.training, rest.judging)
    other = maxfl.per_client([1.0], otherwise=rest, steps=8, judge="training")
    assert other.training == rest.training._replace(steps=(8,))
    assert other.judging == ("training", 0.5)
    assert repr(maxfl.solo(judge="training")) == "solo(1.0, steps=100, judge='training')"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"local_lr": "train"}, 'local_lr = .train.: expected a number above 0, .* "training"'),
        ({"local_lr": []}, "local_lr = .*: expected a number above 0, a list of them, or"),
        ({"local_lr": [0.1, 0.0]}, "local_lr = 0: expected a finite number above 0"),
        ({"local_lr": True}, "local_lr = True: expected a number above 0"),
        ({"local_lr": [0.1, True]}, "local_lr = .0.1, True.: expected a number above 0"),
        ({"batch_size": {}}, 'batch_size = .*: expected a whole number above 0, .* or "training"'),
        ({"batch_size": [4, 0]}, "batch_size = 0: expected a whole number at least 1"),
        ({"steps": "training"}, "steps = 'training': expected a whole number at least 0, or"),
        ({"steps": []}, "steps = .*: expected a whole number at least 0, or a list of them"),
        ({"steps": [50, 0]}, "steps = .50, 0.: expected .*, or a list of them above 0"),
        ({"judge": "test"}, "judge = 'test': expected one of held-out, training"),
        ({"judge_fraction": 1.0}, "judge_fraction = 1: expected a finite number above 0 and below"),
        ({"judge_fraction": [0.1, 0.2]}, "judge_fraction = .0.1, 0.2.: expected one number"),
        ({"judge_fractoin": 0.1}, "has no judge_fractoin: expected .*mean 'judge_fraction'"),
    ],
)
def test_wrong_options_are_refused(options, words):
    for make in (maxfl.solo, lambda **given: maxfl.per_client([1.0], **given)):
        with pytest.raises(maxfl.InputError, match=words):
            make(**options)
