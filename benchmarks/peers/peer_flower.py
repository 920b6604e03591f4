"""Flower's simulation on Ray, by its message API, with the NumPy loop's clients.

One core a client, so that Ray starts one worker on each. All clients are evaluated by themselves
(a message each), or by the server in one pass over all samples, which Flower calls centralised.
"""

import os
import sys
from pathlib import Path

os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}

import logging
import time
from collections.abc import Iterable
from importlib.metadata import version

import numpy as np
import numpy_model
from flower_client import EVALUATION, WEIGHT, client_app, record
from flwr.app import ArrayRecord, Context, Message
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from task import Floats, Outcome, Task, cores, each_block, main

# For Ray's workers: where the client is, and one BLAS thread each. This process has read it before,
# and so has threads on all cores.
os.environ |= {"PYTHONPATH": str(Path(__file__).parent), "OPENBLAS_NUM_THREADS": "1"}


class Strategy(FedAvg):
    """FedAvg that stores what each client replied to an evaluation."""

    evaluation: Floats

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> None:  # noqa: ARG002
        """Store the replies by client, float32[2, 2, K]."""
        for reply in replies:
            metrics = reply.content["metrics"]
            self.evaluation[:, :, int(metrics["client"])] = np.reshape(metrics[EVALUATION], (2, 2))


def run(task: Task, variant: str, device: str) -> Outcome:  # noqa: ARG001
    """Run all rounds."""
    logging.getLogger("flwr").setLevel(logging.ERROR)
    folder = str(Path(sys.argv[1]).resolve())
    by_clients = task.evaluated and variant == "clients evaluate"
    by_server = task.evaluated and not by_clients
    ready = task.with_scaled_inputs() if by_server else task
    server, times, found = ServerApp(), [], {}
    strategy = Strategy(
        fraction_train=task.cohort / task.clients, min_train_nodes=task.cohort,
        fraction_evaluate=1.0 if by_clients else 0.0,
        min_evaluate_nodes=task.clients if by_clients else 0,
        min_available_nodes=task.clients, weighted_by_key=WEIGHT,
    )  # fmt: skip
    strategy.evaluation = np.zeros((2, 2, task.clients), np.float32)

    def after_round(number: int, arrays: ArrayRecord) -> None:
        """Note the time; Flower calls this before the first round and after each."""
        if by_server and number:
            strategy.evaluation = _evaluate_all(ready, arrays.to_numpy_ndarrays())
        times.append(time.perf_counter())

    @server.main()
    def serve(grid: Grid, context: Context) -> None:  # noqa: ARG001
        start = record(task.start)
        rounds = task.all_rounds
        found["result"] = strategy.start(grid, start, num_rounds=rounds, evaluate_fn=after_round)

    run_simulation(
        server, client_app(folder), task.clients,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0},
                        "init_args": {"num_cpus": cores(), "include_dashboard": False,
                                      "log_to_driver": False, "logging_level": logging.ERROR}},
    )  # fmt: skip
    params = found["result"].arrays.to_numpy_ndarrays()
    return Outcome(each_block(task, times), params, strategy.evaluation if task.evaluated else None)


def _evaluate_all(task: Task, params: list[Floats]) -> Floats:
    """Evaluate every client, float32[2, 2, K], in one pass."""
    return np.stack([
        np.add.reduceat(np.stack(numpy_model.evaluate(task, params, s.x, s.y)), s.offsets[:-1], 1)
        / s.sizes
        for s in (task.train, task.test)
    ]).astype(np.float32)  # fmt: skip


if __name__ == "__main__":
    versions = {name: version(name) for name in ("flwr", "ray", "numpy")}
    main("flower", ("server evaluates", "clients evaluate"), run, versions)
