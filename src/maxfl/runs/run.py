"""Run a simulation in a folder: saved after every block, resumable, never overwritten."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from maxfl.distributed.processes import is_leader, raise_together
from maxfl.engine.history import History
from maxfl.engine.session import Session
from maxfl.engine.solo import SoloCache
from maxfl.engine.trainer import (
    Progress,
    Snapshot,
    Trainer,
    diagnose,
    finished_history,
    shown_progress,
)
from maxfl.runs.checkpoint import Checkpoint
from maxfl.runs.folder import RunFolder
from maxfl.runs.results import write_results
from maxfl.runs.tables import Labels
from maxfl.runs.trackers.base import OpenTracker, TrackerDispatch, configurations_of
from maxfl.utils.errors import InputError, shorten
from maxfl.utils.paths import MODEL, TABLES

ELSEWHERE = (
    "choose a folder on a larger disk (--out), or lower training.rounds, training.cohort or the "
    "number of configurations"
)


def run(
    simulation: Trainer,
    folder: str | Path,
    *,
    resume: bool = False,
    progress: Progress | bool | None = None,
    labels: Labels | None = None,
    solo_cache: SoloCache | None = None,
    trackers: Sequence[OpenTracker] = (),
) -> Path:
    """Train in a folder and write the results there.

    Of several processes (``maxfl.join``), process 0 alone uses the folder and the trackers.

    Args:
        simulation: What to run.
        folder: A new or empty folder; with ``resume``, one that this very run was started in.
        resume: Take up an unfinished run from its last finished block.
        progress: Called with (stage, done, total); stage "resumed" says where a run goes on. True
            shows a bar, False nothing; by default there is a bar in a notebook.
        labels: What configurations are called in the results; by default 0, 1, ...
        solo_cache: Solo results shared between runs; see ``Simulation.prepare``.
        trackers: Where else metrics go; ``maxfl.tracker("tensorboard")`` gives one.

    Returns:
        The folder.
    """
    if not isinstance(getattr(simulation, "session", None), Session):
        raise InputError(
            f"run() takes a maxfl.Simulation or a maxfl.StreamingSimulation, not a "
            f"{type(simulation).__name__}"
        )
    _check_arguments(labels, trackers)
    session = simulation.session
    labels = (labels or Labels()).of(session.configurations)
    place = RunFolder(folder, (*TABLES, MODEL))
    description = simulation.describe()
    if labels.config is not None:  # first, so that what differs is named as the user wrote it
        description = {"config": labels.config, **description}
    if labels.code.digests:
        description["code"] = labels.code.digests
    session.assert_same(description)
    checkpoint = place.checkpoint(description)
    with raise_together():  # before the folder is claimed, which another try may want
        if is_leader() and not place.is_begun:
            simulation.resources.require_space(place.path, ELSEWHERE)
    with (
        shown_progress(progress) as report,
        place.claim(description, resume=resume, code=labels.code) as finished,
    ):
        shown = place.progress(labels.values, report)
        if not finished:
            saved = checkpoint.shared(simulation)  # a damaged one is refused, and nothing changed
            shown.begin()
            if is_leader():
                checkpoint.make_folder()
            opened = trackers if is_leader() else ()
            dispatch = TrackerDispatch(shown, configurations_of(place.path, labels), opened)
            saved_hint = f" {place.path} keeps what is done: add --resume (resume=True) to go on."
            with (
                simulation.resources.explain_shortage(place.path, ELSEWHERE, saved_hint),
                shown.noting_failure(),
            ):
                with simulation.open(checkpoint.folder, shown.report):
                    trained = _train(simulation, checkpoint, saved, dispatch, solo_cache)
                with raise_together():
                    if is_leader():
                        write_results(place, trained.history, labels, trained.seconds)
        elif report:
            rounds = session.experiment.training.rounds
            report("rounds", rounds, rounds)
        if is_leader():  # also of a finished run, which may have been killed just before
            checkpoint.remove()
            shown.remove()
            place.write_card()
    return place.path


def _check_arguments(labels: Any, trackers: Any) -> None:
    """Refuse arguments of the wrong kind before the folder is touched."""
    if labels is not None and not isinstance(labels, Labels):
        raise InputError(f"labels = {shorten(labels)}: expected maxfl.Labels(...)")
    if not isinstance(trackers, Sequence):
        raise InputError(f"trackers = {shorten(trackers)}: expected a list of them")
    for given in trackers:
        if not callable(given):
            raise InputError(
                f'trackers: {shorten(given)} is none; maxfl.tracker("mlflow") gives one'
            )


class _Trained(NamedTuple):
    """What training gave: a history, which knows what went wrong, and its seconds."""

    history: History
    seconds: float


def _train(
    simulation: Trainer,
    checkpoint: Checkpoint,
    saved: Snapshot | None,
    dispatch: TrackerDispatch,
    solo_cache: SoloCache | None,
) -> _Trained:
    """Train all blocks, from the start or from what the checkpoint had saved."""
    began = time.monotonic()
    shown, rounds = dispatch.progress, simulation.session.experiment.training.rounds
    if saved:
        prepared, state, blocks = saved
        done = int(blocks[-1].rounds[-1]) if blocks else 0
        shown.report("resumed", done, rounds)
    else:
        blocks = []
        with simulation.compiling():
            state, prepared = simulation.start(), simulation.prepare(shown.report, solo_cache)
        with raise_together():
            if is_leader():
                checkpoint.save_start(prepared, state)
    diagnosis = diagnose(simulation, prepared)
    with dispatch.opened():
        for block in blocks:
            shown.measured(simulation.history(prepared, [block], state))
            shown.warn(diagnosis.follow(block))
        for now, block in simulation.blocks(prepared, state, done=len(blocks)):
            state = simulation.session.fetch(now)
            blocks.append(block)
            # Trackers first, then the checkpoint: a run cut off in between reports a block twice,
            # never not at all.
            dispatch.measured(simulation.history(prepared, [block], state))
            shown.warn(diagnosis.warn(block))
            if is_leader():
                checkpoint.save_block(len(blocks), block, state)
            shown.report("rounds", int(block.rounds[-1]), rounds)
    history = finished_history(simulation, prepared, blocks, state, diagnosis)
    return _Trained(history, round(time.monotonic() - began, 3))
