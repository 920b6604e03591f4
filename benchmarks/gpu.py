"""Milliseconds per round and configuration on one accelerator, for 1, 64 and 1000 at once.

    python benchmarks/gpu.py [FILE.json]

The Fashion-MNIST MLP, 100 clients × 300 samples, 5 a round, 30 steps of 32, FedAvg and MaxFL, in
every precision; memory as predicted and as used; and what a precision does to GM-Appeal (MaxFL with
opt-out on 60 clients with 200 real images each, labels by Dirichlet(0.5)). Writes
benchmarks/results/gpu.json or the file given; docs/performance.md quotes it.
"""

import json
import platform
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rounds import BATCH, COHORT, STEPS, workload

import maxfl
from maxfl.data.assemble import assemble
from maxfl.data.fashion_mnist import fashion_mnist_12k
from maxfl.data.partition import dirichlet

FILE = Path(__file__).parent / "results/gpu.json"
SIZES = (1, 64, 1000)
ROUNDS, TURNS = 100, 3
SEEDS = 32
PRECISIONS = ("platform", "float32", "bfloat16")
METHODS = {"FedAvg": maxfl.fedavg(), "MaxFL": maxfl.maxfl()}


def main() -> None:
    """Measure, print and write."""
    device, fed, skewed = jax.devices()[0], workload(), skewed_clients()
    found: dict[str, Any] = {
        "device": device.device_kind, "jax": jax.__version__, "machine": platform.machine(),
        "rounds": [], "appeal": [],
    }  # fmt: skip
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    for precision in PRECISIONS:
        model = maxfl.with_precision(maxfl.mlp(784, (64, 30), 10), precision)
        for name, method in METHODS.items():
            for size in SIZES:
                row = {"precision": precision, "method": name, "configurations": size}
                found["rounds"].append(row | timed(fed, model, method, size))
                print(found["rounds"][-1], flush=True)
                file.write_text(json.dumps(found, indent=1))
        found["appeal"].append({"precision": precision} | appeal(skewed, model))
        print(found["appeal"][-1], flush=True)
        file.write_text(json.dumps(found, indent=1))


def timed(fed: Any, model: Any, method: Any, size: int) -> dict[str, Any]:
    """Time and memory of a block of rounds of so many configurations, and of its compilation."""
    # Configurations differ in their rate, as in a search.
    rates = np.geomspace(0.01, 0.1, size)
    training = maxfl.Training(2 * ROUNDS, COHORT, STEPS, BATCH, rates, 1.0, ROUNDS, ROUNDS)
    simulation = maxfl.Simulation(
        fed, model, method, training, requirement=maxfl.fixed(0.5), seed=np.arange(size)
    )
    prepared, state = simulation.prepare(), simulation.start()

    def block() -> float:
        began = time.perf_counter()
        next(simulation.blocks(prepared, state, done=1))
        return time.perf_counter() - began

    first, seconds = block(), [block() for _ in range(TURNS)]
    stats = jax.devices()[0].memory_stats() or {}
    return {
        "ms_a_round": 1000 * float(np.median(seconds)) / ROUNDS / size,
        "first_block_s": first,
        "at_once": simulation.at_once,
        "predicted_gib": simulation.predicted_bytes / 2**30,
        "peak_gib": stats.get("peak_bytes_in_use", 0) / 2**30,
    }


def skewed_clients() -> maxfl.Federation:
    """Clients that want different models, so that GM-Appeal is neither 0 nor 1."""
    data, rng = fashion_mnist_12k(), np.random.default_rng(0)
    return assemble(data, dirichlet(data.y, 60, 200, 0.5, rng), rng)


def appeal(fed: Any, model: Any) -> dict[str, Any]:
    """GM-Appeal and accuracy of MaxFL after 200 rounds with opt-out, over seeds."""
    training = maxfl.Training(200, COHORT, STEPS, BATCH, 0.05, 1.0, 200, 200)
    history = maxfl.simulate(
        fed, model, maxfl.maxfl(), training, seed=np.arange(SEEDS),
        participation=maxfl.opt_out(start=10),
    )  # fmt: skip
    last, accuracy = history.gm_appeal()[:, -1], history.accuracy()[:, -1]
    return {
        "seeds": SEEDS,
        "gm_appeal": [float(last.mean()), float(last.std(ddof=1))],
        "test_accuracy": [float(accuracy.mean()), float(accuracy.std(ddof=1))],
    }


if __name__ == "__main__":
    main()
