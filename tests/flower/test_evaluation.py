"""Replies to an evaluation: appeal, and clients whose metrics are odd."""

import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from flwr.app import ConfigRecord, MessageType

from maxfl.flower import MaxFL, keys
from support.flower_nodes import START, Nodes, arrays, make_app

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]


def test_evaluation_tells_appeal_too():
    strategy = MaxFL()
    nodes = Nodes(make_app(1.0, 2.0), make_app(3.0, 2.0))
    messages = strategy.configure_evaluate(1, arrays(START), ConfigRecord(), nodes)
    metrics = strategy.aggregate_evaluate(1, nodes.send_and_receive(messages))
    assert metrics[keys.SATISFIED] == 0.5


def test_odd_metrics_do_not_end_an_evaluation():
    def listed(message, context):
        reply = make_app(1.0, 2.0)(message, context)
        if message.metadata.message_type == MessageType.EVALUATE:
            reply.content["metrics"]["accuracy"] = [0.5, 0.5]
        return reply

    def renamed(message, context):
        reply = make_app(1.0, 2.0)(message, context)
        if message.metadata.message_type == MessageType.EVALUATE:
            reply.content["other"] = reply.content.pop("metrics")
        return reply

    huge = make_app(1.0, 2.0, num_examples=1e300)
    nodes = Nodes(*[make_app(1.0, 2.0)] * 3, listed, renamed, huge, None)
    strategy = MaxFL(collect_losses=True)
    strategy.start(nodes, arrays(START), num_rounds=1)
    (entry,) = strategy.rounds
    assert entry.evaluation.responded == 3
    late = [event.node for event in entry.events if event.reason.startswith("evaluation")]
    assert sorted(late) == [14, 15, 16, 17]


def test_a_byzantine_client_does_not_end_an_evaluation():
    nodes = Nodes(make_app(1.0, 2.0), make_app(1.0, 2.0), make_app(3.0, 2.0, other=1.0))
    strategy = MaxFL()
    strategy.start(nodes, arrays(START), num_rounds=1)
    (entry,) = strategy.rounds
    assert (entry.evaluation.responded, entry.evaluation.satisfied) == (2, 2)
    assert [event.reason for event in entry.events] == ["evaluation: other metrics than most"]
