"""Metrics to MLflow, wherever ``MLFLOW_TRACKING_URI`` and ``MLFLOW_EXPERIMENT_NAME`` point."""

import os
import time
from collections.abc import Mapping

from mlflow import MlflowClient
from mlflow.entities import Metric, Param

from maxfl.runs.trackers.base import Configuration
from maxfl.utils.dicts import flatten


class MLflow:
    """One configuration's run; a resumed one goes on in the run that it had."""

    def __init__(self, configuration: Configuration) -> None:
        self._client = MlflowClient()
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "maxfl")
        known = self._client.get_experiment_by_name(name)
        experiment = known.experiment_id if known else self._client.create_experiment(name)
        self._run = configuration.tracker_id(
            "mlflow", lambda: self._begin(experiment, configuration)
        )

    def _begin(self, experiment: str, configuration: Configuration) -> str:
        run: str = self._client.create_run(experiment, run_name=configuration.name).info.run_id
        params = [
            Param(key, str(value)[:500]) for key, value in flatten(configuration.settings).items()
        ]
        self._client.log_batch(run, params=params)
        return run

    def log(self, round: int, metrics: Mapping[str, float]) -> None:
        """Add a point to every curve."""
        now = int(1000 * time.time())
        points = [Metric(name, value, now, round) for name, value in metrics.items()]
        self._client.log_batch(self._run, metrics=points)

    def close(self, failed: bool) -> None:
        """End the run."""
        self._client.set_terminated(self._run, "FAILED" if failed else "FINISHED")


open_tracker = MLflow
