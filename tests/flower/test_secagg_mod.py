"""A client's part in secure aggregation: what it clips, and what it refuses to send."""

import math

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from maxfl.flower import MaxFL
from maxfl.utils.errors import InputError
from support.flower_nodes import START, Nodes, train
from support.flower_secure import CLIENTS, Watched, secure_app, secure_strategy

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]


def test_long_updates_are_clipped_by_the_client():
    long = (1.0, 2.0, 5.0)  # norm 10 over 4 numbers, C = 2
    nodes = Watched(*[secure_app(*long) for _ in range(3)])
    strategy, through = secure_strategy(nodes, epsilon=0.0)
    ((model, _),) = train(strategy, through)
    np.testing.assert_allclose(START["w"] - model["w"], 1.0, atol=1e-4)


def test_a_secure_client_answers_no_plain_server():
    nodes = Nodes(secure_app(1.0, 2.0), secure_app(1.0, 2.0))
    with pytest.raises(InputError, match="answers by secure aggregation alone"):
        train(MaxFL(), nodes)


@pytest.mark.parametrize(
    ("app", "words"),
    [
        (lambda: secure_app(math.nan, 2.0), "its loss or requirement is no number"),
        (lambda: secure_app(1.0, 2.0, np.zeros((3, 1), np.float32)), "after training; expected"),
    ],
)
def test_a_client_refuses_to_send_what_would_spoil_the_sum(app, words):
    nodes = Watched(*[secure_app(*client) for client in [*CLIENTS, CLIENTS[0]]], app())
    strategy, through = secure_strategy(nodes)
    train(strategy, through)
    (event,) = strategy.rounds[0].events
    assert (event.node, event.kind) == (15, "failed")
    assert words in event.reason
