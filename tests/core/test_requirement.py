"""What clients demand: the kinds of requirement."""

import numpy as np
import pytest

import maxfl
from support.small import SMALL, simulation

STEPS = 6


def prepare(requirement):
    return simulation(maxfl.fedavg(), requirement=requirement, seed=3).prepare()


def test_kinds_of_requirement():
    solo, thresholds = prepare(maxfl.solo(multiple=[2.0, 0.5], steps=STEPS))
    np.testing.assert_allclose(thresholds.train, [[2], [0.5]] * solo.train_loss)
    np.testing.assert_allclose(thresholds.test, [[2], [0.5]] * solo.test_loss)
    _, thresholds = prepare(maxfl.fixed([0.7, 0.9], steps=STEPS))
    np.testing.assert_allclose(thresholds.train, np.repeat([[0.7], [0.9]], SMALL.clients, 1))
    rule = maxfl.custom(lambda fed, solo: solo.train_loss + 1 / fed.train_sizes, steps=STEPS)
    solo, thresholds = prepare(rule)
    np.testing.assert_allclose(thresholds.test, solo.train_loss + 1 / SMALL.train_sizes)


@pytest.mark.parametrize("given", [[1.0], np.full(8, np.nan), "words"])
def test_a_rule_that_gives_nonsense_is_refused(given):
    with pytest.raises(maxfl.InputError, match="the requirement's rule gave"):
        prepare(maxfl.custom(lambda *_: given, steps=STEPS))


def test_bad_numbers_are_refused():
    for make in (
        lambda: maxfl.solo(multiple=0),
        lambda: maxfl.solo(steps=-1),
        lambda: maxfl.solo(steps=5.0),
        lambda: maxfl.fixed(float("nan")),
        lambda: maxfl.fixed(-1.0),
        lambda: maxfl.custom(3),
    ):
        with pytest.raises(maxfl.InputError, match=r"requirement\."):
            make()
