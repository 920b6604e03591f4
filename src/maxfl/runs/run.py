"""Run a simulation in a folder: saved after every block, resumable, never overwritten.

experiment.json      what is being run; written first, so that a folder is known by it
checkpoint/          while the run goes on
history.parquet      every evaluated round and client          (maxfl.tables)
rounds.parquet       every round and asked client
metrics.parquet      means over clients: every evaluated round, group of clients and metric
clients.parquet      every client: size, requirement, solo results
partition.parquet    every client and label: samples
model.safetensors    the final global model
summary.json         the final figures; once it is there, the run is finished
model-card.md        what the model is, and for whom it does not work; made from the others
progress.json        while the run goes on: how far it is   (maxfl.live)
"""

import fcntl
import os
import platform
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np

from maxfl.runs import tables
from maxfl.runs.checkpoint import Checkpoint
from maxfl.utils.errors import InputError
from maxfl.utils.files import read_json, to_tensors, write_json, write_whole
from maxfl.utils.paths import CARD, EXPERIMENT, MODEL, PARTITION, SUMMARY, TABLES
from maxfl.runs.trackers.following import Following
from maxfl.engine.history import History
from maxfl.runs.progress import Live
from maxfl.utils.dicts import differences, written_first
from maxfl.distributed.processes import first, group, lead
from maxfl.report.model_card import cards
from maxfl.report.source import read
from maxfl.core.requirement import SoloResults
from maxfl.utils.disk_space import check_room, told_if_full
from maxfl.engine.shortage import told_if_out_of_memory
from maxfl.engine.simulation import Progress, Simulation
from maxfl.runs.summary import summarise
from maxfl.runs.trackers import Configuration, Opener

ELSEWHERE = (
    "choose a folder on a larger disk (--out), or lower training.rounds, training.cohort or the "
    "number of configurations"
)


def run(
    simulation: Simulation,
    folder: str | Path,
    *,
    resume: bool = False,
    progress: Progress | None = None,
    numbers: Sequence[int] | None = None,
    values: Sequence[dict[str, Any]] | None = None,
    known: SoloResults | None = None,
    config: Any = None,
    trackers: Sequence[Opener] = (),
) -> Path:
    """Train in a folder and write the results there.

    Of several processes (``maxfl.join``), process 0 alone uses the folder and the trackers.

    Args:
        simulation: What to run.
        folder: A new or empty folder; with ``resume``, one that this very run was started in.
        resume: Take up an unfinished run from its last finished block.
        progress: Called with (stage, done, total); stage "resumed" says where a run goes on.
        numbers: The configurations' numbers in the tables; by default 0, 1, ...
        values: What is special about each configuration, for the summary.
        known: Solo results shared between runs; see ``Simulation.prepare``.
        config: The settings that the simulation was built from, to be kept in the folder; a list
            of them for several configurations.
        trackers: Where else metrics go; ``maxfl.tracker("tensorboard")`` gives one.

    Returns:
        The folder.
    """
    if not isinstance(simulation, Simulation):
        raise InputError(f"run() wants a maxfl.Simulation, not a {type(simulation).__name__}")
    folder = Path(folder)
    count = simulation.configurations
    numbers = range(count) if numbers is None else numbers
    values = [{}] * count if values is None else values
    for name, given in (("numbers", numbers), ("values", values)):
        if len(given) != count:
            raise InputError(f"{name} has {len(given)} entries for {count} configurations")
    description = simulation.describe()
    if config is not None:  # first, so that what differs is named as the user wrote it
        description = {"config": config, **description}
    simulation.agree(description)
    checkpoint = Checkpoint(folder / "checkpoint", description)
    with claimed(folder, description, resume=resume, results=(*TABLES, MODEL)) as finished:
        live = Live(folder if first() else None, values, progress)
        if not finished:
            began = time.monotonic()
            told = _told(folder, numbers, values, config)
            following = Following(live, told, trackers if first() else ())
            with _told_if_short(simulation, folder), live.telling():
                lead(lambda: _check_room(folder, simulation, checkpoint))
                with simulation.working_in(checkpoint.folder, live.report):
                    history = _train(simulation, checkpoint, live, known, following)
                lead(lambda: _write_results(folder, simulation, history, numbers, values, began))
        elif progress:
            progress("rounds", simulation.training.rounds, simulation.training.rounds)
        if first():  # also of a finished run, which may have been killed just before
            checkpoint.remove()
            live.remove()
            write_card(folder)
    return folder


