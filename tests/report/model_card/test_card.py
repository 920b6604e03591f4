"""Model cards say for whom a model does not work."""

import re

import maxfl
from maxfl.core.judging import with_judging
from maxfl.engine.experiment import make_experiment, origin_of
from maxfl.report.model_card.card import cards
from maxfl.report.model_card.model import local_step_lines
from maxfl.report.model_card.results import client_words
from maxfl.report.source import read
from maxfl.runs.results import write_history
from support.federations import make_clients
from support.made_runs import CLIENTS, ROUNDS, make_history
from support.small import MODEL


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


def test_the_card_says_how_many_samples_clients_judge_by(tmp_path):
    def card(name, sizes, judging):
        history = make_history(3, 2)._replace(judge="held-out")
        clients = make_clients(sizes)
        federation = maxfl.Federation.from_clients(clients, clients, judging=judging)
        federation = with_judging(federation, maxfl.solo().judging)
        experiment = make_experiment(federation, MODEL, maxfl.fedavg())
        history = history._replace(origin=origin_of(experiment, federation, 1))
        return cards(read([write_history(history, tmp_path / name)]))

    held = card("held", [8, 4, 3], None)
    assert "3 to 6 (median 3) training and 0 to 2 (median 1) judging samples each" in held
    assert "25 % of their training data." in held
    own = card("own", [8, 8, 8], make_clients([5] * 3, 1))
    assert "with 8 training and 5 judging samples each" in own
    assert "the judging part that the data have" in own
    none = card("none", [3, 3, 3], None)
    assert "with 3 training samples each" in none
    assert "all have too few samples to hold any out" in none
    assert "do not train on" not in none


def test_clients_are_called_by_name_or_number():
    assert [client_words(4), client_words("4"), client_words("scott")] == [
        "client 4",
        "client 4",
        "scott",
    ]


def test_local_steps_that_are_not_plain_are_named():
    assert local_step_lines({"local.optimizer": "sgd", "local.clip_norm": "inf"}) == []
    assert local_step_lines({"local.optimizer": "adamw"}) == [
        "Clients take steps of adamw, weight decay 0.01."
    ]
    assert local_step_lines({"local.clip_norm": 2.0, "schedule.local_warmup": 3.0}) == [
        "Clients take steps of sgd, gradients clipped to a norm of 2.0.",
        "The rate of the clients first rises over 3 rounds.",
    ]
