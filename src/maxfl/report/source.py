"""What folders of results hold, read once and laid out for showing.

A run, a sweep and a study of the paper (its final runs) leave the same tables behind
(docs/results.md). Configurations that differ in nothing but the seed are one method;
settings of the data that differ make cases, since only runs on the same data can be compared.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from maxfl.errors import InputError
from maxfl.files import read_json
from maxfl.folders import EXPERIMENT, METRICS, PARTITION, STUDY, STUDY_RESULTS, SUMMARY
from maxfl.nested import flatten
from maxfl.report.names import label_of

SEEDS = ("seed", "data.seed")


class Configuration(NamedTuple):
    """One configuration of one folder.

    Attributes:
        named: The folder that the user named.
        folder: That of its tables.
        number: In them; -1 if there are only means.
        case: The data it ran on, where there are several; else "".
        method: Its name for people.
        seed: Of its run.
        settings: All of its settings by dotted key, as far as they were kept.
        entry: Its entry in the summary.
        data: What the data are.
        place: Folder with its partition and its model.
        digest: Of its federation, "" if not known: runs with the same one can be paired.
    """

    named: Path
    folder: Path
    number: int
    case: str
    method: str
    seed: int
    settings: dict[str, Any]
    entry: dict[str, Any]
    data: str
    place: Path
    digest: str


class Source(NamedTuple):
    """Everything that a report is made from.

    Attributes:
        folders: As the user named them.
        configurations: All that are finished.
        metrics: Columns case, method, seed, round, clients, model, metric, value.
        machines: What each folder was made with.
        missing: Sentences on what is not there.
    """

    folders: tuple[Path, ...]
    configurations: list[Configuration]
    metrics: pa.Table
    machines: list[dict[str, Any]]
    missing: list[str]

    @property
    def cases(self) -> list[str]:
        """In the order of the folders."""
        return list(dict.fromkeys(c.case for c in self.configurations))

    def methods(self, case: str) -> list[str]:
        """Of a case, in the order of the folders."""
        return list(dict.fromkeys(c.method for c in self.configurations if c.case == case))

    def of(self, case: str, method: str) -> list[Configuration]:
        """A method's configurations, one for each seed."""
        own = [c for c in self.configurations if (c.case, c.method) == (case, method)]
        return sorted(own, key=lambda c: c.seed)


class _Found(NamedTuple):
    """A configuration as its folder has it, before it is named among the others."""

    named: Path
    folder: Path
    number: int
    values: dict[str, Any]
    settings: dict[str, Any]
    entry: dict[str, Any]
    place: Path
    digest: str
    metrics: pa.Table


class _Folder(NamedTuple):
    found: list[_Found]
    machine: dict[str, Any]
    missing: list[str]


def read(folders: Sequence[Path]) -> Source:
    """Read folders, or say which of them can't be shown and why."""
    if len({f.resolve() for f in folders}) < len(folders):
        raise InputError("the same folder is named twice: name each once")
    parts = [_read_folder(folder) for folder in folders]
    found = [
        own._replace(named=folder)
        for folder, part in zip(folders, parts, strict=True)
        for own in part.found
    ]
    named = _told_apart(_named(found))
    missing = list(dict.fromkeys(line for part in parts for line in part.missing))
    tables = [_with_names(own.metrics, name) for own, name in zip(found, named, strict=True)]
    return Source(
        tuple(folders),
        named,
        pa.concat_tables(tables, promote_options="permissive"),
        [part.machine for part in parts],
        missing,
    )


def _told_apart(named: Sequence[Configuration]) -> list[Configuration]:
    """Configurations of one folder that nothing tells apart go by their numbers."""
    known: dict[tuple[str, str, int], list[Configuration]] = {}
    for own in named:
        known.setdefault((own.case, own.method, own.seed), []).append(own)
    found = []
    for own in named:
        alike = known[own.case, own.method, own.seed]
        if others := {c.named for c in alike} - {own.named}:
            raise InputError(
                f"{own.named} has {own.method} with seed {own.seed} on the same data as "
                f"{min(others)}: leave one of them out"
            )
        numbered = f"{own.method}, configuration {own.number}"
        found.append(own._replace(method=numbered) if len(alike) > 1 else own)
    return found


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
    experiment = _mapping(folder / EXPERIMENT)
    if "configurations" in experiment:
        return _read_sweep(folder, experiment)
    if "federation" in experiment:
        return _read_run(folder, experiment)
    raise InputError(
        f"{folder} holds an unfinished study, or something that has no clients: there is no "
        f"{STUDY}. Finish it with --resume, or name its folder final/"
    )


