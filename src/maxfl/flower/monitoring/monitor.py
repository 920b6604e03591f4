"""Tell an operator what happens while it happens: metrics on a port, and warnings in the log."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from logging import INFO, WARNING
from typing import NamedTuple

from flwr.common.logger import log

from maxfl.core.metrics import ACCURACY, MetricInfo
from maxfl.flower.monitoring.prometheus import NO_TIMING, Exporter, Timing, exposition
from maxfl.flower.monitoring.stall import stall_of
from maxfl.flower.round_log import Round
from maxfl.runs.trackers import tracker
from maxfl.runs.trackers.base import OpenTracker
from maxfl.utils.errors import InputError, check_number

LOOPBACK = "127.0.0.1"


class MonitorOptions(NamedTuple):
    """What an operator asked for beside the training; ``maxfl.flower.MaxFL`` says what each is."""

    keep: int = 0
    trackers: tuple[OpenTracker, ...] = ()
    metrics_port: int | None = None
    metrics_host: str = LOOPBACK


def monitor_options(
    keep: int,
    trackers: Sequence[str | OpenTracker],
    metrics_port: int | None,
    metrics_host: str,
    *,
    has_folder: bool,
) -> MonitorOptions:
    """Return the options, checked; trackers are named as in ``maxfl run --track``."""
    check_number("keep", keep, least=0, whole=True)
    if metrics_port is not None:
        check_number("metrics_port", metrics_port, least=0, most=65535, whole=True)
    if isinstance(trackers, str):
        raise InputError(f"trackers = {trackers!r}: expected a list, [{trackers!r}]")
    needs_folder = [name for name, chosen in (("keep", keep), ("trackers", trackers)) if chosen]
    if needs_folder and not has_folder:
        raise InputError(f"{needs_folder[0]}= needs a folder to write to: give folder= too")
    opened = [tracker(t, "trackers") if isinstance(t, str) else t for t in trackers]
    return MonitorOptions(keep, tuple(opened), metrics_port, metrics_host)


class Monitor:
    """Publishes metrics after every round, and warns of a stall."""

    def __init__(self, options: MonitorOptions, metric: MetricInfo = ACCURACY) -> None:
        self._options, self._metric = options, metric
        self._exporter = Exporter()
        self._planned, self._at = 0, time.monotonic()

    @contextmanager
    def watching(self, planned: int) -> Iterator[None]:
        """Serve metrics, if that was asked for, while a run of so many rounds is at work."""
        self._planned = planned
        host, port = self._options.metrics_host, self._options.metrics_port
        if port is None:
            yield
            return
        with self._exporter.serving(host, port):
            log(INFO, "metrics for Prometheus: http://%s:%d/metrics", host, self._exporter.port)
            self.begin([])
            yield

    def begin(self, rounds: Sequence[Round]) -> None:
        """Take up a run after some rounds."""
        self._at = time.monotonic()
        self._publish(rounds)

    def note(self, rounds: Sequence[Round]) -> None:
        """Tell of the last of the rounds."""
        seconds, self._at = time.monotonic() - self._at, time.monotonic()
        self._publish(rounds, Timing(time.time(), seconds))
        self.warn(rounds)

    def _publish(self, rounds: Sequence[Round], timing: Timing = NO_TIMING) -> None:
        """Serve the metrics after some rounds, where anybody may ask for them."""
        if self._options.metrics_port is not None:
            self._exporter.publish(exposition(rounds, self._planned, timing, self._metric))

    def warn(self, rounds: Sequence[Round]) -> None:
        """Warn where the federation stands still."""
        if stall := stall_of(rounds):
            log(WARNING, "STALLED: %s", stall.text)
