"""Same seed, same draws: across repeats, sweeps and devices."""

import dataclasses
import inspect
import threading
import time
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import maxfl
from maxfl.core.federation import InputScaling
from maxfl.core.model import CompiledScaling
from maxfl.engine import session, trainer
from maxfl.engine import simulation as simulation_module
from maxfl.engine.evaluation import score_samples
from maxfl.engine.layout import EvalBatch
from maxfl.engine.minibatches import Task
from maxfl.models import mlp
from support.compare import assert_same
from support.federations import CLASSES, FEATURES, make_clients
from support.small import (
    DROPOUT_MODEL,
    MODEL,
    PAIR,
    PAPER,
    SMALL,
    TRAINING,
    Choice,
    one_device,
    simulate,
    simulation,
    sweep,
    train,
)

IN_TURN = {}
"""One configuration on each of two devices."""
AT_ONCE = {"max_parallel": 8, "devices": one_device()}
"""Configurations and clients vectorised."""


def test_the_same_run_gives_the_same_bits():
    assert_same(simulate(**sweep(Choice())), simulate(**sweep(Choice())), 0)


@pytest.mark.slow
def test_the_layout_of_an_accelerator_does_not_matter(monkeypatch):
    in_turn = train(**sweep(Choice()))
    compiled_steps = session.compiled_steps
    monkeypatch.setattr(session, "compiled_steps", lambda steps, _: compiled_steps(steps, "gpu"))
    assert_same(simulate(**sweep(Choice(), max_parallel=3)), in_turn, 1e-5)


@pytest.mark.slow
def test_local_steps_at_once_give_the_same_run(monkeypatch):
    """What a perceptron's kernel is for on a GPU: 2 + 1 steps, of minibatches of two sizes."""
    choices = Choice(), Choice(4, batch_size=2)
    one_by_one, compiled_steps = train(**sweep(*choices)), session.compiled_steps
    monkeypatch.setattr(session, "compiled_steps", lambda steps, _: compiled_steps(steps, "gpu"))
    monkeypatch.setattr(mlp, "most_perceptron_steps", lambda *_: 2)
    at_once, take_steps = set(), mlp._Perceptron.take_steps

    def counted(model, params, steps):
        at_once.add(len(steps.y))
        return take_steps(model, params, steps)

    monkeypatch.setattr(mlp._Perceptron, "take_steps", counted)
    # As many units are dropped, by another model: it is traced anew.
    again = maxfl.mlp(FEATURES, (6, 5), CLASSES, dropout=0.4001)
    assert_same(simulate(**sweep(*choices, model=again)), one_by_one, 1e-5)
    assert at_once == {1, 2}


@pytest.mark.slow
def test_a_scaling_that_is_compiled_in_gives_the_same_run(monkeypatch):
    """As that of images on a GPU is."""
    scaling = InputScaling(np.float32(0.2), np.float32(1.5))
    requirement = maxfl.solo(1.2, steps=5, **PAPER)

    def run():
        scaled = SMALL._replace(input_scaling=scaling, known_digest=None)
        return maxfl.simulate(scaled, MODEL, maxfl.maxfl(), TRAINING, requirement=requirement)

    plain, compiled = run(), []

    def compile_in(given, _):
        compiled.append(CompiledScaling(*given))
        return compiled[-1]

    monkeypatch.setattr(trainer, "compiled_scaling", compile_in)
    assert_same(run(), plain, 1e-6)
    assert compiled == [CompiledScaling(*scaling)]


@pytest.mark.slow
def test_neither_the_number_of_devices_nor_the_chunks_of_evaluations_matter(monkeypatch):
    two_devices = train(**sweep(Choice()))
    monkeypatch.setattr(session, "choose_eval_batch", lambda *_: EvalBatch(7, 7))
    assert_same(two_devices, simulate(**sweep(Choice(), devices=one_device())), 1e-5)


