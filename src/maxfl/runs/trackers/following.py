"""Tell trackers, and whoever watches, what was measured as a run goes on."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import product

import numpy as np

from maxfl.engine.history import Group, History, Whose
from maxfl.runs.progress import Live
from maxfl.runs.trackers import Configuration, Opener, Tracker


class Following:
    """The trackers of a run, opened while it is at work; the run goes on without one that fails."""

    def __init__(
        self, live: Live, told: Sequence[Configuration], openers: Sequence[Opener]
    ) -> None:
        self._live, self._told, self._openers = live, told, openers
        self._open: list[tuple[int, Tracker]] = []

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Open every tracker for every configuration; close them when the run ends or fails."""
        failed = True
        try:
            for c, own in enumerate(self._told):
                for open_tracker in self._openers:
                    self._open.append((c, open_tracker(own)))
            yield
            failed = False
        finally:
            for _, tracker in self._open:
                _tried(partial(tracker.close, failed))

    def measured(self, history: History) -> None:
        """Pass on the metrics of some more rounds."""
        self._live.measured(history)
        metrics = named_metrics(history) if self._open else {}
        for c, tracker in list(self._open):
            if not _tried(partial(_log, tracker, history, metrics, c)):
                self._open.remove((c, tracker))


def _log(tracker: Tracker, history: History, metrics: dict[str, np.ndarray], c: int) -> None:
    for e, done in enumerate(history.rounds):
        tracker.log(
            int(done), {n: float(v[c, e]) for n, v in metrics.items() if np.isfinite(v[c, e])}
        )


def _tried(call: Callable[[], None]) -> bool:
    """Whether it worked; somebody else's server must not end hours of training."""
    try:
        call()
    except Exception as error:
        warnings.warn(f"a tracker failed and is left out from here on: {error}", stacklevel=3)
        return False
    return True


def named_metrics(history: History) -> dict[str, np.ndarray]:
    """Every mean over clients, float[C, E], as seen/gm_appeal or unseen/personal/test_loss."""
    groups: tuple[Group, ...] = ("seen",) if history.is_seen.all() else ("seen", "unseen")
    models: tuple[Whose, ...] = ("global", "personal") if history.has_personal else ("global",)
    return {
        "/".join([group, *(["personal"] if model == "personal" else []), name]): value
        for group, model in product(groups, models)
        for name, value in history.metrics(group, model).items()
    }
