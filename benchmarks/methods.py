"""Milliseconds per round of every method, beside FedAvg in the same run.

The workload `mlp` of the peers: the Fashion-MNIST MLP, 100 clients, 5 a round, 30 steps of 32.
Methods take turns, and the median of several turns counts. Also the server's side: optimisers,
robust rules and liars. Writes docs/methods-times.csv if asked with --keep; docs/methods.md quotes
it.
"""

import csv
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import maxfl
from maxfl.core import aggregators, attacks, server_optimizers
from maxfl.core.requirement import SoloResults

sys.path.append(str(Path(__file__).parent / "peers"))
from peer_maxfl import federation
from workloads import make

ROUNDS, TURNS = 50, 3
TABLE = Path(__file__).parent.parent / "docs/methods-times.csv"
GRADIENTS = {"scaffold-1": 2, "perfedavg": 2, "perfedavg-hf": 4, "pfedme": 5, "ditto": 2}
"""Gradients that a local step needs, where more than one."""
VARIANTS: dict[str, dict[str, Any]] = {
    "fedavg + adam": {"optimiser": server_optimizers.adam()},
    "fedavg + median": {"robust": aggregators.median()},
    "fedavg + trimmed mean": {"robust": aggregators.trimmed_mean()},
    "fedavg + krum": {"robust": aggregators.krum()},
    "fedavg + clipping": {"robust": aggregators.mean(clip=1.0)},
    "fedavg + 10 % liars": {"adversary": attacks.byzantine(0.1, inflation=20.0, noise=0.1)},
    "maxfl + 5 tuning steps": {"tuning": 5},
}


def main() -> None:
    maxfl.use_all_cores()
    task = make("mlp")
    fed, model = federation(task), maxfl.mlp(784, (64, 30), 10)
    known = SoloResults()

    def rounds(method: maxfl.Algorithm, **options: Any) -> Callable[[], None]:
        training = maxfl.Training(
            2 * ROUNDS, task.cohort, task.steps, task.batch, task.rate, 1.0, ROUNDS, ROUNDS
        )
        simulation = maxfl.Simulation(fed, model, method, training, **options)
        prepared, state = simulation.prepare(known=known), simulation.start()
        # The first block shows the untrained model; the second is rounds.
        return lambda: next(simulation.blocks(prepared, state, done=1)) and None

    works = {name: rounds(factory()) for name, factory in maxfl.ALGORITHMS.items()}
    for name, options in VARIANTS.items():
        works[name] = rounds(maxfl.ALGORITHMS[name.split()[0]](), **options)
    times = measure(works)
    base = times["fedavg"]
    if "--keep" in sys.argv:
        with TABLE.open("w", newline="", encoding="utf-8") as file:
            rows = ((n, f"{v:.1f}", f"{v / base:.2f}") for n, v in times.items())
            csv.writer(file).writerows([("method", "ms_a_round", "of_fedavg"), *rows])
    print(f"{len(jax.devices())} x {jax.devices()[0].device_kind}, JAX {jax.__version__}")
    print(f"{'':26}{'ms a round':>12}{'of FedAvg':>12}{'gradients a step':>20}")
    for name, value in times.items():
        print(f"{name:26}{value:>12.1f}{value / base:>12.2f}{GRADIENTS.get(name, 1):>20}")


def measure(works: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Median milliseconds per round of every work, taken in turns; the first turn compiles."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(TURNS + 1):
        for name, work in works.items():
            began = time.perf_counter()
            work()
            taken[name].append((time.perf_counter() - began) * 1000 / ROUNDS)
    return {name: float(np.median(own[1:])) for name, own in taken.items()}


if __name__ == "__main__":
    main()
