"""Learning rates over rounds, worked by hand."""

import numpy as np
import pytest

import maxfl
from maxfl import schedules
from maxfl.core.schedules import scheduled


def rates(schedule, rounds):
    return [float(scheduled(schedule, schedule.hparams, 2.0, t)) for t in range(rounds)]


def test_each_begins_at_one_and_ends_at_its_end():
    np.testing.assert_allclose(
        rates(schedules.linear(0.2, rounds=5), 6), [2, 1.6, 1.2, 0.8, 0.4, 0.4]
    )
    np.testing.assert_allclose(rates(schedules.cosine(0.5, rounds=3), 4), [2, 1.5, 1, 1], rtol=1e-6)
    np.testing.assert_allclose(
        rates(schedules.exponential(0.25, rounds=3), 4), [2, 1, 0.5, 0.5], rtol=1e-6
    )
    assert rates(schedules.constant(), 3) == [2, 2, 2]


def test_a_rate_first_warms_up():
    np.testing.assert_allclose(rates(schedules.constant(warmup=3), 5), [0.5, 1, 1.5, 2, 2])
    # Two rounds of warm-up at 1/3 and 2/3, then a line over the three rounds that are left.
    np.testing.assert_allclose(
        rates(schedules.linear(0.5, warmup=2, rounds=5), 5), [2 / 3, 4 / 3, 2, 1.5, 1], rtol=1e-6
    )


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: schedules.linear(0), "end"),
        (lambda: schedules.exponential(0), "end"),
        (lambda: schedules.cosine(warmup=-1), "warmup"),
        (lambda: schedules.cosine(rounds=0), "rounds"),
    ],
)
def test_bad_numbers_are_refused(make, what):
    with pytest.raises(maxfl.InputError, match=what):
        make()
