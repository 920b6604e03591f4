"""A client picks as one of a simulation does, and its app sees one model."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

import maxfl
from maxfl.core import portfolio as rules
from maxfl.flower import MaxFL, appeal_mod, keys
from maxfl.flower.client.portfolio import best_model, model_to_train
from maxfl.flower.replies.arrays import stack
from support.flower_nodes import START, Nodes, arrays, make_app, train
from support.flower_runs import distance

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]

TWO = [START, {"w": START["w"] + np.float32(6), "b": START["b"]}]


def test_picking_is_that_of_the_simulation():
    rng = np.random.default_rng(0)
    values = np.array([0.1, 0.2, 0.2, np.nan, np.inf, -0.3], np.float32)
    for _ in range(500):
        cost, loss = rng.choice(values, 3), rng.choice(values, 3)
        expected = int(rules.best_model(3, jnp.array(cost), jnp.array(loss)))
        assert best_model(cost.tolist(), lambda j, loss=loss: float(loss[j])) == expected
        assert best_model(cost.tolist()) == int(rules.best_model(3, *[jnp.array(cost)] * 2))


def test_training_what_starts_anew_is_that_of_the_simulation():
    for picked in range(3):
        for gap in (-1.0, 0.5, 0.50001, 2.0, math.nan):
            for mean in (0.5, math.inf):
                for is_open in (True, False):
                    state = rules.PortfolioState(None, jnp.int32(2), jnp.float32(mean))
                    vacant = rules.Vacancy(jnp.int32(1), jnp.bool_(is_open))
                    expected = rules.model_to_train(
                        vacant, state, jnp.int32(picked), jnp.float32(gap)
                    )
                    told = {keys.VACANT: 1, keys.DONOR: 2} if is_open else {}
                    config = ConfigRecord({keys.UNMET_GAP: mean, **told})
                    assert model_to_train(config, picked, float(np.float32(gap))) == expected


def seeing_app(seen, **options):
    """An ordinary app, without a thought of several models; what it gets is noted."""
    app = ClientApp(mods=[appeal_mod(distance(9.0), 3.0, **options)])

    @app.train()
    def train(message, context):  # noqa: ARG001
        seen.append(("train", message.content["arrays"]["w"].numpy().copy()))
        return Message(
            RecordDict({
                "arrays": message.content["arrays"],
                "metrics": MetricRecord({"num-examples": 3}),
            }), reply_to=message,
        )  # fmt: skip

    @app.evaluate()
    def evaluate(message, context):  # noqa: ARG001
        seen.append(("evaluate", message.content["arrays"]["w"].numpy().copy()))
        metrics = MetricRecord({"num-examples": 3, "accuracy": 0.5})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def test_an_ordinary_app_is_handed_the_model_that_it_prefers():
    seen, strategy = [], MaxFL(portfolio=maxfl.portfolio(2))
    nodes = Nodes(seeing_app(seen), make_app(distance(0.0), 3.0))
    result = strategy.start(nodes, list(map(arrays, TWO)), num_rounds=1)
    assert [kind for kind, _ in seen] == ["train", "evaluate"]
    np.testing.assert_array_equal(seen[0][1], TWO[1]["w"])
    np.testing.assert_array_equal(seen[1][1], result.arrays["w"].numpy()[1])
    assert list(strategy.rounds[0].models) == [1, 1]
    assert strategy.rounds[0].evaluation.satisfied == 2


def test_a_client_is_evaluated_by_test_data_on_the_model_that_it_judges_best():
    """By its test data it would prefer the other one."""
    seen, losses = [], []

    def loss_of(message, context):  # noqa: ARG001
        losses.append(message.content["arrays"]["w"].numpy().copy())
        return float(np.abs(losses[-1]).mean())

    began = []

    def requirement_of(message, context):  # noqa: ARG001
        began.append(message.content["arrays"]["w"].numpy().copy())
        return 100.0

    app = seeing_app(seen, test=(loss_of, requirement_of))
    other = make_app(distance(0.0), 3.0, test=(distance(0.0), 3.0))
    strategy = MaxFL(portfolio=maxfl.portfolio(2), collect_losses=True)
    result = strategy.start(Nodes(app, other), list(map(arrays, TWO)), num_rounds=1)
    models = result.arrays["w"].numpy()
    assert len(losses) == 1
    np.testing.assert_array_equal(losses[0], models[1])
    np.testing.assert_array_equal(began, models[:1])
    first, second = strategy.rounds[0].client_evaluations
    assert (first.model, second.model) == (1, 0)
    assert first.test_loss == pytest.approx(np.abs(models[1]).mean(), rel=1e-6)
    assert first.loss == pytest.approx(np.abs(models[1] - 9).mean(), rel=1e-6)


def test_an_app_that_is_judged_by_its_handlers():
    app = ClientApp(mods=[appeal_mod.from_evaluate("far", handlers=lambda: (fit, score))])

    @app.train()
    def fit(message, context):  # noqa: ARG001
        model = {n: a.numpy() + np.float32(0.1) for n, a in message.content["arrays"].items()}
        metrics = MetricRecord({"num-examples": 3})
        return Message(RecordDict({"arrays": arrays(model), "metrics": metrics}), reply_to=message)

    @app.evaluate()
    def score(message, context):  # noqa: ARG001
        w = message.content["arrays"]["w"].numpy()
        metrics = MetricRecord({"num-examples": 3, "far": float(np.abs(w - 9).mean())})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    strategy = MaxFL(portfolio=maxfl.portfolio(2), collect_losses=True)
    strategy.start(Nodes(app, make_app(distance(0.0), 3.0)), list(map(arrays, TWO)), num_rounds=1)
    first = strategy.rounds[0].client_evaluations[0]
    assert first.model == 1
    # Alone it begins with the first model, and takes ten steps of 0.1.
    assert first.requirement == pytest.approx(np.abs(START["w"] + 1 - 9).mean(), rel=1e-5)


def test_a_model_that_diverges_is_the_worst():
    """Of one model, an app that says what is no number has failed; of two it has another."""
    app = ClientApp(mods=[appeal_mod.from_evaluate("far", handlers=lambda: (fit, score),
                                                   requirement=5.0)])  # fmt: skip

    @app.train()
    def fit(message, context):  # noqa: ARG001
        records = {
            "arrays": message.content["arrays"],
            "metrics": MetricRecord({"num-examples": 3}),
        }
        return Message(RecordDict(records), reply_to=message)

    @app.evaluate()
    def score(message, context):  # noqa: ARG001
        far = float(message.content["arrays"]["w"].numpy()[0])
        metrics = MetricRecord({"num-examples": 3, "far": math.nan if far < 2 else far})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    strategy = MaxFL(portfolio=maxfl.portfolio(2))
    train(strategy, Nodes(app, app), start=stack(TWO))
    assert list(strategy.rounds[0].models) == [0, 2]


def test_a_client_of_an_older_version_is_told_from_others():
    """It knows nothing of several models, and trains what it gets."""

    def old(message, context):
        for config in message.content.config_records.values():
            for key in ("maxfl-models", "maxfl-unmet-gap"):
                config.pop(key, None)
        return make_app(lambda *_: 1.0, 2.0)(message, context)

    strategy = MaxFL(portfolio=maxfl.portfolio(2))
    good = [make_app(distance(0.0), 3.0), make_app(distance(9.0), 3.0)]
    train(strategy, Nodes(*good, old), start=stack(TWO))
    event = strategy.rounds[0].events[0]
    assert (event.node, event.kind) == (13, "rejected")
    assert "runs an older maxfl" in event.reason
