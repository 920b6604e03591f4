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
from support.flower_nodes import Nodes, arrays, train

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]


def client(centre, spoil=lambda y: y, distance=0.5):
    """A client whose gradients are w − centre, one step of η_l = 0.5 a round."""
    app = ClientApp(mods=[appeal_mod(lambda *_: 1.0, 2.0)])

    @app.train()
    def fit(message, context):  # noqa: ARG001
        w = message.content["arrays"]["w"].numpy()
        y = spoil(w - 0.5 * (w - centre + correction(message)["w"]))
        metrics = MetricRecord({"num-examples": 1, "maxfl-distance": distance})
        content = RecordDict({"arrays": arrays({"w": y}), "metrics": metrics})
        return Message(content, reply_to=message)

    return app


def control_of(nodes):
    """c_k of every node, 0 where there is none."""
    records = [context.state.array_records for context in nodes.contexts.values()]
    return [float(r["maxfl-control/"]["w"].numpy()[0]) if r else 0.0 for r in records]


def test_scaffold_by_hand():
    """One array, one step of η_l = 0.5 per round; gradients of client k are w − k."""
    strategy = MaxFL(algorithm="scaffold")
    nodes = Nodes(client(0.0), client(4.0))
    results = train(strategy, nodes, rounds=2, start={"w": np.array([2.0], np.float32)})
    # Round 1: y = 1 and 3, mean 2; c_0 = (2 − 1)/0.5 = 2, c_1 = −2, c = 0.
    # Round 2: corrections −2 and 2: both gradients are 0; w stays.
    assert [model["w"].tolist() for model, _ in results] == [[2.0], [2.0]]
    assert control_of(nodes) == [2.0, -2.0]
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
    app = client(1.0, distance=0)
    with pytest.raises(InputError, match="'maxfl-distance' is 0; expected steps × learning"):
        train(MaxFL(algorithm="scaffold"), Nodes(app, app), start={"w": np.ones(1, np.float32)})


class Late(Nodes):
    """A grid whose nodes are there only when somebody looks a second time."""

    looked = 0

    def get_node_ids(self):
        self.looked += 1
        return super().get_node_ids() if self.looked > 1 else []


@pytest.mark.parametrize("grid", [Nodes, Late])
def test_c_is_the_mean_over_all_clients(grid, monkeypatch):
    """Whoever is sampled, and however late nodes are."""
    monkeypatch.setattr("flwr.serverapp.strategy.strategy_utils.sleep", lambda _: None)
    nodes = grid(*[client(centre) for centre in (0.0, 1.0, 3.0, 8.0)])
    strategy = MaxFL(algorithm="scaffold", fraction_train=0.5, min_available_nodes=4)
    train(strategy, nodes, rounds=5, start={"w": np.array([2.0], np.float32)})
    assert sum(c != 0 for c in control_of(nodes)) >= 3, "not all are sampled in every round"
    assert strategy._control["w"][0] == pytest.approx(np.mean(control_of(nodes)), abs=1e-6)


def test_a_client_that_diverges_once_is_back_in_the_next_round():
    wild = iter([np.nan, 0.0, 0.0])
    nodes = Nodes(client(0.0), client(4.0), client(1.0, lambda y: y + np.float32(next(wild))))
    strategy = MaxFL(algorithm="scaffold")
    train(strategy, nodes, rounds=3, start={"w": np.array([2.0], np.float32)})
    assert [entry.counts.participated for entry in strategy.rounds] == [2, 3, 3]


def test_a_control_variate_that_spoils_the_next_model_is_forgotten():
    """Finite, but so large that the client's next model is not: it begins with 0 again."""
    wild = iter([1e30, 0.0, 0.0, 0.0])

    def spoil(y):
        y = y + np.float32(next(wild))
        return y if np.abs(y).max() < 1e10 or np.abs(y).max() == np.float32(1e30) else y * np.nan

    nodes = Nodes(*[client(float(k)) for k in range(3)], client(1.0, spoil))
    strategy = MaxFL(algorithm="scaffold")
    train(strategy, nodes, rounds=4, start={"w": np.array([2.0], np.float32)})
    assert [entry.counts.participated for entry in strategy.rounds] == [3, 3, 4, 4]


@pytest.mark.parametrize("distance", [0.01, 1e6])
def test_control_variates_do_not_hide_a_long_update(distance):
    """They have norms of their own: an update of 50 among those of 0.01 is too long."""
    apps = [client(2.02, distance=0.01) for _ in range(9)]
    nodes = Nodes(*apps, client(2.0, lambda y: y + np.float32(50), distance))
    strategy = MaxFL(algorithm="scaffold")
    train(strategy, nodes, start={"w": np.array([2.0], np.float32)})
    assert strategy.rounds[0].counts.rejected == 1
    limited = MaxFL(algorithm="scaffold", max_update_norm=1.0)
    train(limited, nodes, start={"w": np.array([2.0], np.float32)})
    assert limited.rounds[0].counts.participated == 9


def test_a_number_without_a_dimension_is_corrected_too():
    app = ClientApp(mods=[appeal_mod(lambda *_: 1.0, 2.0)])

    @app.train()
    def fit(message, context):  # noqa: ARG001
        s = message.content["arrays"]["s"].numpy()
        y = np.asarray(s - 0.5 * (s - 1 + correction(message)["s"]), np.float32)
        metrics = MetricRecord({"num-examples": 1, "maxfl-distance": 0.5})
        content = RecordDict({"arrays": arrays({"s": y}), "metrics": metrics})
        return Message(content, reply_to=message)

    strategy = MaxFL(algorithm="scaffold")
    train(strategy, Nodes(app, app), rounds=3, start={"s": np.array(3.0, np.float32)})
    assert [entry.counts.participated for entry in strategy.rounds] == [2] * 3


def test_an_app_with_the_line_runs_by_other_methods_too():
    results = train(
        MaxFL(algorithm="fedavg"), Nodes(client(0.0), client(4.0)),
        start={"w": np.array([3.0], np.float32)},
    )  # fmt: skip
    assert results[0][0]["w"].tolist() == [2.5]
