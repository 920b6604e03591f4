"""Statistics of a federation: how much each client has of what."""

import csv
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.core.federation import Federation, Samples

CLIENT_COLUMNS = (
    "client",
    "name",
    "seen",
    "flipped",
    "byzantine",
    "train_samples",
    "judging_samples",
    "test_samples",
)


class FederationStats(NamedTuple):
    """What each of K clients has.

    Attributes:
        title: What the data are.
        labels: What the classes mean; without classes, one name for all samples.
        names: What the data call each client, or their numbers, [K].
        counts: Samples of each label, all parts together, int[K, classes].
        train_sizes: int[K].
        judging_sizes: int[K].
        test_sizes: int[K].
        is_seen: Whether each client can participate in training, bool[K].
        flipped: Whether each client's labels contradict the others', bool[K].
        byzantine: Whether each client is Byzantine, bool[K].
        notes: How the split came out, where it is not as one would think.
    """

    title: str
    labels: tuple[str, ...]
    names: NDArray[Any]
    counts: NDArray[np.int64]
    train_sizes: NDArray[np.int64]
    judging_sizes: NDArray[np.int64]
    test_sizes: NDArray[np.int64]
    is_seen: NDArray[np.bool_]
    flipped: NDArray[np.bool_]
    byzantine: NDArray[np.bool_]
    notes: tuple[str, ...]

    @property
    def shares(self) -> NDArray[np.float64]:
        """Share of each label in a client's samples, float[K, classes]."""
        return self.counts / self.counts.sum(1, keepdims=True)

    @property
    def effective_labels(self) -> NDArray[np.float64]:
        """1 / Σ share²: how many labels a client has, counting rare ones little, float[K]."""
        return 1 / (self.shares**2).sum(1)


def federation_stats(
    federation: Federation, is_byzantine: NDArray[np.bool_] | None = None
) -> FederationStats:
    """Count what each client has; ``is_byzantine`` marks the Byzantine ones, bool[K]."""
    metadata = federation.metadata
    nobody = np.zeros(federation.clients, bool)
    classes = federation.classes
    names = ("all",) if classes is None else tuple(map(str, range(classes)))
    return FederationStats(
        metadata.title,
        metadata.labels or names,
        federation.names,
        _count_all(federation),
        federation.train_sizes,
        federation.judging_sizes,
        federation.test_sizes,
        federation.is_seen,
        nobody if metadata.flipped is None else metadata.flipped,
        nobody if is_byzantine is None else is_byzantine,
        metadata.notes,
    )


def write_clients(stats: FederationStats, path: Path) -> None:
    """Write a CSV file with a row for each client."""
    columns = (
        np.arange(len(stats.names)),
        stats.names,
        stats.is_seen.astype(int),
        stats.flipped.astype(int),
        stats.byzantine.astype(int),
        stats.train_sizes,
        stats.judging_sizes,
        stats.test_sizes,
        *stats.counts.T,
    )
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow([*CLIENT_COLUMNS, *(f"label {name}" for name in stats.labels)])
        table.writerows(zip(*(column.tolist() for column in columns), strict=True))


def _count_all(federation: Federation) -> NDArray[np.int64]:
    """Count the samples of each class that each client has, in whatever part."""
    classes = federation.classes
    counts = _count(federation.train, classes) + _count(federation.test, classes)
    if federation.judging is None:
        return counts
    # Who holds none out judges by training data, which were counted.
    held = (federation.judging_sizes > 0)[:, None]
    return counts + held * _count(federation.judging, classes)


def _count(samples: Samples, classes: int | None) -> NDArray[np.int64]:
    """Count the samples of each class that each client has, int[K, classes]; [K, 1] without."""
    if classes is None:
        return np.diff(samples.offsets)[:, None].astype(np.int64)
    clients = len(samples.offsets) - 1
    owner = np.repeat(np.arange(clients), np.diff(samples.offsets))
    cells = np.bincount(owner * classes + samples.y, minlength=clients * classes)
    return cells.reshape(clients, classes)
