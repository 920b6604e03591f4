"""A client in JAX trains as the simulation does."""

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

import jax

import maxfl
from maxfl.core.federation import InputScaling
from maxfl.core.judging import with_judging
from maxfl.core.model import CompiledScaling
from maxfl.flower import MaxFL, jax_client
from maxfl.flower.jax_client import Local, client_app, initial_arrays
from maxfl.utils.tensors import to_named
from support import batch_norm
from support.flower_nodes import Nodes, train

pytestmark = [pytest.mark.extras, pytest.mark.usefixtures("flower_identity")]


def nodes_of(app, clients):
    """Nodes that are the first so many clients of the federation."""
    nodes = Nodes(*[app] * clients)
    for client, context in enumerate(nodes.contexts.values()):
        context.node_config["partition-id"] = client
    return nodes


def followed(simulation):
    """Train a simulation: T_t and s_t of each round, who participated, and the model in the end."""
    from maxfl.algorithms.maxfl_auto import scale, temperature

    hparams = simulation.session.experiment.algorithm.hparams
    prepared, state = simulation.prepare(), simulation.start()
    solvers, participated = [], []
    for after, block in simulation.blocks(prepared, state):
        kept = jax.tree.map(lambda a: a[0], state.server.state)
        if block.cohorts.participated.shape[1]:
            solvers.append((float(temperature(hparams, kept)), float(scale(hparams, kept))))
            participated.append(int(np.asarray(block.cohorts.participated).sum()))
        state = after
    history = simulation.history(prepared, [block], state)
    return solvers, participated, to_named(history.params)


@pytest.mark.parametrize(
    "requirement",
    [
        maxfl.solo(1.5, steps=10),  # of three learning rates, each client keeps its best model
        maxfl.metric("accuracy", 0.4, judge_fraction=0.4),
    ],
    ids=["solo", "metric"],
)
def test_the_solver_is_that_of_the_simulation(small, requirement):
    """Without tuning, with judging data, declining and a shrinking η_g; ten rounds, 1e-5.

    Everybody is asked in every round, so both draw the same cohorts.
    """
    seen, model = int(small.is_seen.sum()), maxfl.mlp(4, (5,), 3)
    training = maxfl.Training(
        rounds=10, cohort=seen, local_steps=3, batch_size=4, local_lr=0.2, server_lr=0.5,
        evaluate_every=1, checkpoint_every=1,
    )  # fmt: skip
    solvers, participated, params = followed(maxfl.Simulation(
        small, model, maxfl.maxfl_auto(), training, seed=3, requirement=requirement,
        server_schedule=maxfl.schedules.exponential(end=0.18),
        participation=maxfl.decline(start_round=3),
    ))  # fmt: skip
    nodes = nodes_of(client_app(Local(small, model, training, 3), requirement), seen)
    strategy = MaxFL(server_lr=0.5, decline_after=3)
    began = {n: a.numpy() for n, a in initial_arrays(model, 3).items()}
    results = train(strategy, nodes, rounds=10, start=began)
    assert [entry.counts.participated for entry in strategy.rounds] == participated
    assert 0 < min(participated) < seen, "some decline, or this shows less"
    found = np.array([entry.solver for entry in strategy.rounds])
    np.testing.assert_allclose(found, solvers, rtol=1e-5)
    assert len(set(solvers)) >= 5, "it moves, or this shows nothing"
    for name, w in params.items():
        np.testing.assert_allclose(results[-1][0][name], w[0], atol=1e-5)