@pytest.mark.slow
def test_configurations_on_devices_of_their_own_are_the_same_bits():
    """Configurations never meet, so that no sum has another order; solo clients neither."""
    one, two = train(**sweep(*PAIR, devices=one_device())), train(**sweep(*PAIR))
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    "layout", [pytest.param(IN_TURN, marks=pytest.mark.slow), AT_ONCE], ids=["in turn", "at once"]
)
def test_a_configuration_of_a_sweep_is_as_when_it_runs_alone(layout):
    both = train(**sweep(*PAIR, **layout))
    for c, choice in enumerate(PAIR):
        assert_same(both, train(**sweep(choice)), 1e-5, slice(c, c + 1))


def test_methods_face_the_same_clients_and_requirements():
    one, other = train(maxfl.fedavg()), train(maxfl.maxfl())
    np.testing.assert_array_equal(one.cohorts.client_id, other.cohorts.client_id)
    np.testing.assert_array_equal(one.thresholds.judging, other.thresholds.judging)


def test_different_seeds_draw_differently():
    one, other = (train(**sweep(Choice(seed=s))).cohorts.client_id for s in (1, 2))
    assert (one != other).any()


def test_a_diverging_configuration_does_not_harm_the_others():
    wild = Choice(local_lr=1e30, batch_size=2, start_round=100)
    fine = Choice(start_round=100)
    with pytest.warns(maxfl.TrainingWarning, match="1 of 2 configurations"):
        both = simulate(**sweep(fine, wild, **AT_ONCE))
    np.testing.assert_array_equal(both.failed(), [False, True])
    assert_same(both, train(**sweep(fine)), 1e-5, slice(0, 1))


@pytest.mark.slow
def test_a_client_without_a_requirement_harms_nobody():
    """A NaN requirement: the client has no weight, and the round is the others' round."""
    fixed = sweep(
        Choice(start_round=100), Choice(start_round=100, batch_size=2),
        requirement=maxfl.fixed(1.0, 10), **AT_ONCE,
    )  # fmt: skip
    odd = simulation(**fixed)
    prepared = odd.prepare()
    requirement = prepared.thresholds.judging.copy()
    requirement[:, 2] = np.inf - np.inf
    prepared = prepared._replace(thresholds=prepared.thresholds._replace(judging=requirement))
    states, blocks = zip(*odd.blocks(prepared, odd.start()), strict=True)
    cohorts = odd.history(prepared, blocks, states[-1]).cohorts
    assert (cohorts.client_id == 2).any()
    assert cohorts.participated.all()
    assert (cohorts.weight[cohorts.client_id == 2] == 0).all()
    assert (cohorts.weight[cohorts.client_id != 2] > 0).all()
    start, end = odd.start().server.params, states[-1].server.params
    for before, after in zip(jax.tree.leaves(start), jax.tree.leaves(end), strict=True):
        assert not np.allclose(before, after)
    assert not np.allclose(end[0].weight, train(**fixed).params[0].weight)


@pytest.mark.slow
def test_clients_of_very_unequal_size():
    """1 to 10,000 samples: nothing is padded, and every mean is over the client's own samples."""
    rng = np.random.default_rng(0)
    sizes = [1, 10_000, 3, 257, 4096, 2]
    data = [(rng.normal(size=(n, 4)), rng.integers(0, 3, n)) for n in sizes]
    federation = maxfl.Federation.from_clients(data, data[::-1])
    assert len(federation.train.y) == sum(sizes)
    history = maxfl.simulate(
        federation, DROPOUT_MODEL, maxfl.maxfl(), TRAINING._replace(cohort=6, rounds=3),
        requirement=maxfl.fixed(1.5, 10, **PAPER),
    )  # fmt: skip
    params = jax.tree.map(lambda a: a[0], history.params)
    evaluation = history.evaluation
    for k, (x, y) in enumerate(data):
        task = Task(DROPOUT_MODEL, InputScaling(), federation.train)
        found = score_samples(task, params, x.astype(np.float32), y)
        loss, accuracy = float(found.loss.mean()), float(found.metrics[0].mean())
        mirrored = len(sizes) - 1 - k
        assert evaluation.judging_loss[0, -1, k] == pytest.approx(loss, rel=1e-4)
        assert evaluation.test_loss[0, -1, mirrored] == pytest.approx(loss, rel=1e-4)
        assert evaluation.test_metrics[0][0, -1, mirrored] == pytest.approx(accuracy, abs=1e-5)
    assert history.cohorts.participated.all()


