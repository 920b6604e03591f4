"""Milliseconds per round of every method, beside FedAvg in the same run.

The workload `mlp` of the peers: the Fashion-MNIST MLP, 100 clients, 5 a round, 30 steps of 32.
Methods take turns, and the median of several turns counts. Also the server's side: optimizers,
aggregators and Byzantine clients. Writes docs/methods-times.csv if asked with --write;
docs/methods.md quotes it.
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
from maxfl.engine.solo import SoloCache

sys.path.append(str(Path(__file__).parent / "peers"))
from peer_maxfl import federation
from workloads import make

ROUNDS, TURNS = 50, 3
TABLE = Path(__file__).parent.parent / "docs/methods-times.csv"
GRADIENTS = {"scaffold-1": 2, "perfedavg": 2, "perfedavg-hf": 4, "pfedme": 5, "ditto": 2}
"""Gradients that a local step needs, where more than one."""
VARIANTS: dict[str, dict[str, Any]] = {
    "fedavg + adam": {"server_optimizer": server_optimizers.adam()},
    "fedavg + median": {"aggregator": aggregators.median()},
    "fedavg + trimmed mean": {"aggregator": aggregators.trimmed_mean()},
    "fedavg + krum": {"aggregator": aggregators.krum()},
    "fedavg + clipping": {"aggregator": aggregators.mean(clip_norm=1.0)},
    "fedavg + 10 % Byzantine": {
        "attack": attacks.byzantine(0.1, loss_inflation=20.0, noise_std=0.1)
    },
    "maxfl + 5 fine-tuning steps": {"finetune_steps": 5},
}


def main() -> None:
    maxfl.use_all_cores()
    task = make("mlp")
    fed, model = federation(task), maxfl.mlp(784, (64, 30), 10)
    solo_cache = SoloCache()

    def rounds(algorithm: maxfl.Algorithm, **options: Any) -> Callable[[], None]:
        training = maxfl.Training(
            2 * ROUNDS, task.cohort, task.steps, task.batch, task.rate, 1.0, ROUNDS, ROUNDS
        )
        simulation = maxfl.Simulation(fed, model, algorithm, training, **options)
        prepared, state = simulation.prepare(solo_cache=solo_cache), simulation.start()
        # The first block shows the untrained model; the second is rounds.
        return lambda: next(simulation.blocks(prepared, state, done=1)) and None

    works = {name: rounds(factory()) for name, factory in maxfl.ALGORITHMS.items()}
    for name, options in VARIANTS.items():
        works[name] = rounds(maxfl.ALGORITHMS[name.split()[0]](), **options)
    times = measure(works)
    base = times["fedavg"]
    if "--write" in sys.argv:
        with TABLE.open("w", newline="", encoding="utf-8") as file:
            rows = ((n, f"{v:.1f}", f"{v / base:.2f}") for n, v in times.items())
            csv.writer(file).writerows([("method", "ms_a_round", "of_fedavg"), *rows])
    print(f"{len(jax.devices())} x {jax.devices()[0].device_kind}, JAX {jax.__version__}")
    print(f"{'':26}{'ms a round':>12}{'of FedAvg':>12}{'gradients a step':>20}")
    for name, value in times.items():
        print(f"{name:26}{value:>12.1f}{value / base:>12.2f}{GRADIENTS.get(name, 1):>20}")


def measure(works: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Return median milliseconds per round of every work, in turns; the first turn compiles."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(TURNS + 1):
        for name, work in works.items():
            began = time.perf_counter()
            work()
            taken[name].append((time.perf_counter() - began) * 1000 / ROUNDS)
    return {name: float(np.median(times[1:])) for name, times in taken.items()}


if __name__ == "__main__":
    main()
