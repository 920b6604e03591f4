"""Several models on Flower are trained as in a simulation, by the same rules."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from flwr.app import ConfigRecord
from safetensors.numpy import load_file

import maxfl
from maxfl import server_optimizers
from maxfl.flower import MaxFL, Privacy
from maxfl.flower.jax_client import Local, client_app, initial_models
from maxfl.flower.monitoring.prometheus import exposition
from maxfl.flower.monitoring.reasons import kind_of
from maxfl.flower.replies.arrays import stack, to_arrays
from maxfl.flower.round_log import format_round
from maxfl.flower.server.portfolio import portfolio_from_plain, portfolio_to_plain
from maxfl.utils.errors import InputError
from maxfl.utils.tensors import to_named
from support import batch_norm
from support.flower_nodes import START, Nodes, arrays, make_app, train
from support.flower_runs import assert_extends_and_rolls_back, distance, same_results

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]

MODEL = maxfl.mlp(4, (5,), 3)
REQUIREMENT = maxfl.solo(1.5, steps=10)
ROUNDS = 6
TWO, THREE = maxfl.portfolio(2, patience=1), maxfl.portfolio(3, patience=1)
SEED = 41
"""Of three models one starts anew, for one of two clients; the donor is not what most train."""


def training(small):
    """Everybody is asked in every round, so both draw the same cohorts."""
    return maxfl.Training(
        rounds=ROUNDS, cohort=int(small.is_seen.sum()), local_steps=3, batch_size=4, local_lr=0.2,
        server_lr=0.5, evaluate_every=1,
    )  # fmt: skip


def simulated(small, method, portfolio, seed, requirement=REQUIREMENT, **options):
    return maxfl.simulate(
        small, MODEL, method, training(small), seed=seed, requirement=requirement,
        server_schedule=maxfl.schedules.constant(), portfolio=portfolio, **options,
    )  # fmt: skip


def federated(small, method, portfolio, seed, requirement=REQUIREMENT, **options):
    """A strategy after its rounds, and its models, leading axis [models]."""
    app = client_app(Local(small, MODEL, training(small), seed), requirement)
    nodes = Nodes(*[app] * training(small).cohort)
    for client, context in enumerate(nodes.contexts.values()):
        context.node_config["partition-id"] = client
    strategy = MaxFL(
        algorithm=method, portfolio=portfolio, server_lr=0.5,
        server_schedule=maxfl.schedules.constant(), **options,
    )  # fmt: skip
    drawn = [to_arrays(one) for one in initial_models(MODEL, seed, portfolio.most_models)]
    return strategy, train(strategy, nodes, rounds=ROUNDS, start=stack(drawn))[-1][0]


def trained_by(history, models):
    """How many clients trained each model in each round of a simulation."""
    model, there = (np.asarray(a)[0] for a in (history.cohorts.model, history.cohorts.participated))
    return [[int((there & (model == j))[r].sum()) for j in range(models)] for r in range(ROUNDS)]


def same(history, strategy, models, atol=1e-5):
    """Compare a federation with a simulation: the models, and who trained which."""
    count = len(strategy.rounds[0].models)
    assert [list(entry.models) for entry in strategy.rounds] == trained_by(history, count)
    for name, w in to_named(history.params).items():
        np.testing.assert_allclose(models[name], w[0], atol=atol, err_msg=name)


@pytest.mark.parametrize(
    "method", [maxfl.maxfl(0.5), maxfl.maxfl_auto(), maxfl.ifca()], ids=lambda m: m.name
)
@pytest.mark.parametrize(("portfolio", "seed"), [(TWO, 7), (THREE, SEED)], ids=["two", "three"])
def test_several_models_are_those_of_the_simulation(small, method, portfolio, seed):
    history = simulated(small, method, portfolio, seed)
    strategy, models = federated(small, method, portfolio, seed)
    same(history, strategy, models)
    counts = [list(entry.models) for entry in strategy.rounds]
    if portfolio is THREE:
        assert counts[0] == [4, 2, 0], "nobody picks the last model"
        starts_anew = method.name != "ifca"
        assert counts[1] == ([4, 1, 1] if starts_anew else [4, 2, 0]), "and it starts anew"


@pytest.mark.parametrize(
    ("method", "options"),
    [
        (maxfl.hypcluster(), {}),
        (maxfl.fedprox(0.5), {}),
        (maxfl.qffl(2.0), {"local_lr": 0.2}),
        (maxfl.maxfl_annealed(rounds=4), {}),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_other_methods_too(small, method, options):
    history = simulated(small, method, THREE, SEED)
    same(history, *federated(small, method, THREE, SEED, **options))


@pytest.mark.parametrize(
    ("simulation", "flower"),
    [
        ({"participation": maxfl.decline(start_round=2)},
         {"decline_after": 2, "min_participants": 0}),
        ({"server_optimizer": server_optimizers.momentum(0.8)}, {}),
        ({"aggregator": maxfl.aggregators.median()}, {}),
        ({"requirement": maxfl.metric("accuracy", 0.6, judge_fraction=0.4)}, {}),
    ],
    ids=["declining", "momentum", "median", "ties of a metric"],
)  # fmt: skip
def test_they_are_with_all_that_a_run_may_have(small, simulation, flower):
    shared = {key: value for key, value in simulation.items() if key != "participation"}
    history = simulated(small, maxfl.maxfl(0.5), THREE, SEED, **simulation)
    same(history, *federated(small, maxfl.maxfl(0.5), THREE, SEED, **shared, **flower), atol=2e-5)


SPREAD = [{"w": START["w"] + shift, "b": START["b"]} for shift in np.float32([0, 6, 30])]
"""Three models: near 0, near 9, and where nobody is."""


def groups(**options):
    """Four clients that want w near 0, near 9, or where no model is."""
    wants = (0.0, 3.0), (1.0, 3.0), (9.0, 3.0), (6.0, 0.1)
    return Nodes(*[make_app(distance(t), rho, 0.2, 10, **options) for t, rho in wants])


def run(folder, nodes, rounds=4, models=3, **options):
    strategy = MaxFL(
        folder=folder, portfolio=maxfl.portfolio(models, patience=1), temperature=5.0, **options
    )
    return strategy, strategy.start(nodes, list(map(arrays, SPREAD[:models])), num_rounds=rounds)


def test_clients_train_what_they_pick():
    """Of three models the third is nobody's, and starts anew for those that are served worst."""
    strategy, nodes = MaxFL(portfolio=THREE, temperature=5.0), groups()
    results = train(strategy, nodes, rounds=2, start=stack(SPREAD))
    assert list(strategy.rounds[0].models) == [2, 2, 0]
    first = results[0][0]["w"]
    np.testing.assert_array_equal(first[2], SPREAD[2]["w"])
    assert (first[:2] < np.stack([m["w"] for m in SPREAD[:2]])).all()
    # Model 1 is the donor: one of its clients is not satisfied. Its gap is the mean, not above it.
    assert list(strategy.rounds[1].models) == [2, 2, 0]
    np.testing.assert_array_equal(results[1][0]["w"][2], first[1])
    assert "models trained by 2 + 2 + 0" in format_round(strategy.rounds[1])[0]
    assert results[1][1]["model-1-clients"] == 2


