"""The point of a grid that a method takes: the best one on validation data."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from maxfl.errors import InputError
from maxfl.paper.declare import Settings, Study


def best(study: Study, found: pa.Table, part: str, method: str) -> Settings:
    """The point with the largest mean of the study's metric; ties by the preferred model's."""
    own = found.filter((pc.field("part") == part) & (pc.field("method") == method))

    def mean(point: Settings, metric: str) -> float:
        rows = (pc.field("metric") == metric) & (pc.field("model") == study.model)
        for key, value in point.items():
            rows = rows & (pc.field(key) == value)
        values = own.filter(rows & (pc.field("clients") == "seen"))["value"].to_numpy()
        return float(values.mean()) if len(values) else np.nan

    def score(point: Settings) -> tuple[float, float]:
        # A model that diverged still has accuracy and appeal, but no loss: it is not taken.
        if not np.isfinite(mean(point, "train_loss")):
            return -np.inf, -np.inf
        return mean(point, study.chosen_by), mean(point, "preferred_accuracy")

    points = study.points
    scores = [score(point) for point in points]
    if max(scores)[0] == -np.inf:
        raise InputError(f"{study.name}: every configuration of {method} on {part} diverged")
    return points[scores.index(max(scores))]
