"""SCAFFOLD's control variates: by hand, kept by the node, and asked of the app."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from flwr.app import Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

import maxfl
from maxfl.flower import MaxFL, appeal_mod, correction
from maxfl.flower.jax_client import Local, client_app, initial_arrays
from maxfl.utils.errors import InputError
from support.flower_nodes import Nodes, arrays, make_app, train

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]


def test_scaffold_by_hand():
    """One array, one step of η_l = 0.5 per round; gradients of client k are w − k."""

    def client(centre):
        app = ClientApp(mods=[appeal_mod(lambda *_: 1.0, 2.0)])

        @app.train()
        def fit(message, context):  # noqa: ARG001
            w = message.content["arrays"]["w"].numpy()
            y = w - 0.5 * (w - centre + correction(message)["w"])
            metrics = MetricRecord({"num-examples": 1, "maxfl-distance": 0.5})
            content = RecordDict({"arrays": arrays({"w": y}), "metrics": metrics})
            return Message(content, reply_to=message)

        return app

    strategy = MaxFL(algorithm="scaffold")
    nodes = Nodes(client(0.0), client(4.0))
    results = train(strategy, nodes, rounds=2, start={"w": np.array([2.0], np.float32)})
    # Round 1: y = 1 and 3, mean 2; c_0 = (2 − 1)/0.5 = 2, c_1 = −2, c = 0.
    # Round 2: corrections −2 and 2: both gradients are 0; w stays.
    assert [model["w"].tolist() for model, _ in results] == [[2.0], [2.0]]
    kept = [context.state["maxfl-control/"]["w"].numpy() for context in nodes.contexts.values()]
    assert np.concatenate(kept).tolist() == [2.0, -2.0]
    assert strategy._control["w"].tolist() == [0.0]


def test_nodes_forget_the_control_variates_of_another_server(small):
    model, seen = maxfl.mlp(4, (5,), 3), int(small.is_seen.sum())
    training = maxfl.Training(cohort=seen, local_steps=3, batch_size=4)
    app = client_app(Local(small, model, training, 3), maxfl.solo(1.5, steps=10))
    nodes = Nodes(*[app] * seen)
    for client, context in enumerate(nodes.contexts.values()):
        context.node_config["partition-id"] = client
    began = {n: a.numpy() for n, a in initial_arrays(model, 3).items()}
    first, again = (
        train(MaxFL(algorithm="scaffold"), nodes, rounds=2, start=began)[-1][0] for _ in range(2)
    )
    for array, w in first.items():
        np.testing.assert_array_equal(again[array], w)


def test_an_app_that_does_not_say_how_far_it_went_is_told():
    app = make_app(1.0, 2.0)
    with pytest.raises(InputError, match="'maxfl-distance' is None; expected steps × learning"):
        train(MaxFL(algorithm="scaffold"), Nodes(app, app))
