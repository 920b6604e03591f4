"""What folders of results hold, read once and laid out for showing.

A run, a sweep and a study of the paper (its final runs) leave the same tables behind
(docs/results.md). Those of version 0.1 are read too, under the names of today (``legacy``).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from maxfl.core.local_optimizers import LocalHParams
from maxfl.core.metrics import MetricInfo
from maxfl.core.schedules import ScheduleHParams
from maxfl.report.configurations import Configuration, Found, name_all
from maxfl.report.legacy import METRICS as METRIC_NAMES
from maxfl.report.legacy import column, how_to_finish, rename_figures, rename_settings
from maxfl.utils.dicts import flatten
from maxfl.utils.errors import InputError
from maxfl.utils.files import read_mapping
from maxfl.utils.integrity import explain_damage, refuse_damaged
from maxfl.utils.paths import EXPERIMENT, METRICS, MODEL, STUDY, STUDY_RESULTS, SUMMARY

SETTING_OF = {
    "local_optimizer.kind": "local.optimizer",
    **{f"local_optimizer.{name}": f"local.{name}" for name in LocalHParams._fields},
    **{f"{rate}_schedule.kind": f"schedule.{rate}" for rate in ("local", "server")},
    **{
        f"{rate}_schedule.{name}": f"schedule.{rate}_{name}"
        for rate in ("local", "server")
        for name in ScheduleHParams._fields
    },
}
"""What a run from Python says of itself, and the setting that says the same."""


NO_SETTINGS = ("config", "maxfl", "jax", "code", "code_from")
"""What a run from Python says of itself beside its settings."""


class Source(NamedTuple):
    """Everything that a report is made from.

    Attributes:
        folders: As the user named them.
        configurations: All that are finished.
        metrics: Columns case, method, seed, round, clients, model, metric, value.
        machines: What each folder was made with.
        missing: Sentences on what is not in the folders.
        warnings: Sentences on what went wrong in training.
    """

    folders: tuple[Path, ...]
    configurations: list[Configuration]
    metrics: pa.Table
    machines: list[dict[str, Any]]
    missing: list[str]
    warnings: list[str]

    @property
    def is_real(self) -> bool:
        """Whether all are federations on Flower: nothing of a simulation is to be shown."""
        return all(configuration.is_real for configuration in self.configurations)

    @property
    def metric(self) -> MetricInfo:
        """The first metric of all models."""
        return self.configurations[0].metric

    @property
    def cases(self) -> list[str]:
        """The data that configurations ran on, in the order of the folders."""
        return list(dict.fromkeys(c.case for c in self.configurations))

    @property
    def nobody_leaves(self) -> bool:
        """Whether all clients were willing by the rules of all runs, whatever the model."""
        rules = {c.settings.get("participation.rule") for c in self.configurations}
        return rules == {"everyone"}

    def methods(self, case: str) -> list[str]:
        """Return the methods of a case, in the order of the folders."""
        return list(dict.fromkeys(c.method for c in self.configurations if c.case == case))

    def of(self, case: str, method: str) -> list[Configuration]:
        """Return a method's configurations, one for each seed."""
        chosen = [c for c in self.configurations if (c.case, c.method) == (case, method)]
        return sorted(chosen, key=lambda c: c.seed)


class _Folder(NamedTuple):
    found: list[Found]
    machine: dict[str, Any]
    missing: list[str]


def read(folders: Sequence[Path]) -> Source:
    """Read folders, or say which of them can't be shown and why."""
    if len({f.resolve() for f in folders}) < len(folders):
        raise InputError("the same folder is named twice: name each once")
    parts = []
    for folder in folders:
        with explain_damage(f"a file in {folder}"):
            parts.append(_read_folder(folder))
    found = [
        configuration._replace(named=folder)
        for folder, part in zip(folders, parts, strict=True)
        for configuration in part.found
    ]
    configurations = name_all(found)
    _refuse_mixed(configurations)
    missing = list(dict.fromkeys(line for part in parts for line in part.missing))
    tables = [
        _label_metrics(one.metrics, configuration)
        for one, configuration in zip(found, configurations, strict=True)
    ]
    return Source(
        tuple(folders),
        configurations,
        pa.concat_tables(tables, promote_options="permissive"),
        [part.machine for part in parts],
        missing,
        [line for configuration in configurations for line in _warnings(configuration)],
    )


