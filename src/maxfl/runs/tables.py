"""A history as tidy columns (Arrow), readable without this package once written as Parquet."""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from maxfl.core.federation import Federation
from maxfl.data.statistics import federation_stats
from maxfl.engine.history import History
from maxfl.runs.plugins.code import NO_CODE, Code
from maxfl.utils.errors import InputError, check_count, shorten
from maxfl.utils.paths import PARTITION, TABLES

COLUMNS = {"configuration", "round", "clients", "model", "metric", "value"}
"""Of metrics.parquet, beside those of swept settings."""


class Labels(NamedTuple):
    """What the configurations of a run are called in its results.

    Attributes:
        indices: Their indices in the tables; by default 0, 1, ...
        values: What is special about each, by setting; by default nothing.
        config: The settings that the simulation was built from, to be kept in the folder; a list
            of them for several configurations.
        code: Digests of the code that the settings name, beside this package, to be kept too: with
            other code, a run is not resumed.
    """

    indices: Sequence[int] = ()
    values: Sequence[dict[str, Any]] = ()
    config: Any = None
    code: Code = NO_CODE

    def of(self, configurations: int) -> "Labels":
        """Return the labels of so many configurations, defaults filled in."""
        indices = [*self.indices] or [*range(configurations)]
        values = [*self.values] or [{}] * configurations
        for name, given in (("indices", indices), ("values", values)):
            if len(given) != configurations:
                raise InputError(
                    f"{name} has {len(given)} entries for {configurations} configurations"
                )
        for index in indices:
            check_count("indices", index, least=0)
        if len(set(indices)) < len(indices):
            raise InputError(f"indices = {indices}: expected a different one for each")
        for chosen in values:
            _check_values(chosen)
        try:
            plain = [_plain(chosen, "values") for chosen in values]
            config = _plain(self.config, "config")
        except RecursionError:
            raise InputError("labels hold themselves: a results file can't hold that") from None
        return Labels([*map(int, indices)], plain, config, self.code)


def _check_values(chosen: Any) -> None:
    """Refuse values of a configuration that are no columns of a table."""
    if not isinstance(chosen, Mapping):
        raise InputError(f"values = {shorten(chosen)}: expected a dict for each configuration")
    if taken := sorted(COLUMNS & {str(name) for name in chosen}):
        raise InputError(
            f"values.{taken[0]}: metrics.parquet has a column of that name; choose another"
        )


def _plain(value: Any, where: str) -> Any:
    """Return a value as JSON holds it, NumPy's numbers as Python's, or say what it can't hold."""
    if isinstance(value, dict):
        return {str(key): _plain(inner, f"{where}.{key}") for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner, where) for inner in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist(), where)
    if isinstance(value, float) and not np.isfinite(value):
        raise InputError(f"{where} = {value}: a results file can't hold that; expected a number")
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise InputError(f"{where} = {shorten(value)}: a results file can't hold that; give it as text")


class ClientSizes(NamedTuple):
    """What the data call each client, [K], and how many samples it has in each part, int[K]."""

    names: np.ndarray
    train: Any
    judging: Any
    test: Any


def client_sizes(federation: Federation) -> ClientSizes:
    """Return names and sizes of a federation's clients."""
    return ClientSizes(
        federation.names, federation.train_sizes, federation.judging_sizes, federation.test_sizes
    )


def results_files(
    history: History, federation: Federation, labels: Labels, seeds: Sequence[int]
) -> dict[str, bytes]:
    """Make every table of a finished run: contents of Parquet files, by name."""
    tables = make_tables(history, federation, labels, seeds)
    return {name: to_parquet(make()) for name, make in tables.items()}


def make_tables(
    history: History, federation: Federation, labels: Labels, seeds: Sequence[int]
) -> dict[str, Callable[[], pa.Table]]:
    """Return what makes each table, by the name of its file."""
    tables: tuple[Callable[[], pa.Table], ...] = (
        lambda: history_table(history, labels.indices),
        lambda: rounds_table(history, labels.indices),
        lambda: clients_table(history, client_sizes(federation), labels.indices),
        lambda: metrics_table(history, labels, seeds),
        lambda: partition_table(federation),
    )
    return dict(zip((*TABLES, PARTITION), tables, strict=True))


