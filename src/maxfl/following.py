"""Tell trackers, and whoever watches, what was measured as a run goes on."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product

import numpy as np

from maxfl.history import Group, History, Whose
from maxfl.live import Live
from maxfl.trackers import Configuration, Opener, Tracker


class Following:
    """The trackers of a run, opened while it is at work."""

    def __init__(
        self, live: Live, told: Sequence[Configuration], openers: Sequence[Opener]
    ) -> None:
        self._live, self._told, self._openers = live, told, openers
        self._trackers: list[list[Tracker]] = []

    @contextmanager
    def opened(self, done: int) -> Iterator[None]:
        """Open every tracker for every configuration, ``done`` rounds into it; then close them."""
        with ExitStack() as stack:
            for own in self._told:
                trackers = [
                    open_tracker(own._replace(first=done)) for open_tracker in self._openers
                ]
                for tracker in trackers:
                    stack.callback(tracker.close)
                self._trackers.append(trackers)
            yield

    def measured(self, history: History) -> None:
        """Pass on the metrics of some more rounds."""
        self._live.measured(history)
        if not self._openers:
            return
        metrics = named_metrics(history)
        for c, trackers in enumerate(self._trackers):
            for e, done in enumerate(history.rounds):
                own = {n: float(v[c, e]) for n, v in metrics.items() if np.isfinite(v[c, e])}
                for tracker in trackers:
                    tracker.log(int(done), own)


def named_metrics(history: History) -> dict[str, np.ndarray]:
    """Every mean over clients, float[C, E], as seen/gm_appeal or unseen/personal/test_loss."""
    groups: tuple[Group, ...] = ("seen",) if history.is_seen.all() else ("seen", "unseen")
    models: tuple[Whose, ...] = ("global", "personal") if history.has_personal else ("global",)
    return {
        "/".join([group, *(["personal"] if model == "personal" else []), name]): value
        for group, model in product(groups, models)
        for name, value in history.metrics(group, model).items()
    }
