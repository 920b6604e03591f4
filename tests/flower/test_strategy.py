"""MaxFL's strategy with Flower's messages, in one process."""

import math

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from flwr.app import ConfigRecord, Error, Message
from flwr.serverapp.strategy import FedAvg

from maxfl.core import aggregators, appeal
from maxfl.flower import MaxFL, keys
from maxfl.flower import strategy as strategy_module
from maxfl.flower.round_log import format_round
from support.flower_nodes import START, Nodes, arrays, make_app, train

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]


def test_the_step_worked_by_hand():
    nodes = Nodes(make_app(1.0, 1.0, 0.5), make_app(3.0, 1.0, -1.0))
    ((model, metrics),) = train(MaxFL(temperature=1.0, epsilon=0.01, server_lr=2.0), nodes)
    q = [0.25, appeal.weight(3.0, 1.0)]
    step = 2.0 * (q[0] * 0.5 - q[1] * 1.0) / (sum(q) + 0.01)
    for name, before in START.items():
        np.testing.assert_allclose(model[name], before - step, rtol=1e-6)
        assert model[name].dtype == np.float32
    assert (metrics["sampled"], metrics["participated"], metrics["gm-appeal"]) == (2, 2, 0)


def test_clients_decline_after_the_warm_up_and_come_back():
    losses = {11: 1.0, 12: 3.0}
    strategy = MaxFL(decline_after=1)
    nodes = Nodes(*[make_app(lambda _, context: losses[context.node_id], 2.0) for _ in losses])
    train(strategy, nodes, rounds=2)
    assert strategy.counts[1] == (2, 2, 1, 0, 0, 0)
    assert strategy.counts[2] == (2, 1, 1, 1, 0, 0)
    losses[12] = 1.0
    messages = strategy.configure_train(3, arrays(START), ConfigRecord(), nodes)
    strategy.aggregate_train(3, nodes.send_and_receive(messages))
    assert strategy.counts[3] == (2, 2, 2, 0, 0, 0)


def test_below_min_participants_nobody_may_decline():
    strategy = MaxFL(decline_after=0, min_participants=2)
    train(strategy, Nodes(make_app(1.0, 2.0), make_app(3.0, 2.0)), rounds=3)
    assert [c.participated for c in strategy.counts.values()] == [1, 2, 1]


def test_with_nobody_the_model_stays():
    strategy = MaxFL(decline_after=0)
    ((model, metrics),) = train(strategy, Nodes(make_app(3.0, 2.0), make_app(3.0, 2.0)))
    np.testing.assert_array_equal(model["w"], START["w"])
    assert (metrics["declined"], metrics["gm-appeal"]) == (2, 0)


def test_errors_and_silence_are_counted():
    def fails(message, context):  # noqa: ARG001
        return Message(Error(3, "it broke"), reply_to=message)

    strategy = MaxFL(min_replies=2)
    ((model, metrics),) = train(strategy, Nodes(make_app(1.0, 2.0), fails, None))
    assert (metrics["sampled"], metrics["participated"], metrics["failed"]) == (3, 1, 2)
    np.testing.assert_array_equal(model["w"], START["w"])  # too few good replies


def test_observing_trains_as_fedavg_does():
    apps = [make_app(1.0, 2.0, 0.5, 10.0), make_app(3.0, 2.0, -1.0, 30.0)]
    ((model, metrics),) = train(MaxFL(observe_only=True), Nodes(*apps))
    ((plain, _),) = train(FedAvg(), Nodes(*apps))
    np.testing.assert_allclose(model["w"], plain["w"], rtol=1e-6)
    assert metrics["gm-appeal"] == 0.5


@pytest.mark.parametrize(
    "forged", [{"num_examples": -1.0}, {"num_examples": math.inf}, {"more": 1.0}]
)
def test_a_byzantine_client_does_not_end_the_observing(forged):
    honest = [make_app(1.0, 2.0, 0.5, 10.0), make_app(3.0, 2.0, -1.0, 30.0)]
    ((model, _),) = train(
        MaxFL(observe_only=True), Nodes(*honest, make_app(1.0, 2.0, 0.0, 40.0, **forged))
    )
    expected = honest if "more" not in forged else [*honest, make_app(1.0, 2.0, 0.0, 40.0)]
    ((plain, _),) = train(FedAvg(), Nodes(*expected))
    np.testing.assert_allclose(model["w"], plain["w"], rtol=1e-6)


def test_a_step_that_is_not_finite_is_not_taken():
    apps = [make_app(1.0, 2.0, sign * 1e38) for sign in (1, 1, 1)]
    strategy = MaxFL(max_update_norm=3e38, server_lr=1e3)
    ((model, metrics),) = train(strategy, Nodes(*apps))
    np.testing.assert_array_equal(model["w"], START["w"])
    assert metrics["participated"] == 3


def test_krum_with_too_few_replies_leaves_the_model_as_it_was(monkeypatch):
    """F = 1 wants five replies: of four, one that lies could be the one that is taken."""
    apps = [make_app(1.0, 2.0, update) for update in (0.1, 0.1, 0.1, 50.0, 0.1)]
    said = []
    monkeypatch.setattr(strategy_module, "log", lambda _, words, *given: said.append(words % given))
    strategy = MaxFL(aggregator=aggregators.krum(1), max_update_norm=1e6)
    ((model, _),) = train(strategy, Nodes(*apps[:4]))
    np.testing.assert_array_equal(model["w"], START["w"])
    assert "4 replies with a weight, and Krum needs more than 4: the model stays as it was" in said
    assert strategy.rounds[-1].no_step == "4 replies with a weight, and Krum needs more than 4"
    assert "the model stayed as it was: 4 replies" in format_round(strategy.rounds[-1])[-1]
    ((model, _),) = train(strategy, Nodes(*apps))
    assert (model["w"] != START["w"]).any()


def test_what_apps_tell_of_their_training_is_averaged():
    apps = [make_app(1.0, 2.0, 0.5, n, **{"train_loss": x}) for n, x in ((10.0, 1.0), (30.0, 2.0))]
    ((_, metrics),) = train(MaxFL(), Nodes(*apps))
    assert metrics["train-loss"] == pytest.approx(1.75)
    assert keys.WEIGHT not in metrics