def history_table(history: History, indices: Sequence[int]) -> pa.Table:
    """Make a table of a row per configuration, evaluated round and client.

    ``willing``, ``weight`` and the losses are those of the model after ``round`` rounds;
    ``sampled`` says whether the client was sampled in the last of these rounds, ``participated``
    whether it then did. For MaxFL, ``weight`` is q. The three ``satisfied_`` columns are the
    readings of GM-Appeal. Of each metric of the model there is a column, ``test_accuracy`` and the
    like; of the metric that requirements are about, if one is, also ``judging_accuracy`` and the
    like. Where clients use personal or fine-tuned models, there are columns for those. Of a
    portfolio, all columns are of the model that the client picked, ``picked_model``.
    """
    seen = history.evaluation
    shape = seen.judging_loss.shape
    columns = {
        **_axes(shape, configuration=np.asarray(indices), round=history.rounds),
        "seen": np.broadcast_to(history.is_seen, shape),
        "byzantine": np.broadcast_to(history.is_byzantine[:, None], shape),
        "judging_loss": seen.judging_loss,
        "test_loss": seen.test_loss,
        **_deciding(history, seen.judging_metric, "judging_"),
        **_by_name(history, seen.test_metrics, "test_"),
        "satisfied_test": history.satisfied("test"),
        "satisfied_judging": history.satisfied("judging"),
        "satisfied_literal": history.satisfied("literal"),
        "willing": seen.willing,
        "sampled": history.sampled(),
        "participated": history.participated(),
        "weight": seen.weight,
        **({"picked_model": seen.picked} if history.has_portfolio else {}),
    }
    if history.has_personal:
        personal = seen.personal
        columns |= {
            "personal_judging_loss": personal.judging_loss,
            "personal_test_loss": personal.test_loss,
            **_deciding(history, personal.judging_metric, "personal_judging_"),
            **_by_name(history, personal.test_metrics, "personal_test_"),
            "personal_satisfied_test": history.satisfied("test", "personal"),
            "personal_satisfied_judging": history.satisfied("judging", "personal"),
            "personal_satisfied_literal": history.satisfied("literal", "personal"),
        }
    return _table(columns)


def metrics_table(history: History, labels: Labels, seeds: Sequence[int]) -> pa.Table:
    """Make a table of a row per configuration, round, group of clients, model and metric.

    Where data are streamed, there are also counts of all clients in every round, whether evaluated
    or not. Each swept setting has a column of its own, under its dotted name.
    """
    parts = [
        _metric_rows(metric, value, labels.indices, history, clients, model)
        for model in history.models
        for clients in history.groups
        for metric, value in history.metrics(clients, model).items()
    ]
    if history.counts:
        every = history._replace(rounds=np.arange(1, history.counts.responded.shape[1] + 1))
        counts = {**history.counts._asdict(), "willing_share": history.counts.willing_share}
        parts += [
            _metric_rows(f"all_{name}", value, labels.indices, every, "seen", "global")
            for name, value in counts.items()
        ]
    table = pa.concat_tables(parts)
    row = np.searchsorted(np.asarray(labels.indices), table["configuration"].to_numpy())
    table = table.add_column(1, "seed", pa.array(np.asarray(seeds, np.int64)[row]))
    return _with_swept(table, labels.values, row)


