"""Client by client: how a model served everybody over the rounds of one configuration.

Where clients have personal models, these are what they would use, and a trace can be of them.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from maxfl.core.metrics import MetricInfo
from maxfl.report.configurations import Configuration
from maxfl.report.measures import measure_of
from maxfl.report.source import read_table
from maxfl.utils.errors import InputError
from maxfl.utils.paths import PARTITION

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]

TraceKey = tuple[str, str, int]
"""Case, method and seed."""

HISTORY = ("round", "client", "satisfied_test", "satisfied_judging", "willing", "weight")
CLIENTS = (
    "name", "seen", "byzantine", "train_samples", "test_samples", "requirement", "test_requirement",
)  # fmt: skip
"""Columns, beside those of the model's metric and of what requirements are about."""
PERSONAL = ("satisfied_test", "satisfied_judging")
"""Columns that personal models have too, with ``personal_`` before the name; the metric, and what
requirements are about on test data, are others. Weights and leaving depend on the global model
all the same."""


class Trace(NamedTuple):
    """One configuration of K clients over E evaluated rounds.

    Attributes:
        rounds: Rounds done at each evaluation, int[E].
        judging_value: What requirements are about on the data that clients judge by, F_k(w) unless
            it is a metric, float[E, K].
        test_value: The same on test data; of personal models, if ``model`` says so.
        metric: The model's first metric on test data, float[E, K]; likewise.
        satisfied: Whether the requirement is met, by the test data, bool[E, K]; likewise.
        chosen: Whether the client would use the model and not its own, bool[E, K]; by its judging
            data where it holds some out, else as ``satisfied``; likewise.
        weight: That the client would report, float[E, K].
        willing: Would participate in the next round, bool[E, K].
        sampled: Was sampled since the evaluation before, bool[E, K].
        participated: Participated since the evaluation before, bool[E, K].
        name: What the data call each client, [K].
        seen: Can participate in training, bool[K].
        byzantine: Is Byzantine, bool[K].
        flipped: Has labels that contradict the others', bool[K].
        train_samples: int[K].
        judging_samples: int[K]; 0 for who judges by training data.
        test_samples: int[K].
        requirement: ρ_k, float[K].
        test_requirement: Its counterpart for test data, float[K].
        solo_metric: The same of the model trained alone, float[K].
        rounds_sampled: Number of rounds in which each client was sampled, int[K].
        rounds_participated: Number of rounds in which it participated, int[K].
        model: Whose results these are, "global" or "personal".
        decides: The metric that requirements are about; None for the loss.
        picked: The model of a portfolio that each client picks, int[E, K], −1 where a real one has
            not said so yet; None of one model. All else is of that model.
    """

    rounds: NDArray[np.int64]
    judging_value: Floats
    test_value: Floats
    metric: Floats
    satisfied: Flags
    chosen: Flags
    weight: Floats
    willing: Flags
    sampled: Flags
    participated: Flags
    name: NDArray[Any]
    seen: Flags
    byzantine: Flags
    train_samples: NDArray[np.int64]
    judging_samples: NDArray[np.int64]
    test_samples: NDArray[np.int64]
    requirement: Floats
    test_requirement: Floats
    solo_metric: Floats
    flipped: Flags
    rounds_sampled: NDArray[np.int64]
    rounds_participated: NDArray[np.int64]
    model: str = "global"
    decides: MetricInfo | None = None
    picked: NDArray[np.int64] | None = None

    @property
    def gap(self) -> Floats:
        """F_k(w) − ρ_k, on which weights and leaving depend, float[E, K]; not met above 0."""
        return self._sign * (self.judging_value - self.requirement)

    @property
    def test_gap(self) -> Floats:
        """The same on test data, on which satisfaction depends, float[E, K]."""
        return self._sign * (self.test_value - self.test_requirement)

    @property
    def _sign(self) -> np.float32:
        higher = self.decides is not None and self.decides.higher_is_better
        return np.float32(-1 if higher else 1)

    @property
    def satisfied_at_end(self) -> Flags:
        """Honest clients whose requirement the final model meets, bool[K]."""
        return self.satisfied[-1] & ~self.byzantine


