"""Groups of a sweep, shared out over workers."""

import time
from contextlib import contextmanager, nullcontext
from threading import Event
from types import SimpleNamespace

import jax
import pytest

import maxfl
from maxfl.runs import sweep, workers
from maxfl.runs.build import Group
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

    run_queues(run_one, nullcontext, [[0, 2, 4], [1, 3]], Event(), largest=1)
    assert sorted(order) == [0, 1, 2, 3, 4]
    assert order.index(0) < order.index(2) < order.index(4)


@pytest.mark.parametrize(("largest", "ahead"), [(1, True), (2**62, False)])
def test_on_a_cpu_the_next_queue_is_compiled_during_this_one_if_both_fit(largest, ahead):
    log = []

    @contextmanager
    def compiling(g):
        log.append(f"compile {g}")
        yield
        log.append(f"compiled {g}")

    run_queues(log.append, compiling, [[0, 1], [2]], Event(), largest)
    assert log == (["compile 2", 0, 1, "compiled 2", 2] if ahead else [0, 1, 2])


def test_what_cannot_be_compiled_ahead_fails_in_its_turn(monkeypatch, tmp_path):
    def refuse(*_):
        raise RuntimeError("too large")

    monkeypatch.setattr(sweep, "build", refuse)
    groups = sweep._Groups(None, [Group([0], [])], SimpleNamespace(path=tmp_path), (), None)
    with groups._compiling(0):
        pass


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
        run_queues(run_one, nullcontext, [[0, 2], [1]], stop, largest=1)
    assert ended == [0], "and what had not begun is not begun"
