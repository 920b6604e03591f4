"""Replies are checked one by one: a bad one is rejected alone."""

import math

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from flwr.app import Array

from maxfl.flower import MaxFL, keys
from support.flower_nodes import Nodes, arrays, make_app, train

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]


def broken(change):
    """An honest client's reply, with something changed."""
    good = make_app(1.0, 2.0)

    def answer(message, context):
        reply = good(message, context)
        change(reply.content)
        return reply

    return answer


def replace(name, value):
    def change(content):
        values = {n: a.numpy() for n, a in content["arrays"].items()} | {name: value}
        content["arrays"] = arrays(values)

    return change


def forge(change):
    """Bytes of an array that are not what its header says."""

    def forged(content):
        array = content["arrays"]["w"]
        content["arrays"]["w"] = Array(array.dtype, array.shape, array.stype, change(array.data))

    return forged


@pytest.mark.parametrize(
    "bad",
    [
        broken(replace("w", np.array([1, np.nan, 2], np.float32))),
        broken(replace("w", np.array([1, np.inf, 2], np.float32))),
        broken(replace("w", np.ones(4, np.float32))),
        broken(replace("w", np.ones(3, np.float64))),
        broken(replace("more", np.ones(3, np.float32))),
        broken(replace("w", np.full(3, 1e9, np.float32))),
        broken(forge(lambda data: data.replace(b"(3,)", b"(9,)"))),
        broken(forge(lambda data: data.replace(b"(3,), }", b"(9**9,)}"))),
        broken(forge(lambda _: b"PK\x03\x04 no array")),
        broken(forge(lambda data: data[:-4])),
        broken(lambda content: content.pop("arrays")),
        broken(lambda content: content.pop("metrics")),
        make_app(1.0, 2.0, maxfl_weight=0.3),
        make_app(1.0, 2.0, maxfl_weight=-0.1),
        make_app(1.0, 2.0, maxfl_weight=math.nan),
        make_app(1.0, 2.0, maxfl_weight=[0.1, 0.1]),
        make_app(1.0, 2.0, maxfl_satisfied=7),
        make_app(1.0, 2.0, maxfl_near=0.5),
        make_app(1.0, 2.0, maxfl_near=[1, 1]),
        make_app(1.0, 2.0, maxfl_gap=-1.0),
        make_app(1.0, 2.0, maxfl_gap=math.inf),
        make_app(1.0, 2.0, maxfl_gap=[1.0]),
    ],
)
def test_a_bad_reply_is_rejected_alone(bad):
    good = (make_app(1.0, 2.0), make_app(3.0, 2.0))
    strategy = MaxFL()
    ((with_it, metrics),) = train(strategy, Nodes(*good, bad))
    ((without, _),) = train(MaxFL(), Nodes(*good))
    assert (metrics["participated"], metrics["rejected"]) == (2, 1)
    np.testing.assert_array_equal(with_it["w"], without["w"])


@pytest.mark.parametrize(
    ("options", "missing", "rejected"),
    [({}, keys.GAP, 1), ({}, keys.NEAR, 1), ({"scale": 0.5}, keys.NEAR, 1),
     ({"scale": 0.5}, keys.GAP, 0), ({"temperature": 1.0}, keys.NEAR, 0)],
)  # fmt: skip
def test_a_client_that_says_nothing_of_its_gap_is_rejected_if_it_is_asked(
    options, missing, rejected
):
    app = make_app(1.0, 2.0)

    def older(message, context):
        reply = app(message, context)
        reply.content["metrics"].pop(missing, None)
        return reply

    strategy = MaxFL(**options)
    train(strategy, Nodes(make_app(1.0, 2.0), older))
    reasons = [event.reason for event in strategy.rounds[0].events if event.kind == "rejected"]
    assert len(reasons) == rejected
    assert all(f"no {missing}" in why and "runs an older maxfl; install" in why for why in reasons)


def test_a_client_of_the_version_before_is_rejected_with_a_sentence():
    app = make_app(1.0, 2.0)

    def old(message, context):
        reply = app(message, context)
        metrics = reply.content["metrics"]
        metrics["maxfl-appeal"] = metrics.pop(keys.SATISFIED)
        return reply

    strategy = MaxFL()
    train(strategy, Nodes(make_app(1.0, 2.0), old))
    reasons = [event.reason for event in strategy.rounds[0].events if event.kind == "rejected"]
    assert reasons == ["its client runs maxfl 0.1: install the server's version there"]
