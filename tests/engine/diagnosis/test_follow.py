"""Runs that train nothing, or in vain, say so while they go on."""

import re
import warnings

import numpy as np
import pytest

import maxfl
from maxfl.engine.diagnosis.follow import NEGLIGIBLE, UNLUCKY, Diagnosis
from maxfl.engine.state import Block, CohortRecord, ModelStep
from support.small import PAPER, SMALL, TRAINING, simulate, simulation

TWELVE = TRAINING._replace(rounds=12)


def test_a_temperature_that_is_too_low_is_named():
    with pytest.warns(
        maxfl.TrainingWarning, match=r"no client had a weight above 0 in rounds 1 to"
    ) as told:
        simulate(maxfl.maxfl(0.002), TWELVE, requirement=maxfl.fixed(0.1))
    small, *words = (str(warning.message) for warning in told)
    assert "too few samples to hold any out" in small
    assert len(words) == 1, "once, not after every block"
    assert "the temperature (0.002, in units of the loss) is too low for gaps of 0." in words[0]


def test_updates_that_are_lost_in_rounding_are_named():
    with pytest.warns(
        maxfl.TrainingWarning, match=r"stood still in rounds 1 to .*local_lr \(now 1e-12\)"
    ):
        simulate(maxfl.fedavg(), TWELVE._replace(local_lr=1e-12), requirement=maxfl.fixed(1.0))


def test_a_model_that_diverges_is_named_with_its_round():
    wild = TWELVE._replace(local_lr=1e30)
    with pytest.warns(maxfl.TrainingWarning) as told:
        history = simulate(maxfl.fedavg(), wild, requirement=maxfl.solo(1.2, steps=5, **PAPER))
    words = " ".join(str(w.message) for w in told)
    assert "losses are not finite from round 1 on: training diverged; lower" in words
    assert f"{SMALL.clients} of {SMALL.clients} clients train a solo model that is worse" in words
    assert "stood still" not in words
    assert history.failed().all()


@pytest.mark.parametrize(
    ("participation", "why"),
    [
        (
            maxfl.everyone(0.9999),
            r"none that was sampled replied \(participation.client_dropout is 1",
        ),
        (maxfl.opt_out(0), "none was willing"),
    ],
)
def test_a_run_in_which_nobody_participates_says_so(participation, why):
    words = f"no client participated in rounds 1 to 11, so that nothing was trained: {why}"
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        simulate(maxfl.fedavg(), TWELVE, participation=participation, requirement=maxfl.fixed(1e-6))
    small, first, *rest = (str(warning.message) for warning in said)
    assert "too few samples to hold any out" in small
    assert re.match(words, first)
    # What would have kept them is said at the end (departure.py).
    assert [text.partition(" from ")[0] for text in rest] == (
        ["no client was willing"] if "willing" in why else []
    )


def test_nothing_is_said_of_a_run_that_learns():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simulate(maxfl.maxfl(), TWELVE)


@pytest.mark.slow
def test_krum_with_too_few_replies_leaves_the_model_and_says_so():
    """A cohort of three and f = 0 will do; with clients that fail, at most two reply at times."""
    with pytest.warns(
        maxfl.TrainingWarning, match=r"rounds no more than 2 · num_byzantine \+ 2 = 2 clients sent"
    ):
        history = simulate(
            maxfl.maxfl(epsilon=0.0), TWELVE, aggregator=maxfl.aggregators.krum(0),
            attack=maxfl.attacks.byzantine(0.17, update_scale=-1.0), requirement=maxfl.fixed(0.5),
            participation=maxfl.everyone(0.2),
        )  # fmt: skip
    replies = history.cohorts.participated[0].sum(-1)
    stays = history.steps.step_norm[0] == 0
    assert 0 < stays.sum() < 12
    np.testing.assert_array_equal(stays, replies <= 2)


def made_block(rounds, step_norm, weight, participated=True):
    """A block of one configuration, six rounds of two clients each, evaluated at its end."""
    losses = np.full((1, 1, SMALL.clients), 2.0)
    evaluation = simulation_of().like(1).blocks[0].evaluation._replace(judging_loss=losses)
    shape = (1, 6, 2)
    taking = np.full(shape, participated)
    cohorts = CohortRecord(np.zeros(shape, int), taking, taking, np.full(shape, weight))
    norms = ModelStep(np.full((1, 6), step_norm), np.ones((1, 6)))
    return Block(np.array([rounds]), evaluation, cohorts, norms)


