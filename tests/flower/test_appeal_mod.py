"""The mod of any client: what it measures, what it sends, and what it keeps."""

import math

import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from flwr.app import ConfigRecord, Message, MessageType, RecordDict

from maxfl.flower import MaxFL, appeal_mod, keys
from maxfl.utils.errors import InputError
from support.flower_nodes import START, Nodes, arrays, make_app, train
from support.flower_secure import Watched, secure_strategy

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]


def test_requirements_are_asked_once_and_stay_with_the_client():
    asked = []

    def requirement(message, context):  # noqa: ARG001
        asked.append(context.node_id)
        return 2.0

    nodes = Nodes(make_app(1.0, requirement), make_app(3.0, requirement))
    seen = []
    original = nodes.send_and_receive
    nodes.send_and_receive = lambda messages: seen.extend(original(messages)) or seen[-2:]
    results = train(MaxFL(), nodes, rounds=3)
    assert sorted(asked) == [11, 12]
    assert [m["gm-appeal"] for _, m in results] == [0.5] * 3
    for call, reply in enumerate(seen):
        (metrics,) = reply.content.metric_records.values()
        begins = {keys.GAP} if call < 2 else set()  # of which the scale begins as the mean
        expected = {"num-examples", keys.WEIGHT, keys.SATISFIED, keys.NEAR} | begins
        assert set(metrics) == expected


FOLLOWED = {keys.QUANTILE: 0.35}


@pytest.mark.parametrize("loss", [1.0, 1.2, 2.0, 2.8, 3.0])
def test_a_client_says_whether_it_is_near_its_requirement_if_it_is_told_a_scale(loss):
    """One on its requirement says the quantile, which moves the scale neither way."""
    nodes = Nodes(make_app(loss, 2.0))
    gap = abs(loss - 2.0)
    for config, expected in (
        (FOLLOWED | {keys.SCALE: 0.9}, (int(gap < 0.9) if gap else 0.35, None)),
        (FOLLOWED | {keys.SCALE: 0.0}, (0 if gap else 0.35, gap)),
        ({}, (None, None)),
    ):  # fmt: skip
        message = Message(
            RecordDict({"arrays": arrays(START), "config": ConfigRecord(config)}), dst_node_id=11,
            message_type=MessageType.TRAIN,
        )  # fmt: skip
        (reply,) = nodes.send_and_receive([message])
        metrics = reply.content["metrics"]
        assert (metrics.get(keys.NEAR), metrics.get(keys.GAP)) == expected


def test_satisfaction_is_reported_by_test_data_and_declining_by_judging_data():
    """By its judging data the first client is content, by its test data it is not."""
    strategy = MaxFL(decline_after=1)
    apps = [
        make_app(1.0, 2.0, test=(lambda *_: 3.0, 2.0)),
        make_app(3.0, 2.0, test=(lambda *_: 1.0, 2.0)),
    ]
    strategy.start(Nodes(*apps), arrays(START), num_rounds=2)
    last = strategy.rounds[-1]
    assert (last.counts.participated, last.counts.declined) == (1, 1)
    assert [event.node for event in last.events] == [12]
    assert last.events[0].reason == "by its judging data, the model does not meet its requirement"
    assert (last.evaluation.satisfied, last.evaluation.on_test) == (1, True)


def test_losses_are_sent_only_if_the_operator_collects_them():
    nodes = Nodes(make_app(1.0, 2.0), make_app(1.0, 2.0))
    strategy = MaxFL(temperature=1.0, collect_losses=True)
    messages = strategy.configure_train(1, arrays(START), ConfigRecord(), nodes)
    first = nodes.send_and_receive(messages)[0].content["metrics"]
    assert (first[keys.LOSS], first[keys.REQUIREMENT]) == (1.0, 2.0)


def test_a_requirement_that_is_no_number_is_told_at_the_client():
    nodes = Nodes(make_app(1.0, lambda *_: math.inf))
    message = Message(
        RecordDict({"arrays": arrays(START), "config": ConfigRecord()}), dst_node_id=11,
        message_type=MessageType.TRAIN,
    )  # fmt: skip
    with pytest.raises(InputError, match="requirement of this client came out as inf"):
        nodes.send_and_receive([message])


def test_a_client_without_the_mod_says_so():
    nodes = Watched(*[make_app(1.0, 2.0) for _ in range(3)])
    strategy, through = secure_strategy(nodes)
    train(strategy, through)
    assert all("secure_mod, appeal_mod" in event.reason for event in strategy.rounds[0].events)
    assert len(strategy.rounds[0].events) == 3


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: appeal_mod(lambda *_: 1.0, None), "neither a finite number nor a function"),
        (lambda: appeal_mod("loss", 1.0), "expected a function"),
        (lambda: appeal_mod(lambda *_: 1.0, math.nan), "neither a finite number"),
        (lambda: appeal_mod(lambda *_: 1.0, 1.0, held_out=None), "held_out= is called test= now"),
        (
            lambda: appeal_mod(lambda *_: 1.0, 1.0, tests=None),
            "no tests= here; expected",
        ),
        (lambda: appeal_mod(lambda *_: 1.0, 1.0, test=1.0), "a pair .loss_fn, requirement. for"),
        (lambda: appeal_mod(lambda *_: 1.0, 1.0, test=(1.0, 1.0)), "expected a function"),
    ],
)
def test_bad_arguments_are_told(make, words):
    with pytest.raises(InputError, match=words):
        make()
