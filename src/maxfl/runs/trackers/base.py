"""What a tracker is, and how a run tells its trackers what was measured as it goes on."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from maxfl.engine.history import History
from maxfl.runs.progress import ProgressFile
from maxfl.runs.tables import Labels
from maxfl.utils.files import write_whole


class Configuration(NamedTuple):
    """What a tracker receives before the first round.

    Attributes:
        folder: The run's.
        number: Of the configuration in its sweep.
        values: What is special about it, by setting.
        settings: All of its settings, where the run was made from some.
    """

    folder: Path
    number: int
    values: dict[str, Any]
    settings: dict[str, Any]

    @property
    def name(self) -> str:
        """For people: the folder, and what is special."""
        special = ", ".join(f"{k.rpartition('.')[2]} {v}" for k, v in self.values.items())
        name = _sweep_folder(self.folder).name
        return f"{name}: {special}" if special else name

    def tracker_id(self, tracker: str, make: Callable[[], str]) -> str:
        """Return the id that this configuration has at a tracker, the same after every resume."""
        path = self.folder / "trackers" / f"{tracker}-{self.number}.txt"
        if not path.is_file():
            path.parent.mkdir(exist_ok=True)
            write_whole(path, make().encode())
        return path.read_text()


class Tracker(Protocol):
    """Where one configuration's metrics go."""

    def log(self, round: int, metrics: Mapping[str, float]) -> None:
        """Note the metrics of the model after some rounds."""

    def close(self, failed: bool) -> None:
        """Write what is left, once, when the run ends, fails or is interrupted."""


Points = Mapping[int, Mapping[str, float]]
"""Metrics by name, by the rounds that were done."""
OpenTracker = Callable[[Configuration], Tracker]
"""Opens a tracker for one configuration."""


def configurations_of(folder: Path, labels: Labels) -> list[Configuration]:
    """Return what trackers receive of each configuration."""
    config = labels.config
    settings = config if isinstance(config, list) else [config or {}] * len(labels.indices)
    return [
        Configuration(folder, index, dict(values), given)
        for index, values, given in zip(labels.indices, labels.values, settings, strict=True)
    ]


class TrackerDispatch:
    """The trackers of a run, opened while it is at work; the run goes on without one that fails.

    Attributes:
        progress: The run's progress file, which receives the same.
    """

    def __init__(
        self,
        progress: ProgressFile,
        configurations: Sequence[Configuration],
        trackers: Sequence[OpenTracker],
    ) -> None:
        self.progress, self._configurations = progress, configurations
        self._trackers = trackers
        self._open: list[tuple[int, Tracker]] = []

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Open every tracker for every configuration; close them when the run ends or fails."""
        failed = True
        try:
            for c, configuration in enumerate(self._configurations):
                for open_tracker in self._trackers:
                    self._open.append((c, open_tracker(configuration)))
            yield
            failed = False
        finally:
            for _, tracker in self._open:
                _tried(partial(tracker.close, failed))

    def measured(self, history: History) -> None:
        """Pass on the metrics of some more rounds."""
        self.progress.measured(history)
        metrics = named_metrics(history) if self._open else {}
        self._tell(lambda c: _points(history, metrics, c))

    def note(self, points: Points) -> None:
        """Pass on some metrics of a run that is one configuration."""
        self._tell(lambda _: points)

    def _tell(self, points_of: Callable[[int], Points]) -> None:
        for c, tracker in list(self._open):
            if not _tried(partial(_log, tracker, points_of(c))):
                self._open.remove((c, tracker))


def _points(history: History, metrics: dict[str, np.ndarray], c: int) -> Points:
    return {
        int(done): {n: float(v[c, e]) for n, v in metrics.items() if np.isfinite(v[c, e])}
        for e, done in enumerate(history.rounds)
    }


def _log(tracker: Tracker, points: Points) -> None:
    for done, metrics in points.items():
        tracker.log(done, metrics)


def _tried(call: Callable[[], None]) -> bool:
    """Tell whether it worked; somebody else's server must not end hours of training."""
    try:
        call()
    except Exception as error:
        warnings.warn(f"a tracker failed and is left out from here on: {error}", stacklevel=3)
        return False
    return True


def named_metrics(history: History) -> dict[str, np.ndarray]:
    """Return every mean over clients, float[C, E], as seen/gm_appeal or unseen/personal/…."""
    return {
        "/".join([group, *(["personal"] if model == "personal" else []), name]): value
        for group, model in product(history.groups, history.models)
        for name, value in history.metrics(group, model).items()
    }


def _sweep_folder(folder: Path) -> Path:
    """Return the sweep's folder for one of its groups."""
    folder = folder.resolve()
    return folder.parent.parent if folder.parent.name == "groups" else folder
