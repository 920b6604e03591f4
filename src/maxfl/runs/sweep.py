"""A sweep: every combination of some settings, run group by group, resumable between them."""

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import jax
import pyarrow as pa
import pyarrow.parquet as pq

from maxfl.core.judging import FRACTION, Judging
from maxfl.core.requirements.solo_training import (
    FOLLOWING,
    MOVING_JUDGING,
    MOVING_LOCAL,
    TRAINING,
    SoloTraining,
)
from maxfl.distributed.processes import (
    assert_same,
    free_bytes,
    is_distributed,
    is_leader,
    on_leader,
    raise_together,
)
from maxfl.engine.resources import parallel_configurations
from maxfl.engine.simulation import compiles_ahead
from maxfl.engine.solo import SoloCache
from maxfl.engine.trainer import Progress
from maxfl.runs.build import Group, alike, build, group
from maxfl.runs.configs.data import DataConfig
from maxfl.runs.configs.file import unused_beside_data
from maxfl.runs.configs.run import RunConfig
from maxfl.runs.folder import RunFolder
from maxfl.runs.grid import Grid, describe_values
from maxfl.runs.plugins.used import code_of
from maxfl.runs.run import ELSEWHERE, run
from maxfl.runs.tables import Labels, merge_metrics, to_parquet
from maxfl.runs.trackers.base import OpenTracker
from maxfl.runs.workers import run_queues, stoppable
from maxfl.utils.disk_space import format_bytes, require_space
from maxfl.utils.errors import InputError, OutOfMemoryError, TrainingWarning
from maxfl.utils.files import read_json
from maxfl.utils.paths import METRICS, SUMMARY, TABLES

COMPARING = ("solo", "custom")
"""Kinds of requirement that come from what clients train alone."""


def run_sweep(
    grid: Grid,
    folder: Path,
    *,
    resume: bool = False,
    progress: Callable[[int, int], Progress] | None = None,
    announce: Callable[[str], None] | None = None,
    trackers: Sequence[OpenTracker] = (),
    max_parallel: int | None = None,
) -> Path:
    """Run a sweep in a folder: groups below it, and the tables of all of them in it.

    Args:
        grid: The configurations.
        folder: A new or empty folder; with ``resume``, one that this very sweep was started in.
        resume: Take up an unfinished sweep.
        progress: ``progress(group, groups)`` gives the progress callback of each group.
        announce: Called with a line on how the work is cut and what memory it takes.
        trackers: What all metrics are sent to.
        max_parallel: Most configurations or clients vectorised on a device.
    """
    groups = group(grid.configs)
    _tell_of_moving_requirements(grid.configs)
    settings = [config.as_json() for config in grid.configs]
    # Built once beforehand, so that every mistake shows before the first training.
    firsts = {queue[0] for queue in alike(groups)}
    with raise_together():
        forecasts = [
            _forecast(members, max_parallel, predicts_memory=g in firsts)
            for g, members in enumerate(groups)
        ]
    own_judging = [forecast.has_own_judging for forecast in forecasts]
    _tell_of_other_judging(groups, own_judging)
    code = code_of(grid.configs)
    description: dict[str, Any] = {
        "configurations": {str(index): config for index, config in enumerate(settings)},
        "groups": {str(g): forecast.description for g, forecast in enumerate(forecasts)},
    }
    if code.digests:
        description["code"] = code.digests
    assert_same(description)
    place = RunFolder(folder, TABLES)
    with raise_together():
        if is_leader() and not place.is_begun:
            # Its tables are written once more in the end; a checkpoint is there for one at a time.
            needed = 2 * sum(forecast.result_bytes for forecast in forecasts)
            largest_group = max(forecast.folder_bytes for forecast in forecasts)
            require_space(folder, max(needed, largest_group), "the sweep", ELSEWHERE)
    with place.claim(description, resume=resume, code=code) as finished:
        if not finished:
            largest = max(forecast.bytes for forecast in forecasts)
            if announce:
                announce(_in_words(forecasts, largest))
                for note in _unused_in_all(groups, own_judging):
                    announce(f"Note: {note}.")
            _Groups(grid, groups, place, trackers, max_parallel).run(progress, largest)
    return folder


def _tell_of_moving_requirements(configs: Sequence[RunConfig]) -> None:
    """Say that requirements follow what the sweep varies; a group may not see all of it."""
    compared = [config for config in configs if config.requirement.rest in COMPARING]
    if len({config.local for config in compared}) > 1:
        warnings.warn(MOVING_LOCAL, TrainingWarning, stacklevel=3)
    for name in FOLLOWING:
        following = [c for c in compared if getattr(c.requirement, name) == TRAINING]
        if len({getattr(config.training, name) for config in following}) > 1:
            section = following[0].requirement
            followed: dict[str, Any] = {
                name: None for name in FOLLOWING if getattr(section, name) == TRAINING
            }
            warnings.warn(SoloTraining(**followed).moving_words(), TrainingWarning, stacklevel=3)
            return


def _tell_of_other_judging(groups: Sequence[Group], own_judging: Sequence[bool]) -> None:
    """Say that requirements differ where clients judge the same data by other parts of them."""
    chosen: dict[DataConfig, set[Judging]] = {}
    for members, has_own in zip(groups, own_judging, strict=True):
        config = members.configs[0]
        section, data = config.requirement, config.data.model_copy(update={"seed": None})
        if section.rest in COMPARING:
            holds_out = section.judge == "held-out" and not has_own
            judging = Judging(section.judge, section.judge_fraction if holds_out else FRACTION)
            chosen.setdefault(data, set()).add(judging)
    if any(len(ways) > 1 for ways in chosen.values()):
        warnings.warn(MOVING_JUDGING, TrainingWarning, stacklevel=3)


