"""Milliseconds per round and configuration of sweeps on one GPU, and memory, predicted and used.

    python benchmarks/sweeps.py [FILE.json]

The workloads `mlp` of the peers (the Fashion-MNIST MLP, 100 clients × 300 samples, 5 a round, 30
steps of 32) and `cnn` (the EMNIST CNN, 500 clients, 10 a round, 20 steps of 20) on made-up samples,
on which time does not depend. Configurations differ in their rate and seed, as in a search. A block
of rounds ends with one evaluation, which is measured alone and taken off. Every case runs in a
process of its own. Writes benchmarks/results/sweeps-gpu.json or the file given.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from blocks import measure_blocks
from origin import origin, write_rounds

import maxfl

FILE = Path(__file__).parent / "results/sweeps-gpu.json"


class Case(NamedTuple):
    """A model, a method, how many configurations, and rounds a block."""

    model: str
    method: str
    configurations: int
    rounds: int


CASES = (
    Case("mlp", "fedavg", 1, 1000), Case("mlp", "fedavg", 64, 250), Case("mlp", "fedavg", 1000, 50),
    Case("mlp", "maxfl", 1, 1000), Case("mlp", "maxfl", 64, 250), Case("mlp", "maxfl", 1000, 50),
    Case("cnn", "fedavg", 1, 400), Case("cnn", "fedavg", 64, 20),
    Case("cnn", "maxfl", 1, 400), Case("cnn", "maxfl", 64, 20),
)  # fmt: skip


def main() -> None:
    """Measure each case in a new process, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path, nargs="?")
    parser.add_argument("--case", help="measure this one, as JSON, in this process")
    given = parser.parse_args()
    if given.case:
        print(json.dumps(measure(Case(*json.loads(given.case)))))
        return
    rows: list[dict[str, Any]] = []
    for case in CASES:
        command = [sys.executable, __file__, "--case", json.dumps(case)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        printed = done.stdout.strip().splitlines()
        row = json.loads(printed[-1]) if not done.returncode else {"failed": done.returncode}
        rows.append(case._asdict() | row)
        print(rows[-1], flush=True)
        write_rounds(
            origin() | {"rounds": rows}, given.file or FILE, is_record=not given.file,
            is_last=len(rows) == len(CASES),
        )  # fmt: skip


def measure(case: Case) -> dict[str, Any]:
    """Measure time and memory of a block of rounds."""
    device = jax.devices()[0].device_kind
    return measure_blocks(simulation_of(case)) | {"device": device, "jax": jax.__version__}


def simulation_of(case: Case) -> maxfl.Simulation:
    """Return two blocks of rounds of all configurations."""
    clients, samples, cohort, steps, batch, classes = {
        "mlp": (100, 300, 5, 30, 32, 10), "cnn": (500, 60, 10, 20, 20, 62),
    }[case.model]  # fmt: skip
    model = {
        "mlp": lambda: maxfl.mlp(784, (64, 30), classes),
        "cnn": lambda: maxfl.cnn((28, 28), classes, kernel=3, conv_padding="valid", hidden=[128],
                                 dropout=0.5),
    }[case.model]()  # fmt: skip
    rng, size = np.random.default_rng(0), case.configurations

    def split(each: int) -> maxfl.Samples:
        total = clients * each
        images = rng.integers(0, 256, (total, 28, 28), np.uint8)
        offsets = np.arange(0, total + 1, each, dtype=np.int32)
        return maxfl.Samples(images, rng.integers(0, classes, total, np.int32), offsets)

    scaling = maxfl.InputScaling(np.float32(0), np.float32(1 / 255))
    federation = maxfl.Federation(split(samples), split(2), clients, classes, scaling)
    rates = np.geomspace(0.01, 0.1, size)
    training = maxfl.Training(
        2 * case.rounds, cohort, steps, batch, rates, 1.0, case.rounds, case.rounds
    )
    return maxfl.Simulation(
        federation,
        model,
        getattr(maxfl, case.method)(),
        training,
        requirement=maxfl.fixed(0.5, judge="training"),
        seed=np.arange(size),
    )


if __name__ == "__main__":
    main()