def test_a_model_starts_anew_for_those_that_are_not_satisfied():
    """Most clients train model 0 and are satisfied with it: model 1 is the donor."""
    wants = *[(0.0, 3.0)] * 3, (9.0, 0.1), (9.0, 1.0)
    nodes = Nodes(*[make_app(distance(target), rho) for target, rho in wants])
    strategy = MaxFL(portfolio=THREE, temperature=5.0)
    first, second = (found for found, _ in train(strategy, nodes, rounds=2, start=stack(SPREAD)))
    assert [list(entry.models) for entry in strategy.rounds] == [[3, 2, 0], [3, 1, 1]]
    assert np.abs(second["w"][2] - first["w"][1]).max() < 1, "one step away from the donor"


def test_what_clients_are_told_of_one_round_is_not_told_in_the_next():
    """Flower's loop has one config for all rounds."""
    wants = (0.0, 3.0), (0.0, 0.1), (0.0, 1.5), (9.0, 3.0)
    apps = [make_app(distance(target), rho, 0.1) for target, rho in wants]
    options = {"portfolio": maxfl.portfolio(3, patience=2), "temperature": 5.0}
    strategy, looped = MaxFL(**options), MaxFL(**options, fraction_evaluate=0.0)
    models = train(strategy, Nodes(*apps), rounds=6, start=stack(SPREAD))[-1][0]
    result = looped.start(Nodes(*apps), list(map(arrays, SPREAD)), num_rounds=6)
    counts = [list(entry.models) for entry in strategy.rounds]
    assert counts == [list(entry.models) for entry in looped.rounds]
    assert counts[2] == [2, 1, 1], "a model starts anew"
    np.testing.assert_array_equal(result.arrays["w"].numpy(), models["w"])


