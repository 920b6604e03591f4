"""MaxFL without tuning: its temperature by hand, many rounds against the oracle, and its scale."""

import math

import numpy as np
import pytest

import maxfl
from maxfl.algorithms.maxfl_auto import HParams, ServerState, next_state, temperature
from support.oracle_maxfl import ROUNDS, assert_many_rounds
from support.oracle_runs import TRAINING, participants, trained

NUMBERS = HParams(multiple=2.0, quantile=0.25, gain=0.5, epsilon=0.02, scale=0.0)


def temperatures(history, numbers=NUMBERS):
    """T of every round, in plain Python, from what clients measured."""
    rho, losses = history.thresholds.judging[0], history.evaluation.judging_loss[0]
    s, found = 0.0, []
    for t in range(ROUNDS):
        gaps = [abs(float(losses[t, k]) - float(rho[k])) for k in participants(history, t)]
        found.append(numbers.multiple * s if s else math.inf)
        share = sum(gap < s for gap in gaps) / len(gaps)
        s = s * math.exp(numbers.gain * (numbers.quantile - share)) if s else float(np.mean(gaps))
    return found


def test_the_first_round_weighs_all_alike_and_finds_the_scale():
    state = ServerState(np.float32(0), np.float32(0))
    assert temperature(NUMBERS, state) == math.inf
    state = next_state(NUMBERS, state, near=0, gaps=6.0, participated=4)
    assert tuple(map(float, state)) == (1.0, 1.5)
    assert temperature(NUMBERS, state) == 3.0


@pytest.mark.parametrize(("near", "power"), [(0, 0.25), (1, 0.0), (2, -0.25), (4, -0.75)])
def test_the_scale_follows_the_share_of_near_clients(near, power):
    before = ServerState(np.float32(7), np.float32(2.0))
    after = next_state(NUMBERS, before, near=near, gaps=math.nan, participated=4)
    assert after.rounds == 8
    assert after.scale == pytest.approx(2.0 * math.exp(0.5 * power), rel=1e-6)


def test_a_given_scale_is_begun_with():
    given = NUMBERS._replace(scale=0.5)
    state = ServerState(np.float32(0), np.float32(0))
    assert temperature(given, state) == 1.0
    after = next_state(given, state, near=1, gaps=100.0, participated=4)
    assert after.scale == 0.5


def test_many_rounds_agree_with_the_oracle():
    options = {
        "participation": maxfl.opt_out(2),
        "requirement": maxfl.solo(2.0, steps=5, local_lr=0.2, batch_size=4),
    }
    algorithm = maxfl.maxfl_auto(*NUMBERS)
    found = temperatures(trained(algorithm, TRAINING._replace(rounds=ROUNDS), **options))
    assert found[0] == math.inf
    assert len(set(found)) == ROUNDS, "the temperature should move in every round"
    assert_many_rounds(algorithm, temperatures=found, **options)


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ({"multiple": 0.0}, "algorithm.multiple"),
        ({"quantile": 1.0}, "algorithm.quantile"),
        ({"gain": -1.0}, "algorithm.gain"),
        ({"scale": -1.0}, "algorithm.scale"),
    ],
)
def test_numbers_that_mean_nothing_are_refused(numbers, words):
    with pytest.raises(maxfl.InputError, match=words):
        maxfl.maxfl_auto(**numbers)
