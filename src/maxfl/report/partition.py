"""Who has which labels, as a run's folder has it."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.folders import PARTITION
from maxfl.report.parquet import read_table


class Partition(NamedTuple):
    """Samples of each label that each client has, int[K, L], and what the labels mean."""

    labels: tuple[str, ...]
    counts: NDArray[np.int64]
    flipped: NDArray[np.bool_]


def read_partition(place: Path) -> Partition | None:
    """The partition that a run was made on, where it was kept."""
    path = place / PARTITION
    if not path.is_file():
        return None
    table = read_table(path)
    label = table["label"].combine_chunks()
    labels = tuple(label.dictionary.to_pylist())
    rows = table["client"].to_numpy()
    clients = int(rows.max()) + 1
    counts = np.zeros((clients, len(labels)), np.int64)
    counts[rows, label.indices.to_numpy()] = table["samples"].to_numpy()
    flipped = np.zeros(clients, bool)
    flipped[rows] = table["flipped"].to_numpy(zero_copy_only=False)
    return Partition(labels, counts, flipped)