def test_a_model_that_starts_anew_does_so_without_a_step():
    nodes, strategy = groups(), MaxFL(portfolio=THREE, temperature=5.0)
    first = train(strategy, nodes, start=stack(SPREAD))[-1][0]
    list(strategy.configure_train(2, arrays(first), ConfigRecord(), nodes))
    model, _ = strategy.aggregate_train(2, [])
    np.testing.assert_array_equal(model["w"].numpy()[2], first["w"][1])
    np.testing.assert_array_equal(model["w"].numpy()[:2], first["w"][:2])


@pytest.mark.parametrize("number", [None, 3, -1, 1.0, [1], 2**60])
def test_a_model_that_does_not_exist_is_rejected(number):
    def forged(message, context):
        reply = make_app(distance(0.0), 3.0)(message, context)
        metrics = reply.content["metrics"]
        del metrics["maxfl-model"]
        if number is not None:
            metrics["maxfl-model"] = number
        return reply

    nodes = groups()
    expected = train(MaxFL(portfolio=THREE), nodes, start=stack(SPREAD))[-1][0]
    strategy = MaxFL(portfolio=THREE)
    found = train(strategy, Nodes(*groups().apps.values(), forged), start=stack(SPREAD))[-1][0]
    np.testing.assert_array_equal(found["w"], expected["w"])
    event = strategy.rounds[0].events[0]
    assert event.kind == "rejected"
    expected = {"no maxfl-model, which": "version", "maxfl-model is": "model"}
    assert any(words in event.reason and kind_of(event) == kind for words, kind in expected.items())


@pytest.mark.parametrize("gap", [None, -1.0, float("nan"), 1e40, [1.0]])
def test_gaps_are_checked(gap):
    def forged(message, context):
        reply = make_app(distance(0.0), 3.0)(message, context)
        del reply.content["metrics"]["maxfl-unmet-gap"]
        if gap is not None:
            reply.content["metrics"]["maxfl-unmet-gap"] = gap
        return reply

    strategy = MaxFL(portfolio=THREE)
    train(strategy, Nodes(*groups().apps.values(), forged), start=stack(SPREAD))
    event = strategy.rounds[0].events[0]
    assert event.kind == "rejected"
    assert "maxfl-unmet-gap" in event.reason


def test_one_client_does_not_keep_others_from_a_model_that_starts_anew():
    """One that claims to be far above its requirement counts as ten times the median at most."""
    near = [make_app(1.0 + 0.1 * k, 1.0) for k in range(4)]
    strategy = MaxFL(portfolio=THREE)
    train(strategy, Nodes(*near, make_app(1e20, 1.0)), start=stack(SPREAD))
    assert float(strategy._models.known.state.unmet_gap) < 1.0


def test_gaps_are_held_against_those_of_all_models():
    """The only client of a model is no measure of itself."""
    strategy = MaxFL(portfolio=THREE)
    train(strategy, Nodes(make_app(1e20, 1.0), make_app(distance(9.0), 1.0)), start=stack(SPREAD))
    assert list(strategy.rounds[0].models) == [1, 1, 0]
    state = strategy._models.known.state
    assert (int(state.donor), float(state.unmet_gap)) == (0, pytest.approx(10 / 3, rel=1e-5))


@pytest.mark.parametrize(
    "options",
    [{}, {"server_optimizer": server_optimizers.momentum()},
     {"portfolio_message": "picked", "portfolio_after": 1, "portfolio_refresh": 3}],
    ids=["plain", "momentum", "picked"],
)  # fmt: skip
@pytest.mark.parametrize("call", [4, 6])
def test_a_stopped_run_goes_on_to_the_same_end(tmp_path, options, call):
    options = {"collect_losses": True, "portfolio": THREE, "temperature": 5.0, **options}
    start = list(map(arrays, SPREAD))

    def whole(folder, nodes, **more):
        return MaxFL(folder=folder, **options, **more).start(nodes, start, num_rounds=5)

    whole(tmp_path / "whole", groups())
    nodes, calls = groups(), []
    good = nodes.apps[11]

    def stops(message, context):
        calls.append(1)
        if len(calls) == call:
            raise KeyboardInterrupt
        return good(message, context)

    nodes.apps[11] = stops
    with pytest.raises(KeyboardInterrupt):
        whole(tmp_path / "cut", nodes)
    whole(tmp_path / "cut", nodes, resume=True)
    same_results(tmp_path / "cut", tmp_path / "whole")


def test_a_run_is_extended_and_taken_back(tmp_path):
    options = {"keep": 5, "server_optimizer": server_optimizers.momentum()}
    assert_extends_and_rolls_back(
        tmp_path, lambda folder, **how: run(folder, groups(), **options, **how)
    )


