"""Sweeps that fit: memory predicted, groups shared out over workers, tidy metrics."""

import time
from threading import Event

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from maxfl.core.aggregators import mean, median
from maxfl.engine.programs import run_block, train_alone
from maxfl.engine.resources import Footprint, fits
from maxfl.runs import tables, workers
from maxfl.runs.workers import StoppedError, share_out, stoppable


def test_what_fits_by_hand():
    own = Footprint(data=100, configuration=50, client=10)
    # 0.7 · 1000 − 100 = 600 bytes: 5 clients and a configuration are 100, so 6 configurations.
    assert fits(own, cohort=5, free=1000) == (6, 5)
    # 0.7 · 300 − 100 = 110: of 20 clients 6 fit beside one configuration.
    assert fits(own, cohort=20, free=300) == (1, 6)
    assert fits(own, cohort=20, free=10) == (1, 1), "something must run"


@pytest.mark.parametrize("rule", [mean, median])
def test_the_prediction_is_not_below_what_the_compiler_uses(small, small_model, rule):
    count = 3
    training = maxfl.Training(rounds=4, cohort=5, local_steps=2, batch_size=16)
    simulation = maxfl.Simulation(
        small, small_model, maxfl.scaffold(), training, seed=list(range(count)), at_once=count,
        devices=jax.devices()[:1], robust=rule(),
    )  # fmt: skip
    assert simulation.at_once == count
    rho = np.zeros((count, small.clients), np.float32)
    lies = np.zeros((count, small.clients), bool)
    arguments = (simulation.start(), np.int32(0), np.array([0, 4], np.int32))
    own = simulation.spec, simulation._data, simulation.numbers, rho, lies
    used = run_block.lower(*own, *arguments).compile().memory_analysis()
    assert simulation.predicted_bytes >= used.temp_size_in_bytes + used.output_size_in_bytes


def test_the_prediction_counts_clients_that_train_alone(small, small_model):
    simulation = maxfl.Simulation(
        small, small_model, maxfl.fedavg(), maxfl.Training(rounds=1, cohort=1, batch_size=16),
        at_once=8, devices=jax.devices()[:1],
    )  # fmt: skip
    alone, numbers = simulation.alone, simulation.numbers
    assert alone.layout.clients_at_once == small.clients
    own = alone, simulation._data, numbers.seed, numbers.local_lr, numbers.batch_size
    used = train_alone.lower(*own, np.arange(small.clients, dtype=np.int32)).compile()
    needed = used.memory_analysis().temp_size_in_bytes
    assert simulation.predicted_bytes >= needed
    assert simulation.largest_layout is alone.layout


def test_the_prediction_counts_the_updates_of_a_robust_rule(small):
    # 12 numbers of 4 bytes, and as many that a client keeps, of 5 clients, in 6 copies.
    linear = maxfl.Model(lambda _: jnp.zeros((4, 3)), lambda w, x, _=None: x @ w)
    training = maxfl.Training(rounds=1, cohort=5)
    sums, sorts = (
        maxfl.Simulation(small, linear, maxfl.scaffold(), training, robust=rule()).footprint
        for rule in (mean, median)
    )
    assert sorts.configuration - sums.configuration == 6 * 5 * 2 * 48


def test_a_sweep_that_does_not_fit_is_cut(small, small_model, monkeypatch):
    # That the cut changes no result is test_engine's, which cuts by at_once.
    training = maxfl.Training(rounds=2, cohort=5, local_steps=1, batch_size=4, evaluate_every=1)
    rates = [0.1, 0.2, 0.3, 0.4, 0.5]

    def simulation(free):
        monkeypatch.setattr("maxfl.engine.simulation.free_bytes", lambda _: free)
        return maxfl.Simulation(
            small, small_model, maxfl.maxfl(), training._replace(local_lr=rates),
            at_once=8, devices=jax.devices()[:1],
        )  # fmt: skip

    roomy = simulation(10**12)
    each = roomy.footprint.configuration + 5 * roomy.footprint.client
    tight = simulation(int((roomy.footprint.data + 2.5 * each) / 0.7))
    assert (roomy.at_once, tight.at_once) == (5, 2)


def one_gpu(monkeypatch):
    """Let the workers take this machine for one with a single GPU."""
    monkeypatch.setattr(workers.jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(workers.jax, "devices", lambda: jax.local_devices()[:1])


def test_on_an_accelerator_several_queues_run_at_once(monkeypatch):
    one_gpu(monkeypatch)
    both = [Event(), Event()]

    def run_one(g):
        if g < 2:  # the first of each queue waits for the other queue
            both[g].set()
            assert both[1 - g].wait(10)
        order.append(g)

    order = []
    share_out(run_one, [[0, 2, 4], [1, 3]], Event(), largest=1)
    assert sorted(order) == [0, 1, 2, 3, 4]
    assert order.index(0) < order.index(2) < order.index(4)


def test_one_failure_stops_the_other_workers(monkeypatch):
    one_gpu(monkeypatch)
    stop, ended = Event(), []

    def run_one(g):
        if g == 1:
            raise maxfl.InputError("out of luck")
        report = stoppable(None, stop)
        try:
            for _ in range(1000):
                time.sleep(0.01)
                report("rounds", 1, 2)
        except StoppedError:
            ended.append(g)
            raise

    with pytest.raises(maxfl.InputError, match="out of luck"):
        share_out(run_one, [[0, 2], [1]], stop, largest=1)
    assert ended == [0], "and what had not begun is not begun"


def test_metrics_are_tidy(small, small_model):
    training = maxfl.Training(rounds=2, cohort=2, local_steps=1, batch_size=4, evaluate_every=1)
    history = maxfl.simulate(small, small_model, maxfl.maxfl(), training, seed=[3, 4])
    values = [{"training.local_lr": 0.1}, {"training.local_lr": 0.2, "method": "x"}]
    table = tables.metrics_table(history, [5, 7], [3, 4], values)
    rows = table.to_pylist()
    assert len(rows) == 2 * 3 * 2 * 9  # configurations, rounds, groups, metrics
    (row,) = (
        r for r in rows
        if (r["configuration"], r["round"], r["clients"], r["metric"])
        == (7, 2, "unseen", "test_accuracy")
    )  # fmt: skip
    assert row["value"] == pytest.approx(float(history.accuracy("unseen")[1, 2]))
    assert (row["seed"], row["training.local_lr"], row["method"]) == (4, 0.2, "x")
    assert rows[0]["method"] is None
