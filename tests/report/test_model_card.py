"""Model cards say for whom a model does not work."""

import re

from maxfl.report.model_card import _called, _local_steps, cards
from maxfl.report.source import read
from support.made_runs import CLIENTS, ROUNDS, make_history


def test_the_card_says_for_whom_the_model_does_not_work(folders):
    history = make_history(CLIENTS, ROUNDS, unseen=2, drift=0.05, seed=0)
    unsatisfied = int((~history.satisfied()[0, -1, :10]).sum())
    text = cards(read(folders[:1]))
    assert text.startswith("# Model card: FedAvg, seed 0")
    assert f"It does not meet the requirement of {unsatisfied} of 10 seen clients" in text
    gap = (history.evaluation.test_loss[0, -1] - history.thresholds.test[0])[:10]
    assert f"client {gap.argmax()} (gap {gap.max():.2f})" in text
    counts = re.search(r"contradict the others': (\d) of (\d) unsatisfied, (\d) of (\d)", text)
    assert int(counts[1]) + int(counts[3]) == 2, "clients 0 and 5"
    assert int(counts[2]) == unsatisfied


def test_clients_are_called_by_name_or_number():
    assert [_called(4), _called("4"), _called("scott")] == ["client 4", "client 4", "scott"]


def test_local_steps_that_are_not_plain_are_named():
    assert _local_steps({"local.optimizer": "sgd", "local.clip_norm": "inf"}) == []
    assert _local_steps({"local.optimizer": "adamw"}) == [
        "Clients take steps of adamw, weight decay 0.01."
    ]
    assert _local_steps({"local.clip_norm": 2.0, "schedule.local_warmup": 3.0}) == [
        "Clients take steps of sgd, gradients clipped to a norm of 2.0.",
        "The rate of the clients first rises over 3 rounds.",
    ]
