"""A history as tidy columns (Arrow), readable without this package once written as Parquet."""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from maxfl.core.federation import Federation
from maxfl.engine.history import Group, History, Whose
from maxfl.data.statistics import portrait


def history_table(history: History, numbers: Sequence[int]) -> pa.Table:
    """One row per configuration, evaluated round and client.

    ``willing``, ``weight`` and the losses are those of the model after ``round`` rounds;
    ``sampled`` says whether the client was asked in the last of these rounds, ``took_part``
    whether it then did. For MaxFL, ``weight`` is q. The three ``appeals_`` columns are the
    readings of GM-Appeal. Where clients use personal or tuned models, there are columns for those.
    """
    seen = history.evaluation
    shape = seen.train_loss.shape
    columns = {
        **_axes(shape, configuration=np.asarray(numbers), round=history.rounds),
        "seen": np.broadcast_to(history.is_seen, shape),
        "byzantine": np.broadcast_to(history.lies[:, None], shape),
        "train_loss": seen.train_loss,
        "test_loss": seen.test_loss,
        "test_accuracy": seen.test_accuracy,
        "appeals_held_out": history.satisfied("held-out"),
        "appeals_training": history.satisfied("training"),
        "appeals_literal": history.satisfied("literal"),
        "willing": seen.willing,
        "sampled": history.sampled(),
        "took_part": history.took_part(),
        "weight": seen.weight,
    }
    if history.has_personal:
        personal = seen.personal
        columns |= {
            "personal_train_loss": personal.train_loss,
            "personal_test_loss": personal.test_loss,
            "personal_test_accuracy": personal.test_accuracy,
            "personal_appeals_held_out": history.satisfied("held-out", "personal"),
            "personal_appeals_training": history.satisfied("training", "personal"),
            "personal_appeals_literal": history.satisfied("literal", "personal"),
        }
    return _table(columns)


def metrics_table(
    history: History, numbers: Sequence[int], seeds: Sequence[int], values: Sequence[dict[str, Any]]
) -> pa.Table:
    """One row per configuration, evaluated round, group of clients, model and metric.

    A stream also has counts of all clients in every round, whether evaluated or not. Each swept
    setting has a column of its own, under its dotted name.
    """
    models: tuple[Whose, ...] = ("global", "personal") if history.has_personal else ("global",)
    groups: tuple[Group, ...] = ("seen",) if history.is_seen.all() else ("seen", "unseen")
    parts = [
        _metric_rows(metric, value, numbers, history, clients, model)
        for model in models
        for clients in groups
        for metric, value in history.metrics(clients, model).items()
    ]
    if history.survey:
        every = history._replace(rounds=np.arange(1, history.survey.asked.shape[1] + 1))
        counts = {**history.survey._asdict(), "willing_share": history.survey.share}
        parts += [
            _metric_rows(f"survey_{name}", value, numbers, every, "seen", "global")
            for name, value in counts.items()
        ]
    table = pa.concat_tables(parts)
    place = np.searchsorted(np.asarray(numbers), table["configuration"].to_numpy())
    table = table.add_column(1, "seed", pa.array(np.asarray(seeds, np.int64)[place]))
    for name in dict.fromkeys(n for chosen in values for n in chosen if n != "seed"):
        column = pa.array([chosen.get(name) for chosen in values])
        table = table.append_column(name, column.take(pa.array(place)))
    return table


def _metric_rows(
    metric: str, value: Any, numbers: Sequence[int], history: History, clients: str, model: str
) -> pa.Table:
    """A metric [C, E] as rows."""
    count = value.size
    words = {"clients": clients, "model": model, "metric": metric}
    return pa.table({
        "configuration": np.repeat(np.asarray(numbers, np.int32), len(history.rounds)),
        "round": np.tile(history.rounds.astype(np.int32), len(numbers)),
        **{name: pa.array([word] * count).dictionary_encode() for name, word in words.items()},
        "value": np.asarray(value, np.float32).ravel(),
    })  # fmt: skip


def rounds_table(history: History, numbers: Sequence[int]) -> pa.Table:
    """One row per configuration, round (from 1) and asked client; weight 0 if it stayed away."""
    asked = history.asked
    shape = asked.client.shape
    axes = _axes(shape, configuration=np.asarray(numbers), round=np.arange(1, shape[1] + 1))
    del axes["client"]
    columns = {**axes, "client": asked.client, "took_part": asked.took_part, "weight": asked.weight}
    return _table(columns).filter(pa.array(np.ravel(asked.sampled)))


def clients_table(
    history: History,
    names: np.ndarray,
    train_sizes: np.ndarray,
    test_sizes: np.ndarray,
    numbers: Sequence[int],
) -> pa.Table:
    """One row per configuration and client: size, requirement, and its solo model's results."""
    shape = history.thresholds.train.shape
    columns = {
        "configuration": np.broadcast_to(np.asarray(numbers)[:, None], shape),
        "client": np.broadcast_to(np.arange(shape[1]), shape),
        "name": np.broadcast_to(names.astype(str), shape),
        "seen": np.broadcast_to(history.is_seen, shape),
        "byzantine": history.lies,
        "train_samples": np.broadcast_to(train_sizes, shape),
        "test_samples": np.broadcast_to(test_sizes, shape),
        "requirement": history.thresholds.train,
        "test_requirement": history.thresholds.test,
        "solo_train_loss": history.solo.train_loss,
        "solo_test_loss": history.solo.test_loss,
        "solo_test_accuracy": history.solo.test_accuracy,
    }
    return _table(columns)


def partition_table(federation: Federation) -> pa.Table:
    """One row per client and label that it has: samples, training and test together."""
    whole = portrait(federation)
    client, label = np.nonzero(whole.counts)
    # Every label is in the dictionary, also those that nobody has.
    names = pa.DictionaryArray.from_arrays(label.astype(np.int32), pa.array(whole.labels))
    return pa.table({
        "client": client.astype(np.int32),
        "label": names,
        "samples": whole.counts[client, label].astype(np.int32),
        "flipped": whole.flipped[client],
    })  # fmt: skip


def to_parquet(table: pa.Table) -> bytes:
    """A table as the content of a Parquet file."""
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def _axes(
    shape: tuple[int, ...], configuration: np.ndarray, round: np.ndarray
) -> dict[str, np.ndarray]:
    """Number of the configuration, the round and the last axis for every row."""
    return {
        "configuration": np.broadcast_to(configuration[:, None, None], shape),
        "round": np.broadcast_to(round[:, None], shape),
        "client": np.broadcast_to(np.arange(shape[2]), shape),
    }


def _table(columns: dict[str, Any]) -> pa.Table:
    narrow = {np.dtype(np.int64): np.int32}
    arrays = {name: np.ravel(a) for name, a in columns.items()}
    return pa.table({n: a.astype(narrow.get(a.dtype, a.dtype)) for n, a in arrays.items()})