@pytest.mark.slow
def test_a_federation_of_one_client():
    pair = make_clients([2])
    federation = maxfl.Federation.from_clients(pair, pair, classes=3)
    training = TRAINING._replace(cohort=1, rounds=3)
    history = maxfl.simulate(federation, MODEL, maxfl.maxfl(), training)
    assert history.cohorts.participated.all()
    assert history.evaluation.judging_loss.shape == (1, 4, 1)


def test_the_reported_weight_is_that_of_the_model_that_was_sent():
    history = train(maxfl.maxfl(temperature=0.5))
    gap = history.evaluation.judging_loss[0] - history.thresholds.judging[0]
    expected = maxfl.appeal.weight(gap, 0.0, 0.5)
    np.testing.assert_allclose(history.evaluation.weight[0], expected, rtol=1e-4)
    for t in range(TRAINING.rounds):
        cohort = history.cohorts.client_id[0, t]
        np.testing.assert_allclose(history.cohorts.weight[0, t], expected[t][cohort], rtol=1e-4)
    assert history.evaluation.weight.shape == (1, TRAINING.rounds + 1, SMALL.clients)


@pytest.mark.parametrize(
    ("function", "kind", "more"),
    [
        (maxfl.simulate, maxfl.Simulation, ["progress"]),
        (maxfl.stream, maxfl.StreamingSimulation, ["folder", "progress"]),
    ],
)
def test_functions_have_all_arguments_of_their_class(function, kind, more):
    ours, theirs = (inspect.signature(f).parameters for f in (function, kind))
    assert [name for name in ours if name not in theirs] == more
    assert [ours[name] for name in theirs] == list(theirs.values())
    shared = inspect.signature(maxfl.Simulation).parameters
    assert [name for name in shared if name not in theirs] == []
    assert all(theirs[name] == shared[name] for name in shared)


@pytest.fixture
def compiled():
    """Names of all programs that JAX compiles, or finds in its cache on disk."""
    names = []

    def add(event, _, fun_name="", **more):  # noqa: ARG001
        if event.endswith("backend_compile_duration"):
            names.append(fun_name)

    jax.monitoring.register_event_duration_secs_listener(add)
    return names


@pytest.mark.parametrize("precision", ["default", pytest.param("highest", marks=pytest.mark.slow)])
def test_the_first_block_finds_its_program_compiled(compiled, precision):
    threads = []

    def apply(params, x, key=None):
        threads.append(threading.current_thread())
        return MODEL.apply(params, x, key)

    model = dataclasses.replace(MODEL, apply=apply)
    simulation = maxfl.Simulation(SMALL, model, maxfl.maxfl(), TRAINING)
    # A setting of this thread, which a thread of the compiler has not.
    with jax.default_matmul_precision(precision) if precision != "default" else nullcontext():
        with simulation.compiling():
            state, prepared = simulation.start(), simulation.prepare()
        assert compiled.count("jit(run_block)") == (precision == "default")
        next(simulation.blocks(prepared, state))
    assert compiled.count("jit(run_block)") == 1
    assert set(threads) == {threading.current_thread()}


@pytest.mark.parametrize("kept", [lambda: jax.random.key(0), lambda: jax.numpy.asarray(1.0)])
def test_nothing_is_compiled_ahead_for_states_that_zeros_cannot_stand_for(compiled, kept):
    """Keys, and numbers of a weak type: the program of zeros would be another."""
    method = maxfl.fedavg()._replace(init_server=lambda *_: kept())
    simulation = maxfl.Simulation(SMALL, MODEL, method, TRAINING)
    with simulation.compiling():
        pass
    assert "jit(run_block)" not in compiled


def test_an_error_does_not_wait_for_the_compiler(monkeypatch):
    ended = threading.Event()
    slow = SimpleNamespace(lower=lambda *_: SimpleNamespace(compile=partial(ended.wait, 20)))
    monkeypatch.setattr(simulation_module, "run_block", slow)
    simulation = maxfl.Simulation(SMALL, MODEL, maxfl.maxfl(), TRAINING)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), simulation.compiling():
        raise KeyboardInterrupt
    waited = time.monotonic() - began
    ended.set()
    assert waited < 10
