"""Thousands of hostile replies through the real strategy: each is an event, and none counts."""

import json
import math

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from flwr.app import Array, ConfigRecord, Error, Message, MessageType, MetricRecord

import maxfl
from maxfl.flower import MaxFL, keys
from maxfl.flower.replies.metrics import MAX_METRICS, MAX_NAME_LENGTH, MAX_NUMBERS
from support.flower_nodes import START, Nodes, arrays, make_app, train

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]

NO_NUMBERS = (math.nan, math.inf, -math.inf, 1e308, [], [math.nan], [1.0, 2.0])
EXTRA = "train-loss"
"""A metric of the apps', beside those that MaxFL asks for."""
TRAINING = {
    keys.WEIGHT: (*NO_NUMBERS, -0.1, 0.3, 1, 2**62),
    keys.SATISFIED: (*NO_NUMBERS, 2, -1, 0.5),
    EXTRA: (*NO_NUMBERS[:-1], [1.0] * (MAX_NUMBERS + 1)),
}
FOLLOWED = {keys.NEAR: (*NO_NUMBERS, 2, -1, 0.5), keys.GAP: NO_NUMBERS[:-1]}
"""What is asked where the temperature follows the gaps."""
EVALUATION = {
    keys.SATISFIED: (*NO_NUMBERS, 2, -1),
    keys.ON_TEST: (*NO_NUMBERS, 2, -1),
    keys.PARTITION: (*NO_NUMBERS, -1, 2**40, 0.5),
    "num-examples": (*NO_NUMBERS, 0, -3.0, 2**62),
    "accuracy": (*NO_NUMBERS, 1.5, -0.1),
}


def metric(rng, pool):
    """A metric that is no good, or too many of them, or too long a name."""
    kind = rng.integers(10)
    if kind == 0:
        return lambda content: content["metrics"].update(
            {f"m{i}": 1.0 for i in range(MAX_METRICS + 1)}
        )
    if kind == 1:
        return lambda content: content["metrics"].update({"x" * (MAX_NAME_LENGTH + 1): 1.0})
    if kind == 2:
        return lambda content: content.pop("metrics")
    if kind == 3:
        return lambda content: content.update({"more": MetricRecord({"a": 1.0})})
    name = list(pool)[rng.integers(len(pool))]
    value = pool[name][rng.integers(len(pool[name]))]
    return lambda content: content["metrics"].update({name: value})


def changed(record, name, change):
    """Put what a function makes of an array's bytes into its place."""
    array = record[name]
    record[name] = Array(array.dtype, array.shape, array.stype, change(array.data))


def array(rng):
    """An array that is none, or not the model's."""
    values = [
        np.array([1, math.nan, 2], np.float32), np.array([1, -math.inf, 2], np.float32),
        np.ones(4, np.float32), np.ones((3, 1), np.float32), np.ones(3), np.ones(3, np.int64),
        np.zeros(0, np.float32),
    ]  # fmt: skip
    kind = rng.integers(len(values) + 7)
    if kind < len(values):
        replaced = {n: values[kind] if n == "w" else a for n, a in START.items()}
        return lambda content: content.update({"arrays": arrays(replaced)})
    kind -= len(values)
    if kind == 0:
        return lambda content: content.update({"arrays": arrays({"w": START["w"]})})
    if kind == 1:
        return lambda content: content.update({"more": arrays(START)})
    cut, noise = int(rng.integers(1, 60)), rng.bytes(200)
    if kind == 2:  # (True, 1) equals (1, 1), the shape of b
        return lambda content: changed(
            content["arrays"], "b", lambda data: data.replace(b"(1, 1), }  ", b"(True, 1), }")
        )
    changes = (
        lambda _: noise,
        lambda data: data[:-cut],
        lambda data: data.replace(b"(3,), }", b"(9**9,)}"),
        lambda data: data.replace(b"'<f4'", b"'|O' "),
    )
    return lambda content: changed(content["arrays"], "w", changes[kind - 3])