def read_trace(
    configuration: Configuration, model: str = "global", metric: str | None = None
) -> Trace | None:
    """Read a configuration's clients; None where there are only means.

    Args:
        configuration: Which.
        model: The global model, or "personal" for that which each client has of its own.
        metric: The column of a metric, by default that of the model's first.
    """
    folder, index = configuration.folder, configuration.table_index
    if index < 0:
        return None
    metric = metric or measure_of(configuration.metric).key
    name = "loss" if configuration.decides is None else configuration.decides.name
    judging, test = f"judging_{name}", f"test_{name}"
    column_of = {
        n: f"personal_{n}" if model == "personal" else n for n in (*PERSONAL, test, metric)
    }
    columns = tuple(column_of.get(name, name) for name in (*HISTORY, judging, test, metric))
    history = _rows(folder / "history.parquet", index, columns)
    history |= {name: history[column] for name, column in column_of.items()}
    clients = _rows(folder / "clients.parquet", index, (*CLIENTS, f"solo_{metric}"))
    cohorts = _rows(folder / "rounds.parquet", index, ("round", "client", "participated"))
    count = len(clients["seen"])
    if len(history["round"]) != count * len(np.unique(history["round"])):
        raise InputError(f"the tables in {folder} do not fit: the folder is damaged")
    shape = (-1, count)
    rounds = history["round"].reshape(shape)[:, 0].astype(np.int64)
    round_, client = cohorts["round"], cohorts["client"]
    participated = cohorts["participated"].astype(bool)
    partition = read_partition(configuration.run_folder)
    boolean = {n: history[n].reshape(shape).astype(bool) for n in
               (*PERSONAL, "willing")}  # fmt: skip
    number = {n: history[n].reshape(shape).astype(np.float32) for n in
              (judging, test, metric, "weight")}  # fmt: skip
    held_out = configuration.entry.get("judge") == "held-out"
    return Trace(
        rounds,
        number[judging],
        number[test],
        number[metric],
        boolean["satisfied_test"],
        boolean["satisfied_judging" if held_out else "satisfied_test"],
        number["weight"],
        boolean["willing"],
        _since_last(rounds, count, round_, client),
        _since_last(rounds, count, round_[participated], client[participated]),
        **{name: clients[name] for name in CLIENTS},
        judging_samples=_judging_samples(folder, index, count),
        solo_metric=clients[f"solo_{metric}"],
        flipped=np.zeros(count, bool) if partition is None else partition.flipped,
        rounds_sampled=np.bincount(client, minlength=count),
        rounds_participated=np.bincount(client[participated], minlength=count),
        model=model,
        decides=configuration.decides,
        picked=_picked(folder, index, count),
    )


def _since_last(rounds: NDArray[np.int64], clients: int, round_: Any, client: Any) -> Flags:
    """Return whether a client is listed since the evaluation before, bool[E, K]."""
    flags = np.zeros((len(rounds), clients), bool)
    flags[np.searchsorted(rounds, round_), client] = True
    return flags


def _rows(path: Path, index: int, columns: tuple[str, ...]) -> dict[str, Any]:
    """Read some columns of a table, for one configuration."""
    once = list(dict.fromkeys(columns))  # a metric that is the loss is named twice
    table = read_table(path, columns=once, filters=[("configuration", "=", index)])
    return {name: table[name].to_numpy(zero_copy_only=False) for name in columns}


def _picked(folder: Path, index: int, count: int) -> NDArray[np.int64] | None:
    """Return the model that each client picked, int[E, K]; None where there was one."""
    path, name = folder / "history.parquet", "picked_model"
    if name not in pq.read_schema(path).names:
        return None
    picked = np.asarray(_rows(path, index, (name,))[name], float)  # of a sweep some may have none
    return None if np.isnan(picked).any() else picked.reshape(-1, count).astype(np.int64)


def _judging_samples(folder: Path, index: int, count: int) -> NDArray[np.int64]:
    """Return samples that each client judges by, int[K]; none in folders of earlier versions."""
    path, name = folder / "clients.parquet", "judging_samples"
    if name not in pq.read_schema(path).names:
        return np.zeros(count, np.int64)
    return np.asarray(_rows(path, index, (name,))[name])


class Partition(NamedTuple):
    """Samples of each label that each client has, int[K, L], and what the labels mean."""

    labels: tuple[str, ...]
    counts: NDArray[np.int64]
    flipped: NDArray[np.bool_]


def read_partition(run_folder: Path) -> Partition | None:
    """Read the partition that a run was made on; None where there is none."""
    path = run_folder / PARTITION
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
