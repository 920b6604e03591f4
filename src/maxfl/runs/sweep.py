"""A sweep: every combination of some settings, run group by group, resumable between them."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import jax
import pyarrow as pa
import pyarrow.parquet as pq

from maxfl.runs.config_file import override_all, validate
from maxfl.utils.errors import InputError, OutOfMemoryError
from maxfl.runs.build import Group, alike, build, group
from maxfl.utils.files import read_json, write_json, write_whole
from maxfl.utils.paths import SUMMARY, TABLES
from maxfl.distributed.processes import free_bytes
from maxfl.utils.dicts import flatten
from maxfl.distributed.processes import agree, lead, several, together
from maxfl.core.requirement import SoloResults
from maxfl.runs.run import claimed, machine, run
from maxfl.runs.config import RunConfig
from maxfl.engine.simulation import Progress
from maxfl.runs.tables import to_parquet
from maxfl.runs.trackers import Opener
from maxfl.runs.workers import share_out, stoppable


class Grid(NamedTuple):
    """The configurations of a sweep, and what is special about each."""

    values: list[dict[str, Any]]
    configs: list[RunConfig]


def expand(raw: dict[str, Any], where: str) -> Grid:
    """Every combination of the lists under ``[sweep]``, on top of the rest of the file.

    With several tables ``[[sweep]]``, the combinations of each, one after another.
    """
    base = {key: value for key, value in raw.items() if key != "sweep"}
    values = []
    for table in sweep_tables(raw, where):
        axes = _axes(table, where)
        for combination in itertools.product(*axes.values()):
            values.append(dict(zip(axes, combination, strict=True)))
    for number, chosen in enumerate(values):
        if chosen in values[:number]:
            raise InputError(f"{where} has a combination twice in its sweep: {_named(chosen)}")
    return Grid(values, [_configure(base, chosen, where) for chosen in values])


def refuse_swept(grid: Grid, settings: Iterable[str]) -> None:
    """Refuse settings that would do nothing, because the sweep has a list for them."""
    for key in settings:
        if all(key in values for values in grid.values):
            raise InputError(
                f"--set {key}: this sweep has a list for it; leave --set out, or change the list"
            )


def sweep_tables(raw: dict[str, Any], where: str) -> list[dict[str, Any]]:
    """The tables of a sweep: one ``[sweep]``, or several ``[[sweep]]``."""
    given = raw.get("sweep", {})
    tables = given if isinstance(given, list) else [given]
    if not all(isinstance(table, dict) for table in tables):
        raise InputError(f"{where}: sweep = {given!r}; want a table [sweep] with lists")
    return tables


def _axes(table: dict[str, Any], where: str) -> dict[str, list[Any]]:
    """The lists of a sweep table, by dotted key."""
    axes = flatten(table)
    if not axes:
        raise InputError(
            f"{where} has nothing to sweep over: add a table [sweep] with lists, for instance "
            f"training.local_lr = [0.1, 0.05], or use --over"
        )
    for key, choices in axes.items():
        if not isinstance(choices, list) or not choices:
            raise InputError(
                f"{where}: sweep.{key} = {choices!r}; want a list of values, words in quotes, as "
                f'["maxfl", "fedavg"]'
            )
    return axes


def _configure(base: dict[str, Any], chosen: dict[str, Any], where: str) -> RunConfig:
    """The configuration with some settings chosen."""
    base = override_all(base, chosen)
    return validate(base, f"{where} with {_named(chosen)}")


def _named(chosen: dict[str, Any]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in chosen.items())


def run_sweep(
    grid: Grid,
    folder: Path,
    *,
    resume: bool = False,
    progress: Callable[[int, int], Progress] | None = None,
    announce: Callable[[str], None] | None = None,
    trackers: Sequence[Opener] = (),
    at_once: int | None = None,
) -> Path:
    """Run a sweep in a folder: groups below it, and the tables of all of them in it.

    ``progress(group, groups)`` gives the progress callback of each group; ``announce`` is told how
    the work is cut and what memory it will take; ``trackers`` are told all metrics. ``at_once`` is
    the most configurations or clients vectorised on a device.
    """
    groups = group(grid.configs)
    # Built once beforehand, so that every mistake shows before the first training.
    settings = [config.model_dump(mode="json") for config in grid.configs]
    with together():
        plans = [_foresee(members, at_once) for members in groups]
    description = {
        "configurations": {str(number): config for number, config in enumerate(settings)},
        "groups": {str(g): plan.description for g, plan in enumerate(plans)},
    }
    agree(description)
    with claimed(folder, description, resume=resume, results=TABLES) as finished:
        if not finished:
            largest = max(plan.bytes for plan in plans)
            if announce:
                announce(_forecast(plans, largest))
            _run_groups(grid, groups, folder, settings, progress, largest, trackers, at_once)
    return folder


class _Plan(NamedTuple):
    """What is known of a group before it runs: all that its result depends on, and its memory."""

    description: dict[str, Any]
    configurations: int
    at_once: int
    bytes: int


def _foresee(members: Group, at_once: int | None) -> _Plan:
    built = build(members.configs, at_once)
    return _Plan(built.describe(), built.configurations, built.at_once, built.predicted_bytes)


def _forecast(plans: Sequence[_Plan], largest: int) -> str:
    """How the work is cut, in words."""
    total = sum(plan.configurations for plan in plans)
    at_once = max(plan.at_once for plan in plans)
    free = free_bytes(jax.devices()[0])
    return (
        f"{total} configurations in {len(plans)} group{'s' if len(plans) > 1 else ''}, up to "
        f"{at_once} at once; memory: at most about {largest / 1e9:.2g} of {free / 1e9:.0f} GB a "
        f"device"
    )


def _run_groups(
    grid: Grid,
    groups: Sequence[Group],
    folder: Path,
    settings: Sequence[dict[str, Any]],
    progress: Callable[[int, int], Progress] | None,
    largest: int,
    trackers: Sequence[Opener],
    at_once: int | None,
) -> None:
    """One run folder after another, then the tables and the summary of all."""
    known, stop = SoloResults(), Event()
    places = [folder / "groups" / f"{g:04d}" for g in range(len(groups))]

    failed: dict[int, str] = {}

    def run_one(g: int) -> None:
        numbers, configs = groups[g]
        try:
            run(
                build(configs, at_once),
                places[g],
                resume=True,
                progress=stoppable(progress(g, len(groups)) if progress else None, stop),
                numbers=numbers,
                values=[grid.values[n] for n in numbers],
                known=known,
                config=[settings[n] for n in numbers],
                trackers=trackers,
            )
        except (jax.errors.JaxRuntimeError, OutOfMemoryError) as error:
            if several():  # the others are in the middle of this group, and can't be told
                raise
            failed[g] = str(error).splitlines()[0]

    share_out(run_one, alike(groups), stop, largest)
    if failed:
        raise InputError(_lost(failed, groups, grid))
    lead(lambda: _put_together(folder, places, groups))


def _put_together(folder: Path, places: Sequence[Path], groups: Sequence[Group]) -> None:
    """The tables and the summary of all groups."""
    entries: dict[int, Any] = {}
    for members, place in zip(groups, places, strict=True):
        summary = read_json(place / SUMMARY)
        entries.update(zip(members.numbers, summary["configurations"], strict=True))
    _merge(folder, places)
    configurations = [entries[n] for n in range(len(entries))]
    write_json(folder / SUMMARY, {**machine(), "configurations": configurations})


def _lost(failed: dict[int, str], groups: Sequence[Group], grid: Grid) -> str:
    """Which configurations failed, and why."""
    lost = [
        f"{_named(grid.values[n])}: {why}" for g, why in failed.items() for n in groups[g].numbers
    ]
    return (
        f"{len(lost)} of {len(grid.values)} configurations failed: {'; '.join(lost[:3])}"
        f"{'; ...' if len(lost) > 3 else ''}. The others are kept: mend the cause, then add "
        f"--resume to run what is missing"
    )


def _merge(folder: Path, places: Sequence[Path]) -> None:
    """The groups' tables, one below the other."""
    for name in TABLES:
        parts = [pq.read_table(place / name) for place in places]
        # Personal methods have columns that others lack; those are empty there.
        whole = pa.concat_tables(parts, promote_options="permissive")
        write_whole(folder / name, to_parquet(whole))