@pytest.mark.parametrize("start", [None, 2])
def test_the_papers_protocol_too_is_that_of_the_simulation(small, start):
    """At a fixed T, judged by training data, with solo models of the training's own rates."""
    seen = int(small.is_seen.sum())
    training = maxfl.Training(rounds=5, cohort=seen, local_steps=3, batch_size=4, server_lr=0.5)
    model = maxfl.mlp(4, (5,), 3)
    requirement = maxfl.solo(steps=10, judge="training", local_lr="training", batch_size="training")
    history = maxfl.simulate(
        small, model, maxfl.maxfl(temperature=0.5), training, seed=3, requirement=requirement,
        participation=maxfl.everyone() if start is None else maxfl.decline(start_round=start),
    )  # fmt: skip
    sized_by_data = maxfl.mlp((5,))
    nodes = nodes_of(client_app(Local(small, sized_by_data, training, 3), requirement), seen)
    strategy = MaxFL(temperature=0.5, server_lr=0.5, decline_after=start, min_participants=0)
    began = {n: a.numpy() for n, a in initial_arrays(model, 3).items()}
    results = train(strategy, nodes, rounds=5, start=began)
    for name, w in to_named(history.params).items():
        np.testing.assert_allclose(results[-1][0][name], w[0], atol=1e-5)
    participated = np.asarray(history.cohorts.participated)[0].sum(1)
    assert [c.participated for c in strategy.counts.values()] == participated.tolist()
    if start is not None:
        assert participated.min() < seen, "somebody declined, or this shows nothing"


def test_requirements_are_those_of_the_simulation(small):
    """Of several ways to train alone, each client keeps its best by the data that it judges by."""
    model, training = maxfl.mlp(4, (5,), 3), maxfl.Training(cohort=2, batch_size=4)
    requirement = maxfl.solo(1.2, steps=[3, 8], local_lr=[0.5, 0.01], batch_size=4)
    simulation = maxfl.Simulation(small, model, maxfl.maxfl_auto(), training, seed=3,
                                  requirement=requirement)  # fmt: skip
    expected = simulation.prepare().thresholds
    local = Local(with_judging(small, requirement.judging), model, training, 3)
    for client in (0, 2, 5):
        found = local.thresholds(requirement, client)
        for side, all_clients in zip(found, expected, strict=True):
            assert side == pytest.approx(float(all_clients[0, client]), abs=1e-6)


def test_a_node_with_a_folder_keeps_its_requirements(small, tmp_path, monkeypatch):
    """For its data and the settings of solo models: other rounds and rates of the server are none.

    Two nodes of one federation share a folder, and each has its own.
    """
    model, requirement = maxfl.mlp(4, (5,), 3), maxfl.solo(steps=3, local_lr=0.1, batch_size=4)
    computed = []
    original = Local.thresholds
    monkeypatch.setattr(
        Local, "thresholds", lambda *args: computed.append(args[2]) or original(*args)
    )

    def run(requirement, **training):
        chosen = maxfl.Training(cohort=2, batch_size=4, local_steps=3, **training)
        nodes = nodes_of(client_app(Local(small, model, chosen, 3), requirement), 2)
        for context in nodes.contexts.values():
            context.node_config["maxfl-requirements"] = str(tmp_path)
        start = {n: a.numpy() for n, a in initial_arrays(model, 3).items()}
        return train(MaxFL(), nodes, start=start)[0][0]

    first = run(requirement)
    again = run(requirement, rounds=7, server_lr=0.5)
    assert sorted(computed) == [0, 1]
    for name, w in first.items():
        np.testing.assert_array_equal(w, again[name])
    run(requirement._replace(multiple=1.5))
    assert sorted(computed) == [0, 0, 1, 1]


def test_a_client_trains_on_nothing_that_it_judges_or_reports_by(small):
    """With poison in both other parts, it trains the same model."""
    model, training = maxfl.mlp(4, (5,), 3), maxfl.Training(cohort=2, batch_size=4, local_steps=3)
    federation = with_judging(small, maxfl.solo().judging)

    def poisoned(samples):
        return samples._replace(x=np.full_like(samples.x, np.nan))

    other = federation._replace(
        judging=poisoned(federation.judging), test=poisoned(federation.test)
    )
    params = model.init(jax.random.key(0))
    clean, same = (
        to_named(Local(one, model, training, 3).train(params, 0, 2)) for one in (federation, other)
    )
    for name, w in clean.items():
        np.testing.assert_array_equal(same[name], w)


