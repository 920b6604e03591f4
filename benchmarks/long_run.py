"""Whether a round takes as long at the end of a long run as at its beginning.

    python benchmarks/long_run.py [FILE.json]

Ten thousand rounds of a tiny federation in a folder, evaluated and saved after every one of them:
nearly all of the time is what the host does between blocks. Writes the seconds of every thousand
rounds to benchmarks/results/long_run.json or the file given.
"""

import json
import platform
import sys
import tempfile
import time
from pathlib import Path

import jax
import numpy as np

import maxfl

FILE = Path(__file__).parent / "results/long_run.json"
ROUNDS, EVERY = 10_000, 1_000


def main() -> None:
    """Run, print and write."""
    jax.config.update("jax_num_cpu_devices", 1)
    rng = np.random.default_rng(0)
    clients = [(rng.normal(size=(9, 4)), rng.integers(0, 3, 9)) for _ in range(8)]
    federation = maxfl.Federation.from_clients(clients, clients, classes=3)
    training = maxfl.Training(ROUNDS, 3, 3, 4, 0.05, 1.0, evaluate_every=1, checkpoint_every=1)
    simulation = maxfl.Simulation(
        federation, maxfl.mlp(4, (6,), 3), maxfl.fedavg(), training, requirement=maxfl.fixed(0.5)
    )
    seconds: list[float] = []
    last = time.perf_counter()

    def report(stage: str, done: int, _: int) -> None:
        nonlocal last
        if stage == "rounds" and done and done % EVERY == 0:
            now = time.perf_counter()
            seconds.append(round(now - last, 2))
            last = now
            print(f"rounds {done - EVERY + 1} to {done}: {seconds[-1]} s", flush=True)

    with tempfile.TemporaryDirectory() as place:
        maxfl.run(simulation, Path(place) / "run", progress=report)
    found = {
        "device": f"1 x {jax.devices()[0].device_kind} ({platform.machine()})",
        "jax": jax.__version__, "rounds": ROUNDS, "seconds": seconds,
    }  # fmt: skip
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    file.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
