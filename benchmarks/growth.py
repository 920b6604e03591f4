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
from maxfl.core.requirements.requirement import Solo
from maxfl.engine.trainer import Prepared

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
    for case in dict.fromkeys(rounds):
        found["rounds"].append(case._asdict() | {"ms": milliseconds(case)})
        print(found["rounds"][-1], flush=True)
        file.write_text(json.dumps(found, indent=1) + "\n")


def milliseconds(case: Round) -> float:
    """Return the median time of a round of all configurations, without evaluations or with them.

    As many rounds make a block as last long enough.
    """
    once = _seconds(case, 1)
    count = max(1, min(100, int(SECONDS / max(once, 1e-3))))
    return 1000 * _seconds(case, count) / count


def _seconds(case: Round, count: int) -> float:
    """Return the seconds of some rounds, without what compiling took."""
    every = 1 if case.evaluated else count
    training = maxfl.Training(
        2 * count, case.cohort, case.steps, 32, np.linspace(0.01, 0.1, case.configurations), 1.0,
        every, count,
    )  # fmt: skip
    simulation = maxfl.Simulation(
        _federation(case.clients), maxfl.mlp(784, (case.hidden, 30), 10), maxfl.fedavg(), training,
        requirement=maxfl.fixed(0.5, judge="training"),
    )  # fmt: skip
    nothing = np.zeros((case.configurations, case.clients), np.float32)
    solo = Solo(nothing, nothing, (nothing,))
    prepared, state = Prepared(solo, simulation.requirements(solo)), simulation.start()

    def median_of_block(number: int) -> float:
        taken = []
        for _ in range(TURNS + 1):  # the first compiles
            began = time.perf_counter()
            next(simulation.blocks(prepared, state, done=number))
            taken.append(time.perf_counter() - began)
        return float(np.median(taken[1:]))

    # The block before the rounds is nothing but an evaluation, as there is at a block's end.
    return median_of_block(1) - (0.0 if case.evaluated else median_of_block(0))


def _federation(clients: int) -> maxfl.Federation:
    rng = np.random.default_rng(0)

    def samples(each: int) -> maxfl.Samples:
        total = clients * each
        return maxfl.Samples(
            rng.integers(0, 256, (total, 784), np.uint8),
            rng.integers(0, 10, total, np.int32),
            np.arange(0, total + 1, each, dtype=np.int32),
        )

    input_scaling = maxfl.InputScaling(np.float32(0), np.float32(1 / 255))
    return maxfl.Federation(samples(SAMPLES), samples(TEST), clients, 10, input_scaling)


if __name__ == "__main__":
    main()
