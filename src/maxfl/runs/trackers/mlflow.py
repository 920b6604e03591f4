"""Metrics to MLflow, wherever ``MLFLOW_TRACKING_URI`` and ``MLFLOW_EXPERIMENT_NAME`` point."""

import os
import time
from collections.abc import Mapping

from mlflow import MlflowClient
from mlflow.entities import Metric, Param

from maxfl.utils.dicts import flatten
from maxfl.runs.trackers import Configuration


class MLflow:
    """One configuration's run; a resumed one goes on in the run that it had."""

    def __init__(self, told: Configuration) -> None:
        self._client = MlflowClient()
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "maxfl")
        known = self._client.get_experiment_by_name(name)
        experiment = known.experiment_id if known else self._client.create_experiment(name)
        self._run = told.remembered("mlflow", lambda: self._begin(experiment, told))

    def _begin(self, experiment: str, told: Configuration) -> str:
        run: str = self._client.create_run(experiment, run_name=told.name).info.run_id
        params = [Param(key, str(value)[:500]) for key, value in flatten(told.settings).items()]
        self._client.log_batch(run, params=params)
        return run

    def log(self, round: int, metrics: Mapping[str, float]) -> None:
        """One point of every curve."""
        now = int(1000 * time.time())
        own = [Metric(name, value, now, round) for name, value in metrics.items()]
        self._client.log_batch(self._run, metrics=own)

    def close(self, failed: bool) -> None:
        """The run has ended."""
        self._client.set_terminated(self._run, "FAILED" if failed else "FINISHED")


open_tracker = MLflow
