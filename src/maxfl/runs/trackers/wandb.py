"""Metrics to Weights & Biases; ``WANDB_PROJECT``, ``WANDB_MODE=offline`` and so on are its own."""

import os
import uuid
from collections.abc import Mapping

import wandb

from maxfl.runs.trackers import Configuration


class WeightsAndBiases:
    """One configuration's run; a resumed one goes on in the run that it had."""

    def __init__(self, told: Configuration) -> None:
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "maxfl"),
            name=told.name,
            id=told.remembered("wandb", lambda: uuid.uuid4().hex),
            dir=str(told.folder),
            config=told.settings,
            resume="allow",
            reinit="create_new",
        )

    def log(self, round: int, metrics: Mapping[str, float]) -> None:
        """One point of every curve."""
        self._run.log(dict(metrics), step=round)

    def close(self, failed: bool) -> None:
        """The run has ended."""
        self._run.finish(exit_code=int(failed))


open_tracker = WeightsAndBiases