def _mapping(path: Path) -> dict[str, Any]:
    content = read_json(path)
    if not isinstance(content, dict):
        raise InputError(f"{path} is not what a run of maxfl writes: choose another folder")
    return content


def _read_run(folder: Path, experiment: dict[str, Any]) -> _Folder:
    """A run folder, or the folder of one group of a sweep."""
    if not (folder / SUMMARY).is_file():
        raise InputError(
            f"the run in {folder} is not finished: go on with --resume, or look at it with "
            f"`maxfl watch {folder}`"
        )
    summary = _mapping(folder / SUMMARY)
    kept = experiment.get("config", {})
    count = len(summary["configurations"])
    every = kept if isinstance(kept, list) else [kept] * count
    metrics = _table(folder / METRICS)
    numbers = sorted(set(metrics["configuration"].to_pylist()))
    if not len(numbers) == len(every) == count:
        raise InputError(f"{folder}: {METRICS} and {SUMMARY} do not fit: one of them is damaged")
    missing = [] if kept else [f"{folder} has no settings: it was made from Python without them."]
    found = [
        _Found(
            folder, folder, number, entry["values"],
            _settings(experiment, settings, entry, i, count), entry, folder,
            experiment["federation"],
            metrics.filter(pc.field("configuration") == number),
        )
        for i, (number, settings, entry) in enumerate(
            zip(numbers, every, summary["configurations"], strict=True)
        )
    ]  # fmt: skip
    return _Folder(found, _machine(summary), missing)


def _settings(
    experiment: dict[str, Any], kept: dict[str, Any], entry: dict[str, Any], i: int, count: int
) -> dict[str, Any]:
    """What was kept, or what a run without settings says of itself; and what was swept."""
    swept = {k: v for k, v in entry["values"].items() if k not in ("part", "method")}
    if isinstance(kept, dict) and kept:
        return flatten(kept) | swept
    about = {k: v for k, v in experiment.items() if k not in ("config", "maxfl", "jax")}
    told = flatten(about | {"data": {"federation": about.pop("federation")[:8]}})
    own = {k: v[i] if isinstance(v, list) and len(v) == count else v for k, v in told.items()}
    return own | swept


def _read_sweep(folder: Path, experiment: dict[str, Any]) -> _Folder:
    """The finished groups of a sweep; tables of the whole are there once all are."""
    found: list[_Found] = []
    machine: dict[str, Any] = {}
    places = sorted((folder / "groups").glob("*"))
    finished = [place for place in places if (place / SUMMARY).is_file()]
    for place in finished:
        part = _read_run(place, _mapping(place / EXPERIMENT))
        found += part.found
        seconds = machine.get("seconds", 0) + part.machine.get("seconds", 0)
        machine = part.machine | {"seconds": seconds}
    wanted, there = len(experiment["configurations"]), len(found)
    if not found:
        raise InputError(
            f"no configuration of the sweep in {folder} is finished: go on with --resume, or look "
            f"at it with `maxfl watch {folder}`"
        )
    left = f"{wanted - there} of {wanted} configurations of {folder}"
    missing = [f"Not finished, and so not shown: {left}."] if there < wanted else []
    return _Folder(sorted(found, key=lambda own: own.number), machine, missing)


def _read_study(folder: Path) -> _Folder:
    """The final runs of a study, or its means where only those were kept."""
    about = _mapping(folder / STUDY)
    notes = [note for note in about.get("data_notes", {}).values() if note]
    final = folder / "final"
    if (final / EXPERIMENT).is_file():
        part = _read_sweep(final, _mapping(final / EXPERIMENT))
        return part._replace(missing=[*part.missing, *notes], machine=_machine(about))
    return _read_means(folder, about, notes)


