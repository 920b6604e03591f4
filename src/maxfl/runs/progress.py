"""A run in progress, for whoever looks: one small file, written anew after every block.

progress.json is there while a run is at work (or was killed); a finished run has none.
"""

import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from maxfl.core.metrics import ACCURACY, MetricInfo
from maxfl.engine.history import History
from maxfl.engine.trainer import Progress
from maxfl.utils.errors import InputError
from maxfl.utils.files import read_json, write_json

PROGRESS = "progress.json"
MOST_POINTS = 400
"""Of the trail; beyond them every second one is left out, so that no writing takes longer."""
LEAST_SECONDS = 0.5
"""Between two writings, if nothing was measured."""


class ProgressState(NamedTuple):
    """What progress.json holds.

    Attributes:
        pid: The process at work.
        host: Its machine.
        began: When it began, in seconds since 1970.
        at: When this was written.
        stage: What it is doing; "rounds" when it trains.
        done: How much of the stage is done.
        total: How much there is to do.
        first: Rounds that were done before this process.
        stopped: Why it ended before its end, as far as it could say.
        configurations: What is special about each.
        latest: Each one's means over the seen clients, as measured last.
        trail: Means over the seen clients and all configurations, at some of the rounds.
        warnings: What goes wrong without an error.
        metric: The model's first; its means are among the others.
    """

    pid: int
    host: str
    began: float
    at: float
    configurations: list[dict[str, Any]]
    stage: str = "starting"
    done: int = 0
    total: int = 0
    first: int = 0
    stopped: str | None = None
    latest: list[dict[str, float | None]] = []  # noqa: RUF012 (a NamedTuple, never changed)
    trail: dict[str, list[float | None]] = {}  # noqa: RUF012
    warnings: list[str] = []  # noqa: RUF012
    metric: MetricInfo = ACCURACY


def trail_names(metric: MetricInfo) -> tuple[str, ...]:
    """Return what is kept of every round: means over the seen clients and all configurations."""
    return "gm_appeal", f"test_{metric.name}", "willing"


def read_progress(folder: Path) -> ProgressState:
    """Return what the run in a folder says of itself."""
    try:
        state = ProgressState(**read_json(folder / PROGRESS))
        return state._replace(metric=MetricInfo(*state.metric))
    except TypeError as error:
        raise InputError(
            f"{folder / PROGRESS} is not as this version writes it: {error}"
        ) from error


class ProgressFile:
    """The progress file of a run folder; without a folder, nothing is written."""

    def __init__(
        self, folder: Path | None, values: Sequence[Mapping[str, Any]], inner: Progress | None
    ) -> None:
        self._path, self._inner = folder and folder / PROGRESS, inner
        self._news = True  # something that is not to wait for the next regular time
        self._measured, self._stride = 0, 1
        now = time.time()
        self.state = ProgressState(
            os.getpid(), socket.gethostname(), now, now, [dict(chosen) for chosen in values]
        )

    def begin(self) -> None:
        """Write the first sign of life."""
        self._write()

    def report(self, stage: str, done: int, total: int) -> None:
        """Note the stage and pass it on; a progress callback."""
        if stage == "resumed":
            self.state = self.state._replace(first=done)
        else:
            self.state = self.state._replace(stage=stage, done=done, total=total)
        if self._news or time.time() - self.state.at > LEAST_SECONDS:
            self._write()
        if self._inner:
            self._inner(stage, done, total)

    def measured(self, history: History) -> None:
        """Note means over the seen clients of some more rounds."""
        self.note(history.rounds.tolist(), history.metrics("seen"), history.metric)

    def note(
        self, rounds: list[int], metrics: Mapping[str, Any], metric: MetricInfo = ACCURACY
    ) -> None:
        """Note means of some more rounds, float[C, E] each; ``metric`` is the model's first."""
        names = trail_names(metric)
        picked = [e for e in range(len(rounds)) if (self._measured + e) % self._stride == 0]
        self._measured += len(rounds)
        more: dict[str, list[Any]] = {"round": [rounds[e] for e in picked]}
        for name in names:
            means = metrics[name].mean(0)
            more[name] = [_number(means[e]) for e in picked]
        trail = {name: self.state.trail.get(name, []) + values for name, values in more.items()}
        if len(trail["round"]) > MOST_POINTS:
            self._stride *= 2
            trail = {name: values[::2] for name, values in trail.items()}
        self._news = True
        rows = zip(*(metrics[name][:, -1] for name in names), strict=True)
        latest = [dict(zip(names, map(_number, row), strict=True)) for row in rows]
        self.state = self.state._replace(trail=trail, latest=latest, metric=metric)

    def warn(self, texts: Sequence[str]) -> None:
        """Note what goes wrong without an error."""
        self.state = self.state._replace(warnings=[*self.state.warnings, *texts])

    @contextmanager
    def noting_failure(self) -> Iterator[None]:
        """Say so if the work fails, or if somebody stops it."""
        try:
            yield
        except BaseException as error:
            self.stop(str(error).split("\n")[0] or type(error).__name__)
            raise

    def stop(self, why: str) -> None:
        """Say why the run stands still, as far as that can be written."""
        self.state = self.state._replace(stopped=why)
        with suppress(OSError):  # such as the full disk that ended it
            self._write()

    def remove(self) -> None:
        """Remove the file: the run is finished."""
        if self._path:
            self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        self._news = False
        self.state = self.state._replace(at=time.time())
        if self._path:
            write_json(self._path, self.state._asdict())


def _number(value: Any) -> float | None:
    return float(f"{value:.4g}") if np.isfinite(value) else None