def simulation_of():
    return simulation(maxfl.maxfl(0.5), TRAINING._replace(rounds=100))


def test_stretches_by_hand():
    """Six still rounds, six with nobody, six still: twelve in a row; then one that moves."""
    session = simulation_of().session
    nobody = np.zeros((1, SMALL.clients), bool)
    losses = np.ones((1, SMALL.clients))
    diagnosis = Diagnosis(session, SMALL, nobody, losses, losses)
    assert diagnosis.follow(made_block(6, 0.9 * NEGLIGIBLE, 1e-9)) == []
    assert diagnosis.follow(made_block(12, 0.0, 0.0, participated=False)) == []
    assert diagnosis.follow(made_block(18, 0.0, 1e-8)) == [
        "no client had a weight above 1e-08 in rounds 1 to 18, so that the model stood still: the "
        "temperature (0.5, in units of the loss) is too low for gaps of 1 to 1"
    ]
    assert diagnosis.follow(made_block(24, 0.5, 0.2)) == []
    assert diagnosis.follow(made_block(30, 0.0, 0.2)) == []
    (finding,) = diagnosis.findings()[0]
    assert finding.kind == "no-weights"
    assert "rounds 1 to 18" in finding.text, "the longest stretch"


@pytest.mark.parametrize(
    ("options", "setting"),
    [
        ({"local_lr": (0.3, 0.1)}, r"requirement.local_lr \(now 0.3, 0.1\)"),
        ({"local_lr": "training"}, r"training.local_lr \(now 0.2\)"),
    ],
)
def test_solo_models_that_learnt_nothing_are_named_with_their_rates(options, setting):
    requirement = maxfl.solo(steps=5, **options)
    session = simulation(maxfl.maxfl(), requirement=requirement).session
    nobody = np.zeros((1, SMALL.clients), bool)
    assert UNLUCKY * SMALL.clients < 1
    bad = np.where(np.arange(SMALL.clients) == 2, 9.0, 1.0)[None]
    (words,) = Diagnosis(session, SMALL, nobody, bad, bad).follow(made_block(0, 0.5, 0.2))
    assert re.match(f"1 of 8 clients train a solo model .* one .2.*: lower {setting}$", words)


@pytest.mark.parametrize(("judge", "told"), [("held-out", 0), ("training", 1)])
def test_one_of_many_may_be_unlucky_with_what_it_holds_out(judge, told, monkeypatch):
    monkeypatch.setattr("maxfl.engine.diagnosis.follow.UNLUCKY", 0.2)
    requirement = maxfl.solo(steps=5, judge=judge)
    session = simulation(maxfl.maxfl(), requirement=requirement).session
    nobody = np.zeros((1, SMALL.clients), bool)
    bad = np.where(np.arange(SMALL.clients) == 2, 9.0, 1.0)[None]
    said = Diagnosis(session, SMALL, nobody, bad, bad).follow(made_block(0, 0.5, 0.2))
    assert len(said) == told


def test_a_model_that_all_want_need_not_move():
    nobody = np.zeros((1, SMALL.clients), bool)
    required = np.full((1, SMALL.clients), 3.0)
    diagnosis = Diagnosis(simulation_of().session, SMALL, nobody, required, required)
    assert diagnosis.follow(made_block(6, 0.0, 0.0)) == []
    (words,) = diagnosis.follow(made_block(12, 0.0, 0.0))
    assert words.endswith("stood still: the requirements of all clients are met")


def test_a_model_is_its_length():
    """The norms of a step, against NumPy."""
    history = simulate(maxfl.fedavg(), TRAINING._replace(rounds=3), requirement=maxfl.fixed(1.0))
    leaves = [np.asarray(leaf[0]).ravel() for layer in history.params for leaf in layer]
    assert history.steps.model_norm[0, -1] == pytest.approx(np.linalg.norm(np.concatenate(leaves)))
    assert (history.steps.step_norm > 0).all()