def merge_metrics(parts: Sequence[pa.Table], values: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Put metrics of the groups of a sweep together; ``values`` are of all its configurations.

    A group knows values of one type where all of them may have several.
    """
    swept = {name for chosen in values for name in chosen if name != "seed"}
    bare = [part.drop_columns([*swept.intersection(part.column_names)]) for part in parts]
    table = pa.concat_tables(bare, promote_options="permissive")
    return _with_swept(table, values, table["configuration"].to_numpy())


def _with_swept(
    table: pa.Table, values: Sequence[Mapping[str, Any]], row: NDArray[np.int64]
) -> pa.Table:
    """Add a column for each swept setting; ``row`` says whose values each row has."""
    for name in dict.fromkeys(n for chosen in values for n in chosen if n != "seed"):
        column = _column([chosen.get(name) for chosen in values])
        table = table.append_column(name, column.take(pa.array(row)))
    return table


def _column(values: Sequence[Any]) -> pa.Array:
    """Return a column; where values are of several types, words and else JSON."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([v if v is None or isinstance(v, str) else json.dumps(v) for v in values])


def _metric_rows(
    metric: str, value: Any, indices: Sequence[int], history: History, clients: str, model: str
) -> pa.Table:
    """Turn a metric [C, E] into rows."""
    count = value.size
    words = {"clients": clients, "model": model, "metric": metric}
    return pa.table({
        "configuration": np.repeat(np.asarray(indices, np.int32), len(history.rounds)),
        "round": np.tile(history.rounds.astype(np.int32), len(indices)),
        **{name: pa.array([word] * count).dictionary_encode() for name, word in words.items()},
        "value": np.asarray(value, np.float32).ravel(),
    })  # fmt: skip


def rounds_table(history: History, indices: Sequence[int]) -> pa.Table:
    """Make a table of a row per configuration, round (from 1) and sampled client.

    ``step_norm`` is how far the round moved the model, 0 where it stayed as it was, and
    ``model_norm`` the model's length after it; the same for all clients of a round.
    """
    cohorts = history.cohorts
    shape = cohorts.client_id.shape
    axes = _axes(shape, configuration=np.asarray(indices), round=np.arange(1, shape[1] + 1))
    del axes["client"]
    columns = {
        **axes,
        "client": cohorts.client_id,
        "participated": cohorts.participated,
        "weight": cohorts.weight,
        **({"trained_model": cohorts.model} if history.has_portfolio else {}),
    }
    if history.steps:
        for name, norms in history.steps._asdict().items():
            columns[name] = np.broadcast_to(np.asarray(norms)[..., None], shape)
    return _table(columns).filter(pa.array(np.ravel(cohorts.sampled)))


def clients_table(history: History, clients: ClientSizes, indices: Sequence[int]) -> pa.Table:
    """Make a table of a row per configuration and client: size, requirement, solo results."""
    shape = history.thresholds.judging.shape
    columns = {
        "configuration": np.broadcast_to(np.asarray(indices)[:, None], shape),
        "client": np.broadcast_to(np.arange(shape[1]), shape),
        "name": np.broadcast_to(clients.names.astype(str), shape),
        "seen": np.broadcast_to(history.is_seen, shape),
        "byzantine": history.is_byzantine,
        "train_samples": np.broadcast_to(clients.train, shape),
        "judging_samples": np.broadcast_to(clients.judging, shape),
        "test_samples": np.broadcast_to(clients.test, shape),
        "requirement": history.thresholds.judging,
        "test_requirement": history.thresholds.test,
        "solo_judging_loss": history.solo.judging_loss,
        "solo_test_loss": history.solo.test_loss,
        **_deciding(history, history.solo.judging_metric, "solo_judging_"),
        **_by_name(history, history.solo.test_metrics, "solo_test_"),
    }
    return _table(columns)


def _deciding(history: History, values: Any, prefix: str) -> dict[str, Any]:
    """Return the column of the metric that requirements are about, on judging data, if one is."""
    index = history.criterion.metric
    name = None if index is None else history.metric_infos[index].name
    return {} if name in (None, "loss") else {f"{prefix}{name}": values}


def _by_name(history: History, metrics: Sequence[Any], prefix: str) -> dict[str, Any]:
    """Return columns of the model's metrics; a metric that is the loss has its column already."""
    named = zip(history.metric_infos, metrics, strict=True)
    return {f"{prefix}{info.name}": values for info, values in named if info.name != "loss"}


def partition_table(federation: Federation) -> pa.Table:
    """Make a table of a row per client and label that it has: training and test samples."""
    whole = federation_stats(federation)
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
    """Return a table as the content of a Parquet file."""
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd", write_page_checksum=True)
    return buffer.getvalue()


def _axes(
    shape: tuple[int, ...], configuration: np.ndarray, round: np.ndarray
) -> dict[str, np.ndarray]:
    """Return configuration, round and the last axis for every row."""
    return {
        "configuration": np.broadcast_to(configuration[:, None, None], shape),
        "round": np.broadcast_to(round[:, None], shape),
        "client": np.broadcast_to(np.arange(shape[2]), shape),
    }


def _table(columns: dict[str, Any]) -> pa.Table:
    narrow = {np.dtype(np.int64): np.int32}
    arrays = {name: np.ravel(a) for name, a in columns.items()}
    return pa.table({n: a.astype(narrow.get(a.dtype, a.dtype)) for n, a in arrays.items()})
