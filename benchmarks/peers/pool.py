"""Clients of a round over processes that share one vector of parameters.

For peers that are a plain loop: a worker trains its clients one after another, and evaluates its
part of the samples.
"""

import multiprocessing as mp
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from task import ACCURACY, LOSS, Floats, Task


class Worker(Protocol):
    """One process's work; parameters travel as one vector, float32[P]."""

    def train(self, params: Floats, client: int) -> Floats:
        """Return parameters after τ steps on a client's samples."""
        ...

    def evaluate(self, params: Floats, split: int, rows: slice) -> tuple[Floats, Floats]:
        """Compute loss and correctness of each sample of training (0) or test (1) data."""
        ...


class Shared(NamedTuple):
    """Arrays that all processes see: parameters, sums [processes, P], scores a split [2, rows]."""

    params: Floats
    sums: Floats
    scores: tuple[Floats, Floats]


class Pool:
    """FedAvg over some processes; with one, all is done here."""

    def __init__(self, task: Task, processes: int, build: Callable[[Task], Worker]) -> None:
        self.task, self.processes = task, processes
        start = flat(task.start)
        rows = [len(task.train.y), len(task.test.y)]
        self.shared = Shared(
            _shared(start.shape), _shared((processes, start.size)),
            (_shared((2, rows[0])), _shared((2, rows[1]))),
        )  # fmt: skip
        self.shared.params[:] = start
        self.pipes: list[Connection] = []
        for rank in range(1, processes):
            ours, theirs = mp.Pipe()
            arguments = (theirs, task, self.shared, rank, build)
            mp.get_context("fork").Process(target=_serve, args=arguments, daemon=True).start()
            self.pipes.append(ours)
        self.worker = build(task)

    def one_round(self, cohort: NDArray[np.int64]) -> None:
        """Train a cohort and take the mean by samples; evaluate if the task says so."""
        shares = [cohort[rank :: self.processes] for rank in range(self.processes)]
        self._do("train", shares)
        total = self.task.train.sizes[cohort].sum()
        np.sum(self.shared.sums, axis=0, out=self.shared.params)
        self.shared.params[:] /= np.float32(total)
        if self.task.evaluated:
            self._do("evaluate", [None] * self.processes)

    def evaluation(self) -> Floats | None:
        """Return the last evaluation of every client, float32[2, 2, K]."""
        if not self.task.evaluated:
            return None
        return np.stack([
            np.add.reduceat(scores, split.offsets[:-1], axis=1) / split.sizes
            for scores, split in zip(
                self.shared.scores, (self.task.train, self.task.test), strict=True
            )
        ]).astype(np.float32)  # fmt: skip

    def params(self) -> list[Floats]:
        """Return the parameters, one array for each."""
        return unflat(self.shared.params.copy(), self.task.start)

    def _do(self, what: str, shares: list[Any]) -> None:
        for pipe, share in zip(self.pipes, shares[1:], strict=True):
            pipe.send((what, share))
        _work(what, shares[0], self.task, self.shared, 0, self.processes, self.worker)
        for pipe in self.pipes:
            pipe.recv()


def flat(params: list[Floats]) -> Floats:
    """Return all parameters as one vector."""
    return np.concatenate([p.reshape(-1) for p in params])


def unflat(vector: Floats, like: list[Floats]) -> list[Floats]:
    """Return views of a vector, shaped like some parameters."""
    ends = np.cumsum([p.size for p in like])
    parts = np.split(vector, ends[:-1])
    return [part.reshape(p.shape) for part, p in zip(parts, like, strict=True)]


def _serve(
    pipe: Connection, task: Task, shared: Shared, rank: int, build: Callable[[Task], Worker]
) -> None:
    worker, processes = build(task), len(shared.sums)
    while True:
        try:
            what, share = pipe.recv()
        except EOFError:  # the pool is gone
            return
        _work(what, share, task, shared, rank, processes, worker)
        pipe.send(None)


def _work(
    what: str, share: Any, task: Task, shared: Shared, rank: int, processes: int, worker: Worker
) -> None:
    if what == "train":
        total = shared.sums[rank]
        total[:] = 0
        for client in share:
            total += worker.train(shared.params, client) * np.float32(task.train.sizes[client])
        return
    for split, scores in enumerate(shared.scores):
        samples = scores.shape[1]
        rows = slice(samples * rank // processes, samples * (rank + 1) // processes)
        scores[LOSS, rows], scores[ACCURACY, rows] = worker.evaluate(shared.params, split, rows)


def _shared(shape: tuple[int, ...]) -> Floats:
    """Return zeros that forked processes share."""
    size = int(np.prod(shape))
    return np.frombuffer(mp.RawArray("f", size), np.float32).reshape(shape)