@pytest.mark.parametrize(
    ("requirement", "words"),
    [
        (100, "expected a requirement, such as maxfl.solo"),
        (maxfl.custom(lambda _, solo: solo.judging_loss), "knows its own solo model"),
        (maxfl.solo([1.0, 1.1]), "arrays, which are of a sweep"),
        (maxfl.metric("mae", 0.5), "the model has accuracy"),
    ],
)
def test_requirements_that_a_node_cannot_know_are_refused(small, requirement, words):
    local = Local(small, maxfl.mlp(4, (5,), 3), maxfl.Training(cohort=2), 3)
    with pytest.raises(maxfl.InputError, match=words):
        client_app(local, requirement)


@pytest.mark.parametrize("number", [None, -1, 8])
def test_a_node_that_is_no_client_is_told(small, number):
    app = client_app(Local(small, maxfl.mlp(4, (5,), 3), maxfl.Training(cohort=2), 3))
    nodes = Nodes(app, app)
    if number is not None:
        for context in nodes.contexts.values():
            context.node_config["partition-id"] = number
    words = "config has no partition-id" if number is None else f"is {number}.*expected 0 to 7"
    with pytest.raises(maxfl.InputError, match=words):
        train(MaxFL(), nodes, start={"w": np.zeros(2)})


@pytest.mark.parametrize("keep_local", [False, True])
def test_state_schedules_and_optimizers_are_those_of_the_simulation(small, keep_local):
    """A BatchNorm whose statistics are averaged at rate 1, or stay on the nodes."""
    model = maxfl.Model(
        lambda key: batch_norm.init(key, 4, 3), batch_norm.apply, keep_local=keep_local
    )
    seen = int(small.is_seen.sum())
    training = maxfl.Training(rounds=3, cohort=seen, local_steps=3, batch_size=4, server_lr=0.5)
    steps = {
        "local_optimizer": maxfl.local_optimizers.momentum(0.5, weight_decay=0.1),
        "local_schedule": maxfl.schedules.cosine(0.1, rounds=3),
    }
    requirement = maxfl.solo(steps=10)
    history = maxfl.simulate(
        small, model, maxfl.maxfl(), training, seed=3, requirement=requirement, **steps
    )
    nodes = nodes_of(client_app(Local(small, model, training, 3, **steps), requirement), seen)
    strategy = MaxFL(temperature=1.0, server_lr=0.5)
    began = {n: a.numpy() for n, a in initial_arrays(model, 3).items()}
    results = train(strategy, nodes, rounds=3, start=began)
    for name, w in to_named(history.params).items():
        np.testing.assert_allclose(results[-1][0][name], w[0], atol=1e-5, err_msg=name)
    moved = (results[-1][0]["state.mean"] != began["state.mean"]).any()
    assert moved != keep_local


def test_patterns_that_match_nothing_are_refused():
    with pytest.raises(maxfl.InputError, match=r"running_\*.*are called"):
        train(MaxFL(state_arrays=["*.running_*"]), Nodes(), rounds=1, start={"w": np.zeros(2)})


def test_only_what_is_trained_travels():
    base = maxfl.mlp(4, (5,), 3)
    adapted = maxfl.lora(base, 2, params=base.init(jax.random.key(0)))
    sent = initial_arrays(adapted, 3)
    assert sum(array.numpy().size for array in sent.values()) == 2 * (4 + 5) + 2 * (5 + 3)
    assert all(name.endswith((".A", ".B")) for name in sent)


def test_a_scaling_that_is_compiled_in_trains_and_measures_the_same(small, monkeypatch):
    """As that of images on a GPU is."""
    scaling = InputScaling(np.float32(0.2), np.float32(1.5))
    scaled = small._replace(input_scaling=scaling, known_digest=None)
    model, training = maxfl.mlp(4, (5,), 3), maxfl.Training(local_steps=3, batch_size=4)
    local = Local(scaled, model, training, seed=3)
    start = model.init(jax.random.key(0))

    def trained():
        params = local.train(start, 0, client=2)
        return params, local.score(params, client=2)

    plain, compiled = trained(), []

    def compile_in(given, _):
        compiled.append(CompiledScaling(*given))
        return compiled[-1]

    monkeypatch.setattr(jax_client, "compiled_scaling", compile_in)
    for a, b in zip(jax.tree.leaves(trained()), jax.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    assert compiled == [CompiledScaling(*scaling)] * 2
