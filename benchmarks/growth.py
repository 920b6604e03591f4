"""How the time of a round grows with clients, cohort, steps, model and configurations.

    python benchmarks/growth.py [FILE.json]

One thing at a time is changed from the Fashion-MNIST MLP's round: 100 clients × 300 samples, 5 a
round, 30 steps of 32, 64 and 30 hidden units. Samples are random bytes of that shape, on which time
does not depend. Writes benchmarks/results/growth.json or the file given.
"""

import json
import platform
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import maxfl
from maxfl.core.requirement import Solo
from maxfl.engine.simulation import Prepared

FILE = Path(__file__).parent / "results/growth.json"
SAMPLES, TEST, TURNS, SECONDS = 300, 20, 5, 1.0


class Round(NamedTuple):
    """What a round's time may depend on."""

    clients: int = 100
    cohort: int = 5
    steps: int = 30
    hidden: int = 64
    configurations: int = 1
    evaluated: bool = False


VARIED = {
    "clients": (100, 1000, 5000),
    "cohort": (5, 20, 80),
    "steps": (10, 30, 90),
    "hidden": (64, 256, 1024),
    "configurations": (1, 4, 16),
}


def main() -> None:
    """Measure each, print and write."""
    maxfl.use_all_cores()
    devices = jax.devices()
    rounds = [
        Round()._replace(**{name: value}, evaluated=evaluated)
        for name, values in VARIED.items()
        for value in values
        for evaluated in ((False, True) if name == "clients" else (False,))
    ]
    found: dict[str, Any] = {
        "device": f"{len(devices)} x {devices[0].device_kind} ({platform.machine()})",
        "jax": jax.__version__, "rounds": [],
    }  # fmt: skip
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    for own in dict.fromkeys(rounds):
        found["rounds"].append(own._asdict() | {"ms": milliseconds(own)})
        print(found["rounds"][-1], flush=True)
        file.write_text(json.dumps(found, indent=1) + "\n")


def milliseconds(own: Round) -> float:
    """Median time of a round of all configurations; evaluations are taken off, or left in.

    As many rounds make a block as last long enough.
    """
    once = _seconds(own, 1)
    count = max(1, min(100, int(SECONDS / max(once, 1e-3))))
    return 1000 * _seconds(own, count) / count


def _seconds(own: Round, count: int) -> float:
    """Seconds of so many rounds, without what compiling took."""
    every = 1 if own.evaluated else count
    training = maxfl.Training(
        2 * count, own.cohort, own.steps, 32, np.linspace(0.01, 0.1, own.configurations), 1.0,
        every, count,
    )  # fmt: skip
    simulation = maxfl.Simulation(
        _federation(own.clients), maxfl.mlp(784, (own.hidden, 30), 10), maxfl.fedavg(), training,
        requirement=maxfl.fixed(0.5),
    )  # fmt: skip
    alone = Solo(*np.zeros((3, own.configurations, own.clients), np.float32))
    prepared, state = Prepared(alone, simulation.demand(alone)), simulation.start()

    def median_of_block(number: int) -> float:
        taken = []
        for _ in range(TURNS + 1):  # the first compiles
            began = time.perf_counter()
            next(simulation.blocks(prepared, state, done=number))
            taken.append(time.perf_counter() - began)
        return float(np.median(taken[1:]))

    # The block before the rounds is nothing but an evaluation, as there is at a block's end.
    return median_of_block(1) - (0.0 if own.evaluated else median_of_block(0))


def _federation(clients: int) -> maxfl.Federation:
    rng = np.random.default_rng(0)

    def samples(each: int) -> maxfl.Samples:
        total = clients * each
        return maxfl.Samples(
            rng.integers(0, 256, (total, 784), np.uint8),
            rng.integers(0, 10, total, np.int32),
            np.arange(0, total + 1, each, dtype=np.int32),
        )

    decoding = maxfl.Decoding(np.float32(0), np.float32(1 / 255))
    return maxfl.Federation(samples(SAMPLES), samples(TEST), clients, 10, decoding)


if __name__ == "__main__":
    main()
