"""Client by client: what everybody saw of a model over the rounds of one configuration."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.report.configurations import Configuration
from maxfl.report.source import read_table
from maxfl.utils.errors import InputError
from maxfl.utils.paths import PARTITION

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]

TraceKey = tuple[str, str, int]
"""Case, method and seed."""

HISTORY = (
    "round", "client", "train_loss", "test_loss", "test_accuracy", "appeals_held_out", "willing",
)  # fmt: skip
CLIENTS = (
    "name", "seen", "byzantine", "train_samples", "test_samples", "requirement",
    "test_requirement", "solo_test_accuracy",
)  # fmt: skip


_FIELDS = {"solo_test_accuracy": "solo_accuracy"}


class Trace(NamedTuple):
    """One configuration of K clients over E evaluated rounds.

    Attributes:
        rounds: Rounds done at each evaluation, int[E].
        train_loss: F_k(w), float[E, K].
        test_loss: f_k(w), float[E, K].
        accuracy: Test accuracy, float[E, K].
        satisfied: f_k(w) < f_k(ŵ_k), the held-out reading, bool[E, K].
        willing: Would take part in the next round, bool[E, K].
        sampled: Was asked since the evaluation before, bool[E, K].
        took_part: And then took part, bool[E, K].
        name: What the data call each client, [K].
        seen: Takes part in training, bool[K].
        byzantine: Lies, bool[K].
        flipped: Has labels that contradict the others', bool[K].
        train_samples: int[K].
        test_samples: int[K].
        requirement: ρ_k, float[K].
        test_requirement: f_k(ŵ_k), float[K].
        solo_accuracy: Test accuracy of the model trained alone, float[K].
        asked: Rounds in which each client was asked, int[K].
        joined: Rounds in which it took part, int[K].
    """

    rounds: NDArray[np.int64]
    train_loss: Floats
    test_loss: Floats
    accuracy: Floats
    satisfied: Flags
    willing: Flags
    sampled: Flags
    took_part: Flags
    name: NDArray[Any]
    seen: Flags
    byzantine: Flags
    train_samples: NDArray[np.int64]
    test_samples: NDArray[np.int64]
    requirement: Floats
    test_requirement: Floats
    solo_accuracy: Floats
    flipped: Flags
    asked: NDArray[np.int64]
    joined: NDArray[np.int64]

    @property
    def gap(self) -> Floats:
        """F_k(w) − ρ_k, on which weights and leaving depend, float[E, K]."""
        return self.train_loss - self.requirement

    @property
    def held_out_gap(self) -> Floats:
        """f_k(w) − f_k(ŵ_k), on which satisfaction depends, float[E, K]."""
        return self.test_loss - self.test_requirement

    @property
    def kept(self) -> Flags:
        """Honest clients whose requirement the final model meets, bool[K]."""
        return self.satisfied[-1] & ~self.byzantine


def read_trace(own: Configuration) -> Trace | None:
    """A configuration's clients, or None where only means were kept."""
    if own.number < 0:
        return None
    history = _rows(own.folder / "history.parquet", own.number, HISTORY)
    clients = _rows(own.folder / "clients.parquet", own.number, CLIENTS)
    asked = _rows(own.folder / "rounds.parquet", own.number, ("round", "client", "took_part"))
    count = len(clients["seen"])
    if len(history["round"]) != count * len(np.unique(history["round"])):
        raise InputError(f"the tables in {own.folder} do not fit: the folder is damaged")
    shape = (-1, count)
    rounds = history["round"].reshape(shape)[:, 0].astype(np.int64)
    joined = asked["took_part"].astype(bool)
    partition = read_partition(own.place)
    boolean = {n: history[n].reshape(shape).astype(bool) for n in
               ("appeals_held_out", "willing")}  # fmt: skip
    number = {n: history[n].reshape(shape).astype(np.float32) for n in
              ("train_loss", "test_loss", "test_accuracy")}  # fmt: skip
    return Trace(
        rounds,
        number["train_loss"],
        number["test_loss"],
        number["test_accuracy"],
        boolean["appeals_held_out"],
        boolean["willing"],
        _since_last(rounds, count, asked["round"], asked["client"]),
        _since_last(rounds, count, asked["round"][joined], asked["client"][joined]),
        **{_FIELDS.get(name, name): clients[name] for name in CLIENTS},
        flipped=np.zeros(count, bool) if partition is None else partition.flipped,
        asked=np.bincount(asked["client"], minlength=count),
        joined=np.bincount(asked["client"][joined], minlength=count),
    )


def _since_last(rounds: NDArray[np.int64], clients: int, when: Any, who: Any) -> Flags:
    """Whether something happened to each client since the evaluation before, bool[E, K]."""
    flags = np.zeros((len(rounds), clients), bool)
    flags[np.searchsorted(rounds, when), who] = True
    return flags


def _rows(path: Path, number: int, columns: tuple[str, ...]) -> dict[str, Any]:
    table = read_table(path, columns=list(columns), filters=[("configuration", "=", number)])
    return {name: table[name].to_numpy(zero_copy_only=False) for name in columns}


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
