"""A federation's metrics for trackers, named as in metrics.parquet and as a simulation's are."""

import math

from maxfl.core.metrics import MetricInfo
from maxfl.flower.results import metric_series
from maxfl.flower.round_log import Round


def points_of(entry: Round, metric: MetricInfo) -> dict[int, dict[str, float]]:
    """Return what a round tells, by the rounds that were done: of the model before it, and after.

    Some of it clients say of the model that comes in, which is that of one round less.
    """
    points: dict[int, dict[str, float]] = {entry.number - 1: {}, entry.number: {}}
    for name, (rounds, values) in metric_series([entry], metric).items():
        for done, value in zip(rounds, values, strict=True):
            if math.isfinite(value):
                points[done][f"seen/{name}"] = value
    return {done: metrics for done, metrics in points.items() if metrics}
