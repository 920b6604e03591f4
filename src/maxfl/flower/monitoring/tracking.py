"""A federation's metrics for trackers, named as in metrics.parquet and as a simulation's are."""

import math
from collections.abc import Sequence

from maxfl.core.metrics import MetricInfo
from maxfl.flower.results import metric_series
from maxfl.flower.round_log import Round


def points_of(rounds: Sequence[Round], metric: MetricInfo) -> dict[int, dict[str, float]]:
    """Return what the last round tells, by the rounds that were done: before it, and after.

    Some of it clients say of the model that comes in, which is that of one round less.
    """
    entry, evaluated = rounds[-1], any(entry.evaluation for entry in rounds)
    points: dict[int, dict[str, float]] = {entry.number - 1: {}, entry.number: {}}
    for name, (steps, values) in metric_series([entry], metric).items():
        if name == "gm_appeal" and evaluated and entry.evaluation is None:
            continue  # in the table it is what evaluations say
        for done, value in zip(steps, values, strict=True):
            if math.isfinite(value):
                points[done][f"seen/{name}"] = value
    return {done: metrics for done, metrics in points.items() if metrics}
