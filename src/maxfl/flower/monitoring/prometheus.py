"""Metrics for Prometheus, as text on a port: of the rounds so far, those before a resume included.

By the standard library: the format is a line a number, and all numbers follow from the rounds, so
that counters need not be kept. Nothing is told that the results do not have: where there is noise,
counts are noisy here too. Labels are of fixed sets.
"""

import math
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from maxfl.core.metrics import ACCURACY, MetricInfo
from maxfl.flower.monitoring.reasons import kind_of
from maxfl.flower.monitoring.stall import stall_of
from maxfl.flower.results import metric_series
from maxfl.flower.round_log import Round
from maxfl.flower.sums import Counts
from maxfl.utils.errors import InputError

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
TIMEOUT_SECONDS = 5.0
"""Whoever asks and then says nothing is left alone after so long."""


class Timing(NamedTuple):
    """When the last round ended, in seconds since 1970, and how long it took; NaN before it."""

    ended: float = math.nan
    seconds: float = math.nan


NO_TIMING = Timing()


def exposition(
    rounds: Sequence[Round], planned: int, timing: Timing = NO_TIMING, metric: MetricInfo = ACCURACY
) -> str:
    """Return all metrics in Prometheus's text format."""
    counts = rounds[-1].counts if rounds else Counts(0)
    totals = {name: sum(getattr(entry.counts, name) for entry in rounds) for name in counts._fields}
    reasons = Counter((e.kind, kind_of(e)) for entry in rounds for e in entry.events)
    stall = stall_of(rounds)
    models = rounds[-1].models if rounds else ()
    families = [
        _family("rounds_planned", "gauge", "Rounds of the whole run.", planned),
        _family("rounds_done_total", "counter", "Rounds that are done.", len(rounds)),
        _family("gm_appeal", "gauge", "Share of clients that are satisfied, as they said last.",
                _last(rounds, "gm_appeal", metric)),
        _family("test_metric", "gauge", "The metric that clients measure, mean over clients.",
                {(("metric", metric.name),): _last(rounds, f"test_{metric.name}", metric)}),
        _family("temperature", "gauge", "T of the weights in the last round.",
                rounds[-1].solver.temperature if rounds else math.nan),
        _family("scale", "gauge", "s, the gap that the temperature follows, in the last round.",
                rounds[-1].solver.scale if rounds else math.nan),
        _family("clients", "gauge", "How clients answered in the last round.",
                {(("answer", name),): value for name, value in counts._asdict().items()}),
        _family("clients_total", "counter", "How clients answered over all rounds.",
                {(("answer", name),): value for name, value in totals.items()}),
        _family("refusals_total", "counter", "Clients that did not do as asked, by kind of reason.",
                {(("answer", kind), ("reason", reason)): number
                 for (kind, reason), number in sorted(reasons.items())}),
        *([_family("model_clients", "gauge", "Clients that trained each model in the last round.",
                   {(("model", str(j)),): n for j, n in enumerate(models)})] if models else []),
        _family("steps_skipped_total", "counter", "Rounds after which the model stayed as it was.",
                sum(bool(entry.no_step) for entry in rounds)),
        _family("stalled_rounds", "gauge", "Last rounds without any participant; 0: no stall.",
                0 if stall is None else stall.rounds),
        _family("round_seconds", "gauge", "How long the last round took.", timing.seconds),
        _family("last_round_timestamp_seconds", "gauge", "When the last round ended.",
                timing.ended),
    ]  # fmt: skip
    return "".join(families)


Labels = tuple[tuple[str, str], ...]


def _family(name: str, kind: str, words: str, value: float | Mapping[Labels, float]) -> str:
    """Return a metric with its help and type; one value, or one for each of some labels."""
    values = value if isinstance(value, Mapping) else {(): value}
    lines = [f"# HELP maxfl_{name} {words}", f"# TYPE maxfl_{name} {kind}"]
    for labels, number in values.items():
        inside = ",".join(f'{label}="{text}"' for label, text in labels)
        lines.append(f"maxfl_{name}{f'{{{inside}}}' if inside else ''} {_number(number)}")
    return "".join(f"{line}\n" for line in lines)


def _number(value: float) -> str:
    if math.isfinite(value):
        return repr(float(value))
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _last(rounds: Sequence[Round], name: str, metric: MetricInfo) -> float:
    series = metric_series(rounds[-1:], metric).get(name)
    return series.values[-1] if series and series.values else math.nan


class Exporter:
    """Answers GET /metrics with what was published last."""

    def __init__(self) -> None:
        self._content = b""
        self.port = 0

    def publish(self, text: str) -> None:
        """Answer with this from now on."""
        self._content = text.encode()

    @contextmanager
    def serving(self, host: str, port: int) -> Iterator[None]:
        """Listen in a thread of its own until the block is left; ``port`` 0 is any free one."""
        try:
            server = ThreadingHTTPServer((host, port), self._handler())
        except (OSError, OverflowError) as error:
            raise InputError(
                f"metrics for Prometheus can't be served on {host}:{port} ({error}): choose "
                f"another metrics_port or metrics_host"
            ) from error
        self.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True, name="maxfl-metrics").start()
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        exporter = self

        class Handler(BaseHTTPRequestHandler):
            timeout = TIMEOUT_SECONDS

            def do_GET(self) -> None:
                known = self.path.partition("?")[0] == "/metrics"
                content = exporter._content if known else b"metrics are at /metrics\n"
                self.send_response(200 if known else 404)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                """Leave the server's log to the federation."""

        return Handler
