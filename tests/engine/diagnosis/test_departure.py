"""What is said when everybody leaves: by hand, and of a run."""

import re
import warnings

import numpy as np
import pytest

import maxfl
from maxfl.core.criterion import Criterion
from maxfl.core.requirements.requirement import Solo, Thresholds
from maxfl.engine.diagnosis.departure import Departure, departure
from maxfl.engine.history import History
from maxfl.engine.state import CohortRecord, Evaluation
from support.small import PAPER, simulate

LOSS, ACCURACY = Criterion(), Criterion(0, higher_is_better=True)


def made(values, required, criterion=LOSS, stall=True):
    """Return a history of three seen clients, evaluated at rounds 0, 5, 10 and 20."""
    values = np.float32(values)[None]
    shape = values.shape
    willing = np.ones(shape, bool)
    willing[:, 2:] = not stall
    took_part = np.zeros((1, 20, 1), bool)
    took_part[:, :10] = True
    nobody = np.zeros((1, 20, 1), np.int32)
    evaluation = Evaluation(values, values, (values,), willing, values, (), values)
    rho = np.float32([required])
    return History(
        np.array([0, 5, 10, 20]), np.ones(3, bool), evaluation,
        CohortRecord(nobody, took_part, took_part, nobody), Solo(rho, rho, (rho,)),
        Thresholds(rho, rho), np.zeros((1, 3), bool), (), criterion=criterion,
    )  # fmt: skip


LOSSES = [[4, 4, 4], [2, 2.5, 3], [1.5, 2, 2.5], [1.5, 2, 2.5]]


def test_losses_by_hand():
    left = departure(made(LOSSES, [1.25, 1.5, 1.0]), 0, maxfl.solo())
    # Gaps at round 10 are 0.25, 0.5 and 1.5; those of round 5 have the median 1. So half a unit in
    # five rounds, and five more to go. Ratios are 1.2, 1.33 and 2.5.
    assert left == Departure(11, 3, 0.25, 0.5, ("multiple", pytest.approx(1.34)), 15)
    words = left.text("loss", 10)
    assert words == (
        "no client was willing from round 11 on. Then the nearest of 3 was 0.25 short of its "
        "requirement, in loss, and half of them 0.5 at most: requirement.multiple = 1.34 would "
        "have kept half of them; if that gap had gone on falling as it last did, "
        "participation.start_round = 15 (now 10) might have too"
    )
    attacked = left._replace(are_some_byzantine=True)
    assert attacked.text("loss", 10).startswith("no honest client was")
    twice = departure(made(LOSSES, [1.25, 1.5, 1.0]), 0, maxfl.solo(0.5))
    assert twice.remedy == ("multiple", pytest.approx(0.667))
    fixed = departure(made(LOSSES, [1.0, 1.0, 1.0]), 0, maxfl.fixed(1.0))
    assert fixed.remedy == ("loss", pytest.approx(2.01))
    each = departure(made(LOSSES, [1.0] * 3), 0, maxfl.per_client([1.0] * 3))
    assert each.remedy == ()
    assert "half of them 1 at most: requirements easier by that much" in each.text("loss", 10)


def test_a_metric_by_hand():
    values = [[0.1] * 3, [0.5, 0.6, 0.7], [0.5, 0.6, 0.7], [0.5, 0.6, 0.7]]
    left = departure(made(values, [0.8] * 3, ACCURACY), 0, maxfl.metric("accuracy", 0.8))
    assert left.nearest_gap == pytest.approx(0.1, abs=1e-5)
    assert left.remedy == ("value", pytest.approx(0.6))
    assert left.start_round is None
    assert "in accuracy" in left.text("accuracy", 10)
    assert "start_round" not in left.text("accuracy", 10)


def test_no_advice_is_given_that_can_not_be_taken():
    values = [[1.0] * 3] * 4
    for required in ([0.0] * 3, [-0.5] * 3):
        assert departure(made(values, required), 0, maxfl.solo()).remedy == ()
    # From the untrained model's gap to the first trained one's is no pace.
    early = made(LOSSES, [1.25, 1.5, 1.0])
    early = early._replace(rounds=np.array([0, 10, 20, 30]))
    assert departure(early, 0, maxfl.solo()).start_round is None


def test_nothing_is_said_while_clients_stay():
    assert departure(made(LOSSES, [1.0] * 3, stall=False), 0, maxfl.solo()) is None
    assert departure(made(LOSSES, [np.nan] * 3), 0, maxfl.solo()) is None


def test_a_run_says_it_and_the_remedy_keeps_half():
    def train(loss):
        return simulate(
            maxfl.fedavg(),
            participation=maxfl.opt_out(2),
            requirement=maxfl.fixed(loss, steps=5, **PAPER),
        )

    with pytest.warns(maxfl.TrainingWarning, match="no client was willing") as said:
        train(0.01)
    (text,) = (str(w.message) for w in said if "willing" in str(w.message))
    loss = float(re.search(r"requirement.loss = ([\d.]+)", text)[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error", maxfl.TrainingWarning)
        history = train(loss)
    at_start = int(np.searchsorted(history.rounds, 2))
    assert history.satisfied("judging")[0, at_start, history.is_seen].mean() >= 0.5