def _read_means(folder: Path, about: dict[str, Any], notes: list[str]) -> _Folder:
    table = _table(folder / STUDY_RESULTS)
    keys = table.select(["part", "method", "seed"]).group_by(["part", "method", "seed"])
    found = []
    for row in keys.aggregate([]).to_pylist():
        own = table
        for key, value in row.items():
            own = own.filter(pc.field(key) == value)
        entry = {"values": row, "data": about["data"][row["part"]], "notes": []}
        found.append(_Found(folder, folder, -1, row, {"seed": row["seed"]}, entry, folder, "", own))
    line = f"{folder} has means over clients only: nothing can be said about single clients."
    return _Folder(found, _machine(about), [line, *notes])


def _machine(summary: dict[str, Any]) -> dict[str, Any]:
    keys = ("maxfl", "jax", "python", "device", "seconds", "scale")
    return {key: summary[key] for key in keys if summary.get(key) is not None}


def _table(path: Path) -> pa.Table:
    try:
        return pq.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(
            f"{path} can't be read ({str(error).splitlines()[0]}): the folder is damaged or was "
            f"made by an older version; run it again into another folder"
        ) from error


def _named(found: Sequence[_Found]) -> list[Configuration]:
    """Every configuration with its case and its method, by what differs among all of them."""
    differing = _differing([own.settings for own in found])
    in_data = [key for key in differing if key.startswith("data.")]
    seeds = [_seed(own.values.get("seed", own.settings.get("seed"))) for own in found]
    splits = [own.settings.get("data.seed") for own in found]
    if len(set(splits)) > 1:  # splits are seeds too, unless the runs have several of those
        if len(set(seeds)) == 1:
            seeds = [_seed(split) for split in splits]
        else:
            in_data.append("data.seed")
    cases = [own.values["part"] if "part" in own.values else _case(own, in_data) for own in found]
    others = {
        case: [
            key
            for key in _differing([o.settings for o, c in zip(found, cases, strict=True)
                                   if c == case])
            if not key.startswith("data.")
        ]
        for case in set(cases)
    }  # fmt: skip
    return [
        Configuration(
            own.named,
            own.folder,
            own.number,
            case,
            own.values.get("method") or label_of(own.settings, others[case]),
            seed,
            own.settings,
            own.entry,
            own.entry["data"],
            own.place,
            own.digest,
        )
        for own, seed, case in zip(found, seeds, cases, strict=True)
    ]


def _seed(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):  # from Python it may be missing, or anything
        return 0


def _case(own: _Found, keys: Sequence[str]) -> str:
    shown = (f"{k.removeprefix('data.')} {own.settings[k]}" for k in keys if k in own.settings)
    return ", ".join(shown)


def _differing(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Keys whose values are not the same everywhere, without seeds."""
    keys = dict.fromkeys(key for own in settings for key in own)
    return [
        key
        for key in keys
        if key not in SEEDS and len({repr(own.get(key)) for own in settings}) > 1
    ]


def _with_names(metrics: pa.Table, name: Configuration) -> pa.Table:
    wanted = ["round", "clients", "model", "metric", "value"]
    table = metrics.select(wanted)
    for key, value in (("seed", name.seed), ("method", name.method), ("case", name.case)):
        table = table.add_column(0, key, pa.array([value] * len(table)))
    plain = [pa.field(f.name, pa.string()) if pa.types.is_dictionary(f.type) else f
             for f in table.schema]  # fmt: skip
    return table.cast(pa.schema(plain))


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
    table = _table(path)
    label = table["label"].combine_chunks()
    labels = tuple(label.dictionary.to_pylist())
    rows = table["client"].to_numpy()
    clients = int(rows.max()) + 1
    counts = np.zeros((clients, len(labels)), np.int64)
    counts[rows, label.indices.to_numpy()] = table["samples"].to_numpy()
    flipped = np.zeros(clients, bool)
    flipped[rows] = table["flipped"].to_numpy(zero_copy_only=False)
    return Partition(labels, counts, flipped)