def _refuse_mixed(configurations: Sequence[Configuration]) -> None:
    """Refuse models whose first metrics differ: their numbers can't stand in one column."""
    first = configurations[0]
    for other in configurations:
        if other.metric != first.metric:
            raise InputError(
                f"{first.folder} measures {_described(first.metric)} and {other.folder} "
                f"{_described(other.metric)}: these can't be compared, so make a report of each"
            )


def _described(metric: MetricInfo) -> str:
    way = "higher" if metric.higher_is_better else "lower"
    return f"{metric.name} ({way} is better{', in per cent' if metric.percent else ''})"


def _warnings(configuration: Configuration) -> list[str]:
    """Say what went wrong in a configuration; runs of 0.1 do not tell."""
    who = configuration.title
    return [f"{who}: {warning['text']}." for warning in configuration.entry.get("warnings", [])]


def has_results(folder: Path) -> bool:
    """Return whether there is something to show in the folder of a run, a sweep or a study."""
    return (
        (folder / SUMMARY).is_file()
        or (folder / STUDY).is_file()
        or any((folder / "groups").glob(f"*/{SUMMARY}"))
    )


def _read_folder(folder: Path) -> _Folder:
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder: name that of a run, a sweep or a study")
    if (folder / STUDY).is_file():
        return _read_study(folder)
    if not (folder / EXPERIMENT).is_file():
        raise InputError(
            f"{folder} holds no run: {EXPERIMENT} is not there. Name the folder that "
            f"`maxfl run`, `maxfl sweep` or `maxfl paper run` wrote to"
        )
    experiment = read_mapping(folder / EXPERIMENT)
    if "configurations" in experiment:
        return _read_sweep(folder, experiment)
    if "federation" in experiment:
        return _read_run(folder, experiment)
    raise InputError(
        f"{folder} holds an unfinished study, or something that has no clients: there is no "
        f"{STUDY} ({how_to_finish(experiment)}, or name its folder final/)"
    )


def _read_run(folder: Path, experiment: dict[str, Any]) -> _Folder:
    """Read a run folder, or the folder of one group of a sweep."""
    if not (folder / SUMMARY).is_file():
        raise InputError(
            f"the run in {folder} is not finished ({how_to_finish(experiment)}); `maxfl watch "
            f"{folder}` shows how far it is"
        )
    summary = read_mapping(folder / SUMMARY)
    refuse_damaged(folder, SUMMARY, summary, unread=(MODEL,))
    config = experiment.get("config", {})
    count = len(summary["configurations"])
    configs = config if isinstance(config, list) else [config] * count
    metrics = read_table(folder / METRICS)
    indices = sorted(set(metrics["configuration"].to_pylist()))
    if not len(indices) == len(configs) == count:
        raise InputError(f"{folder}: {METRICS} and {SUMMARY} do not fit: one of them is damaged")
    is_known = bool(config) or "algorithm" in experiment
    missing = [] if is_known else [f"{folder.resolve().name} has no settings: nobody gave any."]
    means_only = summary.get("means_only", False)
    if means_only:  # a federation whose clients keep their losses to themselves
        missing.append(_no_clients(folder))
        missing += [f"{note}." for entry in summary["configurations"] for note in entry["notes"]]
    found = [
        Found(
            folder, folder, -1 if means_only else index, entry["values"],
            _settings(experiment, configs[i], entry, i, count), rename_figures(entry), folder,
            experiment["federation"],
            metrics.filter(pc.field("configuration") == index),
        )
        for i, (index, entry) in enumerate(zip(indices, summary["configurations"], strict=True))
    ]  # fmt: skip
    return _Folder(found, _machine(summary), missing)


def _settings(
    experiment: dict[str, Any], config: dict[str, Any], entry: dict[str, Any], i: int, count: int
) -> dict[str, Any]:
    """Return the settings that were saved, or the description of a run without; and the swept."""
    swept = {k: v for k, v in entry["values"].items() if k not in ("part", "method")}
    if isinstance(config, dict) and config:
        return rename_settings(flatten(config) | swept)
    description = {k: v for k, v in experiment.items() if k not in NO_SETTINGS}
    described = flatten(description | {"data": {"federation": description.pop("federation")[:8]}})
    settings = {
        SETTING_OF.get(k, k): v[i] if isinstance(v, list) and len(v) == count else v
        for k, v in described.items()
    }
    return rename_settings(settings | swept)


