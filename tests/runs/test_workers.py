"""Groups of a sweep, shared out over workers."""

import time
from threading import Event

import jax
import pytest

import maxfl
from maxfl.runs import workers
from maxfl.runs.workers import StoppedError, run_queues, stoppable


@pytest.fixture
def _one_gpu(monkeypatch):
    """Let the workers take this machine for one with a single GPU."""
    devices = jax.devices()[:1]
    monkeypatch.setattr(workers.jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(workers.jax, "devices", lambda: devices)


@pytest.mark.usefixtures("_one_gpu")
def test_on_an_accelerator_several_queues_run_at_once():
    both, order = [Event(), Event()], []

    def run_one(g):
        if g < 2:  # the first of each queue waits for the other queue
            both[g].set()
            assert both[1 - g].wait(10)
        order.append(g)

    run_queues(run_one, [[0, 2, 4], [1, 3]], Event(), largest=1)
    assert sorted(order) == [0, 1, 2, 3, 4]
    assert order.index(0) < order.index(2) < order.index(4)


@pytest.mark.usefixtures("_one_gpu")
def test_one_failure_stops_the_other_workers():
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
        run_queues(run_one, [[0, 2], [1]], stop, largest=1)
    assert ended == [0], "and what had not begun is not begun"
