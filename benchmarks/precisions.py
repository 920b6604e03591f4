"""What the precision of products does to the time of rounds on a GPU, and to GM-Appeal.

    python benchmarks/precisions.py [FILE.json]

The workload `mlp` of the peers: the Fashion-MNIST MLP, 100 clients × 300 samples, 5 a round, 30
steps of 32, for 1, 64 and 1000 configurations at once; a wide model; and GM-Appeal of annealed
MaxFL on 60 clients with 200 real images each, in five clusters. Writes
benchmarks/results/precisions.json or the file given, which docs/performance.md quotes.
"""

import json
import platform
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
from blocks import measure_blocks

import maxfl
from maxfl.data.assemble import assemble
from maxfl.data.fashion_mnist import fashion_mnist_12k
from maxfl.data.partition import clusters

sys.path.append(str(Path(__file__).parent / "peers"))
from peer_maxfl import federation
from task import Task
from workloads import make

FILE = Path(__file__).parent / "results/precisions.json"
SIZES = (1, 64, 1000)
WIDE, WIDE_SIZES = (1024, 1024), (1, 32)
PRECISIONS = ("platform", "float32", "bfloat16")
ROUNDS, SEEDS = 100, 32


def main() -> None:
    """Measure, print and write."""
    task = make("mlp")
    fed, clustered, mlp = federation(task), clustered_clients(), maxfl.mlp(784, (64, 30), 10)
    found: dict[str, Any] = {
        "device": jax.devices()[0].device_kind, "machine": platform.machine(),
        "jax": jax.__version__, "rounds": [], "wide": [], "appeal": [],
    }  # fmt: skip
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE

    def write_row(table: str, row: dict[str, Any]) -> None:
        print(row, flush=True)
        found[table].append(row)
        file.write_text(json.dumps(found, indent=1) + "\n")

    for precision in PRECISIONS:
        for size in SIZES:
            case = {"precision": precision, "configurations": size}
            model = maxfl.with_precision(mlp, precision)  # type: ignore[arg-type]
            write_row("rounds", case | timed(fed, task, model, size, ROUNDS))
    for precision in PRECISIONS:
        for size in WIDE_SIZES:
            case = {"precision": precision, "hidden": WIDE, "configurations": size}
            model = maxfl.with_precision(maxfl.mlp(784, WIDE, 10), precision)  # type: ignore[arg-type]
            write_row("wide", case | timed(fed, task, model, size, 20))
    for precision in PRECISIONS:
        model = maxfl.with_precision(mlp, precision)  # type: ignore[arg-type]
        write_row("appeal", {"precision": precision} | appeal(clustered, model))


def timed(fed: Any, task: Task, model: Any, size: int, rounds: int) -> dict[str, Any]:
    """Measure rounds of FedAvg with some configurations."""
    # Configurations differ in their rate, as in a search.
    rates = np.geomspace(0.01, 0.1, size)
    training = maxfl.Training(
        2 * rounds, task.cohort, task.steps, task.batch, rates, 1.0, rounds, rounds
    )
    return measure_blocks(
        maxfl.Simulation(
            fed,
            model,
            maxfl.fedavg(),
            training,
            requirement=maxfl.fixed(0.5, judge="training"),
            seed=np.arange(size),
        )
    )


def clustered_clients() -> maxfl.Federation:
    """Make clients that can't all be satisfied, so that GM-Appeal is neither 0 nor 1."""
    data, rng = fashion_mnist_12k(), np.random.default_rng(0)
    return assemble(data, clusters(data.y, 60, 200, 5, rng), rng)


def appeal(fed: Any, model: Any) -> dict[str, Any]:
    """Measure annealed MaxFL after 200 rounds: means and standard deviations over seeds."""
    training = maxfl.Training(200, 5, 10, 32, 0.005, 10.0, 200, 200)
    history = maxfl.simulate(
        fed, model, maxfl.maxfl_annealed(rounds=200), training, seed=np.arange(SEEDS)
    )
    last, accuracy = history.gm_appeal()[:, -1], history.test_metric()[:, -1]
    return {
        "seeds": SEEDS,
        "gm_appeal": [float(last.mean()), float(last.std(ddof=1))],
        "test_accuracy": [float(accuracy.mean()), float(accuracy.std(ddof=1))],
        "each_gm_appeal": [float(v) for v in last],
    }


if __name__ == "__main__":
    main()
