"""Means over clients from a written history, ready to be drawn."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Curves(NamedTuple):
    """One method over rounds: means over clients, float[seeds, E] each.

    Attributes:
        rounds: Rounds done at each evaluation, int[E].
        appeal: GM-Appeal of the seen clients, held-out reading.
        accuracy: Test accuracy of the seen clients.
        unseen_appeal: GM-Appeal of the unseen clients.
        unseen_accuracy: Test accuracy of the unseen clients.
    """

    rounds: NDArray[np.int64]
    appeal: Floats
    accuracy: Floats
    unseen_appeal: Floats
    unseen_accuracy: Floats


def read_curves(path: Path, labels: Sequence[str]) -> dict[str, Curves]:
    """Curves of each label; ``labels`` names the method of each configuration in the file."""
    columns = ["configuration", "round", "seen", "appeals_held_out", "test_accuracy"]
    table = pq.read_table(path, columns=columns)
    number, rounds, seen, appeal, accuracy = (table[c].to_numpy() for c in columns)
    points = np.unique(rounds)

    def means(values: Floats, group: NDArray[np.bool_]) -> Floats:
        """Mean over the clients of a group, float[C, E]."""
        cell = number[group] * len(points) + np.searchsorted(points, rounds[group])
        cells = len(labels) * len(points)
        sums = np.bincount(cell, values[group], cells)
        counts = np.bincount(cell, minlength=cells)
        with np.errstate(invalid="ignore"):  # 0/0 = NaN where there are no such clients
            return (sums / counts).reshape(len(labels), len(points))

    every = [means(v, g) for g in (seen, ~seen) for v in (appeal, accuracy)]
    rows = {label: [c for c, own in enumerate(labels) if own == label] for label in labels}
    return {label: Curves(points, *(m[own] for m in every)) for label, own in rows.items()}
