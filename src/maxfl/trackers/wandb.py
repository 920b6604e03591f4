"""Metrics to Weights & Biases; ``WANDB_PROJECT``, ``WANDB_MODE=offline`` and so on are its own."""

import hashlib
import os
from collections.abc import Mapping

import wandb

from maxfl.trackers import Configuration


class WeightsAndBiases:
    """One configuration's run; a resumed one goes on in the run that it had."""

    def __init__(self, told: Configuration) -> None:
        place = f"{told.folder.resolve()} {told.number}"
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "maxfl"),
            name=told.name,
            id=hashlib.sha256(place.encode()).hexdigest()[:16],
            dir=str(told.folder),
            config=told.settings,
            resume="allow",
            reinit="create_new",
        )

    def log(self, round: int, metrics: Mapping[str, float]) -> None:
        """One point of every curve."""
        self._run.log(dict(metrics), step=round)

    def close(self) -> None:
        """The run has ended."""
        self._run.finish()


open_tracker = WeightsAndBiases
