"""Memory of a run, predicted from shapes."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from maxfl.core.aggregators import mean, median
from maxfl.engine.client_state import grow
from maxfl.engine.layout import EvalBatch, Layout
from maxfl.engine.memory import footprint as footprint_module
from maxfl.engine.memory.dataflow import Program
from maxfl.engine.memory.footprint import ROOM, WORKSPACE, Footprint, Predictor, Work, fits
from maxfl.engine.programs import run_block, train_solo
from maxfl.engine.state import Data, Sweep
from maxfl.models import mlp
from support.small import (
    MODEL,
    PAIR,
    SMALL,
    TRAINING,
    everything,
    one_device,
    simulation,
    sweep,
)


def data_of(session):
    return session.replicate(Data(SMALL.train, SMALL.test, SMALL.input_scaling))


def test_what_fits_by_hand():
    footprint = Footprint(
        data=80, workspace=20, configuration=50, evaluation=60, timing=30, client=10
    )
    # 0.7 · 1000 − 80 = 620 bytes: beside the workspace, 5 clients and a configuration are 100, so
    # 6 configurations; without it, 5 show their models, 50 + 60 each.
    assert fits(footprint, cohort=5, free=1000) == (5, 5)
    assert fits(footprint._replace(evaluation=40), cohort=5, free=1000) == (6, 5)
    # 0.7 · 300 − 80 = 130: of 20 clients 6 fit beside the workspace and one configuration.
    assert fits(footprint, cohort=20, free=300) == (1, 6)
    assert fits(footprint, cohort=20, free=10) == (1, 1), "something must run"


@pytest.mark.parametrize(
    ("configurations", "clients", "needed"),
    [
        (1, 1, 80 + 50 + 60),  # evaluation, and no workspace
        (1, 5, 80 + 20 + 50 + 50),  # five clients at work
        (4, 1, 80 + 4 * (50 + 60)),  # however many at once, the workspace is there but once
        (4, 5, 80 + 4 * (50 + 60)),
        (4, 7, 80 + 20 + 4 * (50 + 70)),
    ],
)
def test_what_a_layout_needs_by_hand(configurations, clients, needed):
    footprint = Footprint(
        data=80, workspace=20, configuration=50, evaluation=60, timing=30, client=10
    )
    layout = Layout(None, configurations, clients, None)
    assert footprint.of(layout) == needed
    timed = footprint._replace(timing=200)
    assert timed.of(layout) == 80 + 20 + configurations * (50 + 200)


def test_kernels_are_timed_before_anything_is_kept():
    work = Work(peak=10, timing=40)
    assert work.beside(5) == 40
    assert work.beside(35) == 45
    assert work.or_else(Work(peak=7, timing=45)) == (10, 45)
    assert work.and_too(Work(peak=7, timing=15), copies=3) == (31, 45)


def test_a_gradient_that_is_added_to_the_weights_at_once_takes_no_memory(monkeypatch):
    def client_bytes(**more):
        return simulation(maxfl.fedavg(), model=linear, **more).session.footprint.client

    linear = maxfl.Model(lambda _: jnp.zeros((4, 3)), lambda w, x, _=None: x @ w)
    training = {"training": TRAINING._replace(batch_size=1)}
    momentum = training | {"local_optimizer": maxfl.local_optimizers.momentum()}
    kept = client_bytes(**training), client_bytes(**momentum)
    monkeypatch.setattr(footprint_module, "rate_in_loss", lambda: True)
    added = client_bytes(**training), client_bytes(**momentum)
    assert added[0] < kept[0]
    assert added[1] == kept[1], "an optimizer wants the gradient itself"


def test_steps_that_are_taken_at_once_have_all_their_minibatches_in_memory(monkeypatch):
    """Of 64 steps' 256 samples: the products of each two, as numbers of four bytes."""

    def client_bytes(most, steps=64, method=maxfl.fedavg, **more):
        monkeypatch.setattr(mlp, "most_perceptron_steps", lambda *_: most)
        more["training"] = TRAINING._replace(local_steps=steps)
        return simulation(method(), **more).session.footprint.client

    monkeypatch.setattr(footprint_module, "rate_in_loss", lambda: True)
    alone = client_bytes(1)
    assert client_bytes(64) > alone + 4 * 256**2
    assert alone < client_bytes(64, steps=3) < alone + 4 * 256**2
    assert client_bytes(64, steps=[64, 32], seed=[0, 1]) == alone, "they are not compiled in"
    assert client_bytes(64, method=maxfl.maxfl_auto) > alone + 4 * 256**2
    for others in (
        {"local_optimizer": maxfl.local_optimizers.momentum()},
        {"method": maxfl.fedprox},
        {"method": maxfl.scaffold},
    ):
        assert client_bytes(64, **others) == client_bytes(1, **others)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(sweep(*PAIR, max_parallel=8, devices=one_device()), id="mean"),
        pytest.param(everything(max_parallel=4, devices=one_device()), id="median"),
    ],
)
@pytest.mark.slow
def test_the_compiler_uses_about_what_was_predicted(arguments):
    many = simulation(**arguments)
    session, state = many.session, many.start()
    assert session.spec.layout.parallel_configurations == 2
    states = grow(state.client_states, SMALL.seen)
    rho = session.spread(np.zeros((2, SMALL.clients), np.float32))
    inputs = Sweep(
        session.hparams, rho, session.is_byzantine,
        session.spread(state._replace(client_states=states)),
    )  # fmt: skip
    schedule = np.array([0, 1, 1, 1], np.int32)
    lowered = run_block.lower(session.spec, data_of(session), inputs, np.int32(0), schedule)
    used = lowered.compile().memory_analysis()
    needed = used.temp_size_in_bytes + used.output_size_in_bytes
    assert ROOM * needed <= many.resources.device_bytes