def hostile(seed, asked):
    """A client that does harm in another way every time, or is nothing but an error."""
    rng, honest = np.random.default_rng(seed), make_app(1.0, 2.0, train_loss=0.1)

    def answer(message, context):
        reply = honest(message, context)
        training = message.metadata.message_type == MessageType.TRAIN
        if rng.random() < 0.05:
            return Message(Error(7, "\x1b[2J\x07 gone \u202e" * 50), reply_to=message)
        if training and rng.random() < 0.5:
            array(rng)(reply.content)
        else:
            metric(rng, asked if training else EVALUATION)(reply.content)
        return reply

    return answer


UNBOUNDED = {keys.WEIGHT: (*NO_NUMBERS, -0.1, 1, 2**62)}
"""Under q-FFL 0.3 is a weight."""
SEVERAL = {
    keys.MODEL: (*NO_NUMBERS, -1, 2, 2**62, 0.5, 1.0),
    keys.UNMET_GAP: (*NO_NUMBERS, -1.0),
}
"""What is asked where there are several models."""
METHODS = {
    "auto": ({}, TRAINING | FOLLOWED),
    "observed": ({"observe_only": True}, TRAINING),
    "q-FFL": ({"algorithm": "qffl", "local_lr": 0.1}, TRAINING | UNBOUNDED),
    "SCAFFOLD": ({"algorithm": "scaffold"}, TRAINING),
    "Adam": (
        {"server_optimizer": maxfl.server_optimizers.adam(), "server_lr": 0.01},
        TRAINING | FOLLOWED,
    ),
    "portfolio": ({"portfolio": maxfl.portfolio(2)}, TRAINING | FOLLOWED | SEVERAL),
}


@pytest.mark.parametrize("method", METHODS)
def test_a_thousand_hostile_replies_cost_nothing(tmp_path, method):
    rounds, attackers = 10, 50  # each is asked twice in a round
    chosen, asked = METHODS[method]
    honest = [make_app(1.0, 2.0, 0.1, train_loss=0.3), make_app(3.0, 2.0, 0.2, train_loss=0.2)]
    options, start = {"collect_losses": True, **chosen}, arrays(START)
    if method == "portfolio":
        start = [start, arrays({name: array + 1 for name, array in START.items()})]
    without = MaxFL(**options).start(Nodes(*honest), start, num_rounds=rounds)
    strategy = MaxFL(folder=tmp_path / "run", **options)
    nodes = Nodes(*honest, *[hostile(seed, asked) for seed in range(attackers)])
    result = strategy.start(nodes, start, num_rounds=rounds)
    for name in START:
        np.testing.assert_array_equal(result.arrays[name].numpy(), without.arrays[name].numpy())
    for entry in strategy.rounds:
        assert entry.counts.participated == len(honest)
        assert entry.evaluation.responded == len(honest)
        assert len(entry.events) == 2 * attackers
        assert all(event.reason.isprintable() and event.reason for event in entry.events)
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    assert len(summary["configurations"][0]["events"]) == 2 * attackers * rounds


def test_second_replies_and_those_of_strangers_do_not_count():
    apps = [make_app(1.0, 2.0, 0.1), make_app(1.0, 2.0, 0.3)]
    strategy, nodes = MaxFL(temperature=1.0), Nodes(*apps)
    messages = list(strategy.configure_train(1, arrays(START), ConfigRecord(), nodes))
    replies = nodes.send_and_receive(messages)
    strategy._sampled = strategy._sampled[:1]  # the other was asked in another round
    strategy.aggregate_train(1, [replies[0], *replies])
    assert strategy.counts[1].participated == 1
    assert strategy.counts[1].rejected == 2


def test_a_long_update_is_rejected_by_the_rounds_median():
    apps = [make_app(1.0, 2.0, change) for change in (0.1, 0.2, 0.3, 25.0)]
    strategy = MaxFL()
    train(strategy, Nodes(*apps))
    (event,) = [e for e in strategy.rounds[0].events if e.kind == "rejected"]
    assert event.reason == "its update has norm 50; 100 times the median of the round is 40"
    for changes in ((0.1, 25.0), (0.0, 0.0, 0.0, 0.1)):  # too few; and most of them do not move
        strategy = MaxFL()
        train(strategy, Nodes(*[make_app(1.0, 2.0, change) for change in changes]))
        assert strategy.rounds[0].counts.rejected == 0
