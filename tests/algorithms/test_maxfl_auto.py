"""MaxFL without tuning: its temperature by hand, many rounds against the oracle, and its scale."""

import math

import numpy as np
import pytest

import maxfl
from maxfl.algorithms.maxfl_auto import (
    HParams,
    ServerState,
    next_state,
    server_update,
    temperature,
)
from maxfl.core.algorithm import Cohort, Server, WeightedSum
from support.oracle_maxfl import ROUNDS, assert_many_rounds
from support.oracle_runs import TRAINING, participants, trained

NUMBERS = HParams(multiple=2.0, quantile=0.25, gain=0.5, epsilon=0.02, scale=0.0)
OPTIONS = {
    "participation": maxfl.opt_out(2),
    "requirement": maxfl.solo(2.0, steps=5, local_lr=0.2, batch_size=4),
}


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


@pytest.mark.parametrize("near", [0, 3])
def test_where_nobody_participated_the_scale_stays(near):
    before = ServerState(np.float32(7), np.float32(2.0))
    assert next_state(NUMBERS, before, near=near, gaps=0.0, participated=0).scale == 2.0


def cohort_of(gaps, requirement=0.8, **others):
    """A cohort that all participate in, at these distances from a requirement."""
    cost = np.float32(requirement) + np.array(gaps, np.float32)
    return Cohort(
        np.arange(len(gaps)), np.ones(len(gaps), bool), cost, np.full(len(gaps), requirement, "f"),
        np.ones(len(gaps), "f"), **others,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("gaps", "near"),
    [
        ([0.1, -0.1, 0.5, -0.5], 2),
        ([0.0, 8e-7, 0.5, -0.5], 0.5),  # two ties count as p = 0.25 each, the others are far
        ([0.0, 0.0, 0.0, 0.0], 1.0),  # p of all: s stays
        ([0.1, np.nan, 0.5, np.inf], 2),  # of two that say something, one
    ],
)
def test_ties_and_clients_without_a_gap_move_the_scale_neither_way(gaps, near):
    server = Server((), ServerState(np.float32(3), np.float32(0.2)))
    total = WeightedSum((), np.float32(1))
    _, after = server_update(NUMBERS, server, total, cohort_of(gaps))
    assert after.scale == pytest.approx(0.2 * math.exp(0.5 * (0.25 - near / 4)), rel=1e-6)


def test_the_scale_follows_the_gaps_that_weights_are_computed_from():
    """Of fine-tuned models, where clients fine-tune."""
    server = Server((), ServerState(np.float32(3), np.float32(0.2)))
    cohort = cohort_of([0.5, 0.5], finetuned_cost=np.full(2, 0.9, "f"))
    _, after = server_update(NUMBERS, server, WeightedSum((), np.float32(1)), cohort)
    assert after.scale == pytest.approx(0.2 * math.exp(0.5 * (0.25 - 1)), rel=1e-6)


@pytest.mark.slow  # compiles a program of its own
def test_where_all_weights_vanish_the_scale_rises_and_the_model_stays():
    """T is a millionth of the gaps: no weight is left, and nobody is near."""
    # In a round without anybody near, s grows by exp(γp) = exp(14), a million.
    algorithm = maxfl.maxfl_auto(gain=40.0, scale=1e-6)
    history = trained(algorithm, TRAINING._replace(rounds=ROUNDS), **OPTIONS)
    weight = history.evaluation.weight[0]
    assert (weight[0] == 0).all()
    assert (weight[1] > 0).any()


def test_many_rounds_agree_with_the_oracle():
    algorithm = maxfl.maxfl_auto(*NUMBERS)
    found = temperatures(trained(algorithm, TRAINING._replace(rounds=ROUNDS), **OPTIONS))
    assert found[0] == math.inf
    assert len(set(found)) == ROUNDS, "the temperature should move in every round"
    assert_many_rounds(algorithm, temperatures=found, **OPTIONS)


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