@contextmanager
def _told_if_short(simulation: Simulation, folder: Path) -> Iterator[None]:
    """Say what to change where disk or memory is short, and that what is done is kept."""
    kept = f" {folder} keeps what is done: add --resume (resume=True) to go on."
    with (
        told_if_full(
            folder, "the run", simulation.folder_bytes, f"make room.{kept} Or {ELSEWHERE}"
        ),
        told_if_out_of_memory(simulation, kept),
    ):
        yield


@contextmanager
def claimed(
    folder: Path,
    description: dict[str, Any],
    *,
    resume: bool,
    results: Sequence[str],
    last: str = SUMMARY,
) -> Iterator[bool]:
    """Hold the folder for this experiment alone, or refuse. Gives whether it is finished.

    It is finished once its ``last`` file is there, and then holds the ``results`` too. Of several
    processes, process 0 holds the folder, and the others learn what it found there.
    """
    with ExitStack() as stack:
        held = partial(_held, folder, description, resume=resume, results=results, last=last)
        yield lead(lambda: stack.enter_context(held()))


@contextmanager
def _held(
    folder: Path, description: dict[str, Any], *, resume: bool, results: Sequence[str], last: str
) -> Iterator[bool]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise InputError(f"can't use {folder} as a folder: {error.strerror}") from error
    try:
        _lock(held, folder)
        yield _claim(folder, description, resume=resume, results=results, last=last)
    finally:
        os.close(held)


def _lock(held: int, folder: Path) -> None:
    """Keep other processes out until the descriptor is closed, however we end."""
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(
            f"another process is at work in the folder {folder}: wait, or choose another folder"
        ) from None
    except OSError as error:  # some network file systems have none: better no lock than no run
        warnings.warn(
            f"{folder} can't be locked ({error.strerror}): see to it that no other process uses it",
            stacklevel=3,
        )


def _claim(
    folder: Path, description: dict[str, Any], *, resume: bool, results: Sequence[str], last: str
) -> bool:
    try:
        inside = {path.name for path in folder.iterdir()}
        # A killed first write can leave the partial file alone, which claims nothing.
        if not inside - {f".{EXPERIMENT}.partial"}:
            write_json(folder / EXPERIMENT, description)
            return False
    except OSError as error:
        raise InputError(f"can't use the folder {folder}: {error.strerror}") from error
    if EXPERIMENT not in inside:
        raise InputError(f"the folder {folder} is not empty and holds no run: choose another one")
    there = read_json(folder / EXPERIMENT)
    if changed := differences(there, description):
        kinds = {"federation": "a single run", "study": "a study"}
        kind = next((word for key, word in kinds.items() if key in there), "a sweep")
        written = written_first(changed)
        raise InputError(
            f"the folder {folder} already holds another experiment ({kind}), which differs in "
            + "; ".join(written[:5])
            + ". Choose another folder (--out); nothing was changed."
        )
    state = "a finished" if last in inside else "an unfinished"
    if not resume:
        raise InputError(
            f"the folder {folder} already holds {state} run of this experiment: add --resume "
            f"(resume=True) to {'see its figures' if last in inside else 'go on'}, or choose "
            f"another folder"
        )
    if last in inside and (lost := [name for name in results if name not in inside]):
        raise InputError(
            f"the run in {folder} was finished, but {', '.join(lost)} is gone: put it back, or "
            f"choose another folder"
        )
    return last in inside


