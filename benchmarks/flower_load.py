"""Whether a server's memory grows: 200 simulated clients, 50 a round, 20 rounds, through Flower.

    pip install -e '.[flower]' 'flwr[simulation]'
    python benchmarks/flower_load.py

The strategy, its folder included, is in this process; clients are in Ray's.
"""

import argparse
import sys
import tempfile
import time
from importlib.resources import as_file, files
from pathlib import Path

import psutil
from flwr.app import Array, ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from maxfl.flower import MaxFL


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--cohort", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    with as_file(files("maxfl").joinpath("flower/app_template")) as ready:
        sys.path.insert(0, str(ready))
        from federation import client_app, task

        server, resident = ServerApp(), {}

        @server.main()
        def run(grid: Grid, context: Context) -> None:  # noqa: ARG001
            with tempfile.TemporaryDirectory() as folder:
                strategy = MaxFL(
                    folder=Path(folder) / "federation",
                    fraction_train=arguments.cohort / arguments.clients,
                    fraction_evaluate=arguments.cohort / arguments.clients,
                    min_available_nodes=arguments.clients,
                )

                def measure(number: int, arrays: ArrayRecord) -> None:  # noqa: ARG001
                    resident[number] = psutil.Process().memory_info().rss / 2**20

                start = ArrayRecord({n: Array(a) for n, a in task.init().items()})
                strategy.start(grid, start, num_rounds=arguments.rounds, evaluate_fn=measure)
                for entry in strategy.rounds:
                    print(f"round {entry.number}: {entry.counts}")

        began = time.monotonic()
        run_simulation(
            server, client_app.app, arguments.clients,
            backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0}},
        )  # fmt: skip
    print("RSS of the server's process after each round, MiB:")
    print(", ".join(f"{number}: {size:.0f}" for number, size in resident.items()))
    print(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