def test_only_an_accelerators_compiler_takes_a_workspace(monkeypatch):
    session = maxfl.Simulation(SMALL, MODEL, maxfl.fedavg(), TRAINING).session
    predictor = Predictor(session.experiment, SMALL, EvalBatch(8, 8))
    without = predictor.rounds()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(Program, "timing_bytes", lambda *_: 100)
    with_it = predictor.rounds()
    assert (without.workspace, without.timing) == (0, 0)
    assert (with_it.workspace, with_it.timing) == (WORKSPACE, 100)
    assert with_it.data == without.data


def test_the_prediction_counts_what_a_call_returns_once():
    nested = dataclasses.replace(MODEL, apply=jax.jit(jax.jit(MODEL.apply)))
    plain, called = (
        maxfl.Simulation(SMALL, model, maxfl.fedavg(), TRAINING).session.footprint
        for model in (MODEL, nested)
    )
    assert called.evaluation == plain.evaluation
    assert called.client <= 1.25 * plain.client  # what a gradient keeps leaves the call


def test_the_prediction_counts_clients_that_train_alone():
    few = simulation(
        maxfl.fedavg(), TRAINING._replace(cohort=1, batch_size=256), max_parallel=8,
        devices=one_device(),
    )  # fmt: skip
    session = few.session
    assert session.solo_spec.layout.parallel_clients == SMALL.clients
    slots = np.arange(SMALL.clients, dtype=np.int32)
    arguments = session.solo_spec, data_of(session), session.solo_ways[0], slots
    used = train_solo.lower(*arguments).compile().memory_analysis()
    assert ROOM * used.temp_size_in_bytes <= few.resources.device_bytes
    assert few.resources.largest_layout is session.solo_spec.layout


def test_the_prediction_counts_the_updates_of_a_robust_aggregator():
    # 12 numbers of 4 bytes, and as many that a client keeps, of 3 clients, in 6 copies.
    linear = maxfl.Model(lambda _: jnp.zeros((4, 3)), lambda w, x, _=None: x @ w)
    sums, sorts = (
        simulation(maxfl.scaffold(), model=linear, aggregator=rule()).session.footprint
        for rule in (mean, median)
    )
    assert sorts.configuration - sums.configuration == 6 * 3 * 2 * 48


def test_the_prediction_counts_the_minibatches_of_training_alone():
    small, large = (
        simulation(maxfl.fedavg(), requirement=maxfl.solo(batch_size=size)).session
        for size in (16, 512)
    )
    assert large.solo_footprint.client > 10 * small.solo_footprint.client
    assert large.footprint.client == small.footprint.client


def demanding_update(hparams, server, total, cohort):
    jax.lax.top_k(cohort.loss, 3)
    return maxfl.fedavg().server_update(hparams, server, total, cohort)


def demanding_client(_hparams, server, client_state, _client, task):
    task.steps.astype(jnp.float32)
    step = task.gradient(server.params, 0, scale=2.0)
    return step, client_state


@pytest.mark.parametrize(
    ("changed", "judges"),
    [
        ({"weight": lambda *_: 1.0}, False),
        ({"server_update": demanding_update}, False),
        ({"client_update": demanding_client}, False),
        ({"weight": lambda _hparams, _server, client: client.metric_cost + 1}, True),
        ({"weight": lambda _hparams, _server, client: client.size.no_such_thing}, True),
    ],
)
def test_methods_that_ask_for_more_are_predicted_too(changed, judges):
    method = maxfl.fedavg()._replace(**changed)
    footprint, plain = (
        simulation(one, requirement=maxfl.metric("accuracy", 0.5)).session.footprint
        for one in (method, maxfl.fedavg())
    )
    assert (footprint.client > plain.client) == judges


def test_losses_that_no_round_needs_take_no_memory():
    plain, weighted, asked = (
        simulation(method, **more).session
        for method, more in (
            (maxfl.fedavg(), {}),
            (maxfl.maxfl(temperature=[0.5, 1.0]), {}),
            (maxfl.fedavg(), {"participation": maxfl.decline()}),
        )
    )
    judged = weighted._predictor._judging().peak
    assert judged > 0
    assert weighted.footprint.client == asked.footprint.client == plain.footprint.client + judged
