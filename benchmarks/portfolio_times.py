"""What several models cost: time of a round, alone and for many configurations at once.

    python benchmarks/portfolio_times.py FILE.csv [--configurations 1 64]

MaxFL auto on Fashion-MNIST clusters, an MLP, ten clients of ten steps in a round. A client measures
K models and trains one, so a round may take K times what one model takes to be measured, and once
what it takes to be trained; what training takes is read off a round with twice the steps. Time it
alone on the machine.
"""

import argparse
import csv
import time
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from temperature_rule import clusters

import maxfl

MODELS = (1, 2, 3, 5)
STEPS, ROUNDS, REPEATS = 10, 100, 5
COLUMNS = ("device", "models", "configurations", "ms_per_round", "bound_ms", "ms_per_configuration")


class Times(NamedTuple):
    """Seconds of a round, and of its training."""

    whole: float
    training: float


def seconds(models: int, configurations: int, steps: int) -> float:
    """Return the seconds of a round of all configurations, evaluations left out."""
    federation = clusters(0)

    def run(rounds: int) -> float:
        training = maxfl.Training(
            rounds, 10, steps, 32, 0.05, 1.0, evaluate_every=rounds, checkpoint_every=rounds
        )
        seeds = np.arange(configurations) if configurations > 1 else 0
        simulation = maxfl.Simulation(
            federation, maxfl.mlp((64, 30)), maxfl.maxfl_auto(), training, seed=seeds,
            requirement=maxfl.fixed(0.1), portfolio=maxfl.portfolio(models),
        )  # fmt: skip
        prepared, state = simulation.prepare(), simulation.start()

        def once() -> float:
            begin = time.perf_counter()
            for now, _ in simulation.blocks(prepared, state):
                jax.block_until_ready(now.server.params)
            return time.perf_counter() - begin

        once()  # compiles
        return min(once() for _ in range(REPEATS))

    # Both have two evaluations, which the difference leaves out.
    return (run(3 * ROUNDS) - run(ROUNDS)) / (2 * ROUNDS)


def times(models: int, configurations: int) -> Times:
    """Return what a round takes, and what of it is training."""
    whole = seconds(models, configurations, STEPS)
    return Times(whole, seconds(models, configurations, 2 * STEPS) - whole)


def main() -> None:
    """Measure all sizes, and write their rows."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--configurations", nargs="+", type=int, default=[1])
    given = parser.parse_args()
    device = jax.devices()[0].device_kind
    with given.file.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        for configurations in given.configurations:
            one = times(1, configurations)
            for models in MODELS:
                whole = one.whole if models == 1 else seconds(models, configurations, STEPS)
                bound = models * (one.whole - one.training) + one.training
                numbers = (1e3 * whole, 1e3 * bound, 1e3 * whole / configurations)
                table.writerow(
                    [device, models, configurations, *(f"{value:.4g}" for value in numbers)]
                )
                file.flush()


if __name__ == "__main__":
    main()
