"""Metrics to Weights & Biases; ``WANDB_PROJECT``, ``WANDB_MODE=offline`` and so on are its own."""

import os
import uuid
from collections.abc import Mapping

import wandb

from maxfl.runs.trackers.base import Configuration


class WeightsAndBiases:
    """One configuration's run; a resumed one goes on in the run that it had."""

    def __init__(self, configuration: Configuration) -> None:
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "maxfl"),
            name=configuration.name,
            id=configuration.tracker_id("wandb", lambda: uuid.uuid4().hex),
            dir=str(configuration.folder),
            config=configuration.settings,
            resume="allow",
            reinit="create_new",
        )

    def log(self, round: int, metrics: Mapping[str, float]) -> None:
        """Add a point to every curve."""
        self._run.log(dict(metrics), step=round)

    def close(self, failed: bool) -> None:
        """End the run."""
        self._run.finish(exit_code=int(failed))


open_tracker = WeightsAndBiases