def test_what_it_leaves_behind(tmp_path):
    strategy, result = run(tmp_path / "run", groups(), collect_losses=True)
    folder = tmp_path / "run"
    model = load_file(folder / "model.safetensors")
    assert model["w"].shape == (3, 3)
    np.testing.assert_array_equal(result.arrays["w"].numpy(), model["w"])
    config = json.loads((folder / "experiment.json").read_text())["config"]
    assert config["portfolio"] == {"models": 3, "patience": 1}
    metrics = pq.read_table(folder / "metrics.parquet").to_pylist()
    of_second = [row["value"] for row in metrics if row["metric"] == "model_1_clients"]
    assert of_second == [entry.models[1] for entry in strategy.rounds]
    weights = pq.read_table(folder / "weights.parquet").to_pylist()
    first = [row for row in weights if row["round"] == 1]
    assert [row["model"] for row in first] == [0, 0, 1, 1]
    assert sum(row["share"] for row in first if row["model"] == 0) == pytest.approx(1)
    history = pq.read_table(folder / "history.parquet").to_pydict()
    assert set(history["picked_model"]) <= {0, 1, 2}
    assert 'maxfl_model_clients{model="1"} 2.0' in exposition(strategy.rounds, 4)
    assert "there are 3 models" in (folder / "model-card.md").read_text()
    assert "models trained by" in (folder / "rounds.log").read_text()


def test_one_model_is_as_ever(tmp_path):
    """With a portfolio of one, messages, folders and bits are those without."""
    seen = []

    class Seen(Nodes):
        def send_and_receive(self, messages, timeout=None):
            messages = list(messages)
            seen.append([sorted(m.content["config"]) for m in messages])
            return super().send_and_receive(messages, timeout)

    for name, options in (("plain", {}), ("one", {"portfolio": maxfl.portfolio(1)})):
        nodes = Seen(*groups().apps.values())
        MaxFL(folder=tmp_path / name, **options).start(nodes, arrays(START), num_rounds=3)
    same_results(tmp_path / "plain", tmp_path / "one")
    assert seen[:6] == seen[6:]
    experiments = [(tmp_path / name / "experiment.json").read_text() for name in ("plain", "one")]
    assert experiments[0] == experiments[1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"algorithm": "scaffold"}, "made of the updates of one model"),
        ({"observe_only": True}, "trains one model as FedAvg does"),
        ({"privacy": Privacy(1.0, noise_multiplier=1.0), "fraction_evaluate": 0, "scale": 1.0},
         "noise hides what a client adds to the sums of one model"),
        ({"privacy": Privacy(1.0, secure=True), "fraction_evaluate": 0,
          "portfolio_message": "picked"}, "secure sums hide it"),
        ({"portfolio": 3}, "expected maxfl.portfolio"),
        ({"portfolio": maxfl.portfolio([2, 3])}, "of a sweep"),
        ({"portfolio_message": "some"}, 'expected "all"'),
        ({"portfolio_after": 0}, "portfolio_after"),
        ({"portfolio_refresh": 0}, "portfolio_refresh"),
        ({"portfolio": None, "portfolio_message": "picked"}, "is for several models"),
    ],
)  # fmt: skip
def test_what_can_not_be_is_refused(options, words):
    with pytest.raises(InputError, match=words):
        MaxFL(**{"portfolio": TWO, **options})


def test_a_node_that_keeps_state_has_no_portfolio(small):
    model = maxfl.Model(lambda key: batch_norm.init(key, 4, 3), batch_norm.apply, keep_local=True)
    app = client_app(Local(small, model, training(small), 3), REQUIREMENT)
    nodes = Nodes(app, app)
    for context in nodes.contexts.values():
        context.node_config["partition-id"] = 0
    drawn = [to_arrays(one) for one in initial_models(model, 3, 2)]
    with pytest.raises(InputError, match="keep_local"):
        train(MaxFL(portfolio=TWO), nodes, start=stack(drawn))


def test_what_is_known_survives_as_json():
    strategy = MaxFL(portfolio=THREE, portfolio_message="picked")
    train(strategy, groups(), rounds=2, start=stack(SPREAD))
    known = strategy._models.known
    again = portfolio_from_plain(json.loads(json.dumps(portfolio_to_plain(known))))
    assert again.picked == known.picked == {11: 0, 12: 0, 13: 1, 14: 1}
    for found, expected in zip(again.state, known.state, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert portfolio_from_plain(portfolio_to_plain(None)) is None
