"""Metrics to TensorBoard: event files in the run's folder. ``tensorboard --logdir runs``."""

from collections.abc import Mapping

from tensorboard.summary import Writer

from maxfl.runs.trackers.base import Configuration


class TensorBoard:
    """One configuration's event file."""

    def __init__(self, configuration: Configuration) -> None:
        self._writer = Writer(
            str(configuration.folder / "tensorboard" / f"{configuration.number:04d}")
        )

    def log(self, round: int, metrics: Mapping[str, float]) -> None:
        """Add a point to every curve."""
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, step=round)
        self._writer.flush()

    def close(self, failed: bool) -> None:  # noqa: ARG002
        """Close the file."""
        self._writer.close()


open_tracker = TensorBoard
