"""Run a simulation in a folder: saved after every block, resumable, never overwritten.

experiment.json      what is being run; written first, so that a folder is known by it
checkpoint/          while the run goes on
history.parquet      every evaluated round and client          (maxfl.tables)
rounds.parquet       every round and asked client
clients.parquet      every client: size, requirement, solo results
model.safetensors    the final global model
summary.json         the final figures; written last, so a folder with it is finished
"""

import json
import platform
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax

from maxfl import tables
from maxfl.checkpoint import Checkpoint, differences
from maxfl.errors import InputError
from maxfl.files import to_tensors, write_whole
from maxfl.history import History
from maxfl.requirement import Solo
from maxfl.simulation import Progress, Simulation
from maxfl.summary import summarise

EXPERIMENT, SUMMARY = "experiment.json", "summary.json"


def run(
    simulation: Simulation,
    folder: str | Path,
    *,
    resume: bool = False,
    progress: Progress | None = None,
    numbers: Sequence[int] | None = None,
    values: Sequence[dict[str, Any]] | None = None,
    known: dict[Any, Solo] | None = None,
    config: Any = None,
) -> Path:
    """Train in a folder and write the results there.

    Args:
        simulation: What to run.
        folder: A new or empty folder; with ``resume``, one that this very run was started in.
        resume: Take up an unfinished run from its last finished block.
        progress: Called with (stage, done, total).
        numbers: The configurations' numbers in the tables; by default 0, 1, ...
        values: What is special about each configuration, for the summary.
        known: Solo results shared between runs; see ``Simulation.prepare``.
        config: The settings that the simulation was built from, to be kept in the folder.

    Returns:
        The folder.
    """
    folder = Path(folder)
    description = simulation.describe()
    if config is not None:  # first, so that what differs is named as the user wrote it
        description = {"config": config, **description}
    checkpoint = Checkpoint(folder / "checkpoint", description)
    if claim(folder, description, resume=resume):
        checkpoint.remove()  # in case the run was killed just before it did
        return folder
    began = time.monotonic()
    history = _train(simulation, checkpoint, progress, known)
    count = simulation.configurations
    numbers = range(count) if numbers is None else numbers
    values = [{}] * count if values is None else values
    _write_results(folder, simulation, history, numbers)
    write_json(
        folder / SUMMARY,
        {
            **machine(),
            "seconds": round(time.monotonic() - began, 3),
            "rounds": simulation.training.rounds,
            "configurations": summarise(history, values),
        },
    )
    checkpoint.remove()
    return folder


def claim(folder: Path, description: dict[str, Any], *, resume: bool) -> bool:
    """Make the folder this experiment's, or refuse. True if it is already finished."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        inside = {path.name for path in folder.iterdir()}
        # A killed first write can leave the partial file alone, which claims nothing.
        if not inside - {f".{EXPERIMENT}.partial"}:
            write_json(folder / EXPERIMENT, description)
            return False
    except OSError as error:
        raise InputError(f"can't use the folder {folder}: {error.strerror}") from error
    if EXPERIMENT not in inside:
        raise InputError(f"the folder {folder} is not empty and holds no run: choose another one")
    if changed := differences(read_json(folder / EXPERIMENT), description):
        raise InputError(
            f"the folder {folder} already holds another experiment, which differs in "
            + "; ".join(changed[:5])
            + ". Choose another folder; nothing was changed."
        )
    state = "a finished" if SUMMARY in inside else "an unfinished"
    if not resume:
        raise InputError(
            f"the folder {folder} already holds {state} run of this experiment: "
            f"resume it with --resume (resume=True), or choose another folder"
        )
    return SUMMARY in inside


def machine() -> dict[str, Any]:
    """Versions and hardware that a result was made with."""
    device = jax.devices()[0]
    return {
        "maxfl": version("maxfl"),
        "jax": jax.__version__,
        "python": platform.python_version(),
        "device": f"{len(jax.devices())} x {device.device_kind} ({platform.machine()})",
    }


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file whole."""
    write_whole(path, (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """Read a JSON file, or say that it can't be read."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{path} can't be read: {error}. Choose another folder.") from error


def _train(
    simulation: Simulation,
    checkpoint: Checkpoint,
    progress: Progress | None,
    known: dict[Any, Solo] | None,
) -> History:
    """All blocks, from the start or from the checkpoint."""
    if checkpoint.exists:
        prepared, state, blocks = checkpoint.load(simulation)
    else:
        prepared, blocks = simulation.prepare(progress, known), []
        state = simulation.start()
        checkpoint.save_start(prepared, state)
    for now, block in simulation.blocks(prepared, state, done=len(blocks)):
        state = now
        blocks.append(block)
        checkpoint.save_block(len(blocks), block, state)
        if progress:
            progress("rounds", int(block.rounds[-1]), simulation.training.rounds)
    return simulation.history(prepared, blocks, state)


def _write_results(
    folder: Path, simulation: Simulation, history: History, numbers: Sequence[int]
) -> None:
    for name, table in (
        ("history", tables.history_table(history, numbers)),
        ("rounds", tables.rounds_table(history, numbers)),
        ("clients", tables.clients_table(history, simulation.federation, numbers)),
    ):
        write_whole(folder / f"{name}.parquet", tables.to_parquet(table))
    params = history.params
    if len(numbers) == 1:  # one model has its own shapes; several have a leading axis
        params = jax.tree.map(lambda a: a[0], params)
    names = {"configurations": ",".join(map(str, numbers))}
    write_whole(folder / "model.safetensors", to_tensors(params, names))