def machine() -> dict[str, Any]:
    """Versions and hardware that a result was made with."""
    device, processes = jax.devices()[0], group().size
    where = platform.machine() + (f", {processes} processes" if processes > 1 else "")
    return {
        "maxfl": version("maxfl"),
        "jax": jax.__version__,
        "python": platform.python_version(),
        "device": f"{len(jax.devices())} x {device.device_kind} ({where})",
    }


def _told(
    folder: Path, numbers: Sequence[int], values: Sequence[dict[str, Any]], config: Any
) -> list[Configuration]:
    """What trackers are told of each configuration."""
    settings = config if isinstance(config, list) else [config or {}] * len(numbers)
    return [
        Configuration(folder, number, dict(chosen), own)
        for number, chosen, own in zip(numbers, values, settings, strict=True)
    ]


def _check_room(folder: Path, simulation: Simulation, checkpoint: Checkpoint) -> None:
    """Refuse to begin what the disk can't hold."""
    if not checkpoint.exists:
        check_room(folder, simulation.least_folder_bytes, "the run", ELSEWHERE)


def _train(
    simulation: Simulation,
    checkpoint: Checkpoint,
    live: Live,
    known: SoloResults | None,
    following: Following,
) -> History:
    """All blocks, from the start or from the checkpoint."""
    saved = checkpoint.shared(simulation)
    if saved:
        prepared, state, blocks = saved
        done = int(blocks[-1].rounds[-1]) if blocks else 0
        live.report("resumed", done, simulation.training.rounds)
    else:
        state, blocks = simulation.start(), []
        prepared = simulation.prepare(live.report, known)
        lead(lambda: checkpoint.save_start(prepared, state))
    with following.opened():
        for block in blocks:
            live.measured(simulation.history(prepared, [block], state))
        for now, block in simulation.blocks(prepared, state, done=len(blocks)):
            state = simulation.fetch(now)
            blocks.append(block)
            # First told, then saved: whoever is cut off in between is told twice, never not at all.
            following.measured(simulation.history(prepared, [block], state))
            if first():
                checkpoint.save_block(len(blocks), block, state)
            live.report("rounds", int(block.rounds[-1]), simulation.training.rounds)
    return simulation.history(prepared, blocks, state)


def write_card(folder: Path) -> None:
    """From the other files; a finished run must not fail for want of it."""
    if (folder / CARD).is_file():
        return
    try:
        write_whole(folder / CARD, cards(read([folder])).encode())
    except Exception as error:
        warnings.warn(f"{folder / CARD} can't be written: {error}", stacklevel=3)


def _write_results(
    folder: Path,
    simulation: Simulation,
    history: History,
    numbers: Sequence[int],
    values: Sequence[dict[str, Any]],
    began: float,
) -> None:
    """Every file of a finished run; the summary last."""
    fed = simulation.shown
    seeds = np.broadcast_to(np.asarray(simulation.plan.seed), len(numbers))
    contents = (
        tables.history_table(history, numbers),
        tables.rounds_table(history, numbers),
        tables.clients_table(history, fed.names, fed.train_sizes, fed.test_sizes, numbers),
        tables.metrics_table(history, numbers, seeds.tolist(), values),
    )
    for name, table in zip(TABLES, contents, strict=True):
        write_whole(folder / name, tables.to_parquet(table))
    partition = tables.partition_table(fed)
    write_whole(folder / PARTITION, tables.to_parquet(partition))
    params = history.params
    if len(numbers) == 1:  # one model has its own shapes; several have a leading axis
        params = jax.tree.map(lambda a: a[0], params)
    names = {"configurations": ",".join(map(str, numbers))}
    write_whole(folder / MODEL, to_tensors(params, names))
    write_json(
        folder / SUMMARY,
        {
            **machine(),
            "seconds": round(time.monotonic() - began, 3),
            "rounds": simulation.training.rounds,
            "configurations": summarise(history, values, fed.about),
        },
    )