def _unused_in_all(groups: Sequence[Group], own_judging: Sequence[bool]) -> list[str]:
    """Return what does nothing for the data at hand in any configuration, in words."""
    first, *others = (
        unused_beside_data(config, has_own_judging=has_own)
        for members, has_own in zip(groups, own_judging, strict=True)
        for config in members.configs
    )
    return [note for note in first if all(note in other for other in others)]


class _Forecast(NamedTuple):
    """What is known of a group before it runs.

    Attributes:
        description: All that its result depends on.
        configurations: How many.
        parallel: How many run at once.
        bytes: Memory of a device; 0 where an earlier group is alike and takes about as much:
            predicting it traces the model.
        folder_bytes: Of its folder while it runs, for sure.
        result_bytes: Of its folder in the end.
        has_own_judging: Whether its data came with the part that clients judge by.
    """

    description: dict[str, Any]
    configurations: int
    parallel: int
    bytes: int
    folder_bytes: int
    result_bytes: int
    has_own_judging: bool


def _forecast(members: Group, max_parallel: int | None, *, predicts_memory: bool) -> _Forecast:
    built = build(members.configs, max_parallel)
    configurations = built.session.configurations
    parallel = parallel_configurations(built.session.spec.layout, configurations)
    resources = built.resources
    return _Forecast(
        built.describe(), configurations, parallel,
        resources.device_bytes if predicts_memory else 0,
        resources.min_folder_bytes, resources.result_bytes,
        built.session.experiment.federation.has_own_judging,
    )  # fmt: skip


def _in_words(forecasts: Sequence[_Forecast], largest: int) -> str:
    """Say how the work is cut."""
    total = sum(forecast.configurations for forecast in forecasts)
    parallel = max(forecast.parallel for forecast in forecasts)
    free = free_bytes(jax.devices()[0])
    return (
        f"{total} configurations in {len(forecasts)} group{'s' if len(forecasts) > 1 else ''}, up "
        f"to {parallel} at once; memory: at most about {format_bytes(largest)} of "
        f"{format_bytes(free)} a device"
    )


class _Groups(NamedTuple):
    """The groups of a sweep, each with a run folder below the sweep's."""

    grid: Grid
    groups: Sequence[Group]
    folder: RunFolder
    trackers: Sequence[OpenTracker]
    max_parallel: int | None

    def run(self, progress: Callable[[int, int], Progress] | None, largest: int) -> None:
        """Run one group after another, then write the tables and the summary of all."""
        solo_cache, stop = SoloCache(), Event()
        failed: dict[int, str] = {}

        def run_one(g: int) -> None:
            indices, configs = self.groups[g]
            labels = Labels(
                indices,
                [self.grid.values[n] for n in indices],
                [config.as_json() for config in configs],
                code_of(configs),
            )
            try:
                run(
                    build(configs, self.max_parallel),
                    self._folder_of(g),
                    resume=True,
                    progress=stoppable(progress(g, len(self.groups)) if progress else None, stop),
                    labels=labels,
                    solo_cache=solo_cache,
                    trackers=self.trackers,
                )
            except (jax.errors.JaxRuntimeError, OutOfMemoryError) as error:
                if is_distributed():  # the others are in the middle of it, and can't be told
                    raise
                failed[g] = str(error).splitlines()[0]

        run_queues(run_one, self._compiling, alike(self.groups), stop, largest)
        # Where several programs run at a time, a driver may fail one of them for once.
        for g in list(failed):
            del failed[g]
            run_one(g)
        if failed:
            raise InputError(self._in_words(failed))
        on_leader(self._put_together)

    def _compiling(self, g: int) -> AbstractContextManager[Any]:
        """Compile a group's program meanwhile, unless the group was begun before.

        What fails here fails again in the group's turn, and counts there.
        """
        if not compiles_ahead() or self._folder_of(g).exists():
            return nullcontext()
        with ExitStack() as stack, suppress(Exception):
            stack.enter_context(build(self.groups[g].configs, self.max_parallel).compiling())
            return stack.pop_all()
        return nullcontext()

    def _folder_of(self, g: int) -> Path:
        return self.folder.path / "groups" / f"{g:04d}"

    def _put_together(self) -> None:
        """Write the groups' tables, one below the other, and the summary of all."""
        folders = [self._folder_of(g) for g in range(len(self.groups))]
        contents = {}
        for name in TABLES:
            parts = [pq.read_table(folder / name) for folder in folders]
            if name == METRICS:
                whole = merge_metrics(parts, self.grid.values)
            else:  # personal methods have columns that others lack; those are empty there
                whole = pa.concat_tables(parts, promote_options="permissive")
            contents[name] = to_parquet(whole)
        entries: dict[int, Any] = {}
        for members, folder in zip(self.groups, folders, strict=True):
            summary = read_json(folder / SUMMARY)
            entries.update(zip(members.indices, summary["configurations"], strict=True))
        summary = {"configurations": [entries[n] for n in range(len(entries))]}
        self.folder.write_results(contents, summary)

    def _in_words(self, failed: dict[int, str]) -> str:
        """Say which configurations failed, and why."""
        values = self.grid.values
        lost = [
            f"{describe_values(values[n])}: {why}"
            for g, why in failed.items()
            for n in self.groups[g].indices
        ]
        return (
            f"{len(lost)} of {len(values)} configurations failed: {'; '.join(lost[:3])}"
            f"{'; ...' if len(lost) > 3 else ''}. The others are kept: remove the cause, then add "
            f"--resume to run what is missing"
        )
