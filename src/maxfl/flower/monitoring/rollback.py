"""Go back to the model after an earlier round, which must be one of those that are kept.

Model, solver and rounds are then those after that round, and the run goes on from there when it is
resumed. Rounds that were begun stay counted: what they gave away, nobody can take back, so ε never
shrinks.
"""

from pathlib import Path
from typing import Any

from maxfl.core.metrics import ACCURACY, MetricInfo
from maxfl.flower.monitoring.checkpoints import (
    CHECKPOINT,
    kept_model,
    kept_rounds,
    read_model,
    reopen,
)
from maxfl.flower.run_folder import FederationFolder, RunInfo
from maxfl.runs.folder import RunFolder
from maxfl.utils.errors import InputError
from maxfl.utils.files import read_mapping, write_whole
from maxfl.utils.integrity import explain_damage
from maxfl.utils.paths import EXPERIMENT, METRICS, MODEL


def roll_back(path: Path, number: int) -> int:
    """Go back to after round ``number``; return how many rounds there were.

    Killed at any moment, the run stands where it was or after that round.
    """
    experiment = _federation(path)
    folder = RunFolder(path, (METRICS, MODEL))
    with folder.claim(experiment, resume=True) as finished:
        last = path / (MODEL if finished else CHECKPOINT)
        done = read_model(last).rounds if last.is_file() else 0
        _check_kept(path, number, done)
        content = kept_model(path, number).read_bytes()
        if read_model(kept_model(path, number)).rounds != number:
            raise InputError(f"{kept_model(path, number)} is not the model after round {number}")
        if finished:
            reopen(path)
        write_whole(path / CHECKPOINT, content)
        # Cuts off what is told of later rounds.
        with explain_damage(str(path / EXPERIMENT)):
            info = _info(experiment)
        progress = FederationFolder(folder, info, False, experiment["config"]).progress
        progress.stop(f"taken back from round {done} to round {number}")
    return done


def _federation(path: Path) -> dict[str, Any]:
    """Return the experiment of a federation's folder."""
    experiment = read_mapping(path / EXPERIMENT) if (path / EXPERIMENT).is_file() else {}
    if "flower" not in (experiment.get("config") or {}):
        raise InputError(f"{path} holds no federation on Flower: name the folder of MaxFL(folder=)")
    return experiment


def _check_kept(path: Path, number: int, done: int) -> None:
    """Refuse a round that the run is not beyond, or whose model is not kept."""
    kept = [kept for kept in kept_rounds(path) if kept < done]
    which = f"those after rounds {', '.join(map(str, kept))}" if kept else "none"
    if number not in kept:
        raise InputError(
            f"--to {number}: the run in {path} has done {done} rounds, and of the models before "
            f"that {which} are kept; MaxFL(keep=5) keeps those of the last five"
        )


def _info(experiment: dict[str, Any]) -> RunInfo:
    config = experiment["config"]
    metric = config["flower"].get("metric")
    return RunInfo(
        config["training"]["rounds"],
        experiment["title"],
        config["participation"]["rule"] != "everyone",
        ACCURACY if metric is None else MetricInfo(**metric),
    )