def _read_sweep(folder: Path, experiment: dict[str, Any]) -> _Folder:
    """Read the finished groups of a sweep; it has tables of the whole once all are finished."""
    found: list[Found] = []
    machine: dict[str, Any] = {}
    groups = sorted((folder / "groups").glob("*"))
    for group in (group for group in groups if (group / SUMMARY).is_file()):
        part = _read_run(group, read_mapping(group / EXPERIMENT))
        found += part.found
        seconds = machine.get("seconds", 0) + part.machine.get("seconds", 0)
        machine = part.machine | {"seconds": seconds}
    total, finished = len(experiment["configurations"]), len(found)
    if not found:
        raise InputError(
            f"no configuration of the sweep in {folder} is finished ({how_to_finish(experiment)}); "
            f"`maxfl watch {folder}` shows how far it is"
        )
    left = f"{total - finished} of {total} configurations of {folder}"
    missing = [f"Not finished, and so not shown: {left}."] if finished < total else []
    return _Folder(sorted(found, key=lambda one: one.table_index), machine, missing)


def _read_study(folder: Path) -> _Folder:
    """Read the final runs of a study, or its means where it has no more."""
    study = read_mapping(folder / STUDY)
    refuse_damaged(folder, STUDY, study)
    notes = [note for note in study.get("data_notes", {}).values() if note]
    final = folder / "final"
    if (final / EXPERIMENT).is_file():
        part = _read_sweep(final, read_mapping(final / EXPERIMENT))
        return part._replace(missing=[*part.missing, *notes], machine=_machine(study))
    return _read_means(folder, study, notes)


def _read_means(folder: Path, study: dict[str, Any], notes: list[str]) -> _Folder:
    table = read_table(folder / STUDY_RESULTS)
    keys = table.select(["part", "method", "seed"]).group_by(["part", "method", "seed"])
    found = []
    for row in keys.aggregate([]).to_pylist():
        metrics = table
        for key, value in row.items():
            metrics = metrics.filter(pc.field(key) == value)
        entry = {"values": row, "data": study["data"][row["part"]], "notes": []}
        settings = {"seed": row["seed"]}
        found.append(Found(folder, folder, -1, row, settings, entry, folder, "", metrics))
    return _Folder(found, _machine(study), [_no_clients(folder), *notes])


def _no_clients(folder: Path) -> str:
    return f"{folder} has means over clients only: nothing can be said about single clients."


def _machine(summary: dict[str, Any]) -> dict[str, Any]:
    keys = ("maxfl", "jax", "flower", "python", "device", "seconds", "scale")
    return {key: summary[key] for key in keys if summary.get(key) is not None}


def _label_metrics(metrics: pa.Table, configuration: Configuration) -> pa.Table:
    """Add columns that say of which configuration some metrics are."""
    table = metrics.select(["round", "clients", "model", "metric", "value"])
    for key in ("seed", "method", "case"):
        table = table.add_column(0, key, pa.array([getattr(configuration, key)] * len(table)))
    plain = [pa.field(f.name, pa.string()) if pa.types.is_dictionary(f.type) else f
             for f in table.schema]  # fmt: skip
    return table.cast(pa.schema(plain))


def read_table(path: Path, **options: Any) -> pa.Table:
    """Read a file, with the names of today for earlier ones; options are pyarrow's."""
    try:
        old = {column(name): name for name in pq.read_schema(path).names}
        if columns := options.get("columns"):
            options["columns"] = [old.get(name, name) for name in columns]
        table = pq.read_table(path, page_checksum_verification=True, **options)
        table = table.rename_columns([*map(column, table.column_names)])
        return _rename_metrics(table) if "metric" in table.column_names else table
    except (OSError, KeyError, pa.ArrowException) as error:
        raise InputError(
            f"{path} can't be read ({str(error).splitlines()[0]}): the folder is damaged or was "
            f"made by an older version; run it again into another folder"
        ) from error


def _rename_metrics(table: pa.Table) -> pa.Table:
    """Give the metrics of a table the names of today."""
    column = table["metric"].cast(pa.string())
    if METRIC_NAMES.keys().isdisjoint(pc.unique(column).to_pylist()):
        return table
    names = pa.array([METRIC_NAMES.get(name, name) for name in column.to_pylist()])
    return table.set_column(table.column_names.index("metric"), "metric", names)
