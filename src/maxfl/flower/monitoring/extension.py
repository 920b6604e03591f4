"""Go on with a run beyond the rounds that it was begun with.

The schedule of η_g stays over the rounds that were planned first: in those that are added, η_g is
that of the last one. So a run that is extended takes the steps of one that was planned longer, with
its schedule over as many rounds.
"""

from pathlib import Path
from typing import Any

from maxfl.flower.config import StrategyConfig
from maxfl.flower.monitoring.checkpoints import reopen
from maxfl.utils.files import read_mapping, write_json
from maxfl.utils.paths import EXPERIMENT


def settings_begun(folder: Path) -> dict[str, Any]:
    """Return the settings that the run in a folder was begun with; none if there is no run."""
    path = folder / EXPERIMENT
    return dict(read_mapping(path).get("config") or {}) if path.is_file() else {}


def as_begun(config: StrategyConfig, folder: Path) -> StrategyConfig:
    """Return the settings with those that were left open as the run in a folder has them."""
    begun = settings_begun(folder)
    schedule, horizon = config.chosen_schedule, begun.get("schedule", {}).get("server_rounds")
    if schedule.hparams.rounds is None and horizon is not None:
        hparams = schedule.hparams._replace(rounds=int(horizon))
        config = config._replace(server_schedule=schedule._replace(hparams=hparams))
    if config.min_participants is None:  # its default was 0 once
        least = begun.get("participation", {}).get("min_participants")
        config = config._replace(min_participants=least)
    return config


def with_rounds_begun(settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return settings with the number of rounds of the run in a folder, if that is smaller."""
    training = settings["training"]
    rounds = settings_begun(folder).get("training", {}).get("rounds", training["rounds"])
    return settings | {"training": training | {"rounds": min(rounds, training["rounds"])}}


def extend(folder: Path, settings: dict[str, Any], *, finished: bool) -> None:
    """Let the run in a folder go on by other settings; killed at any moment, by the old or these.

    What is noted last is how many rounds there are: until then the run can be finished as it was.
    """
    if finished:
        reopen(folder)
    write_json(folder / EXPERIMENT, read_mapping(folder / EXPERIMENT) | {"config": settings})
