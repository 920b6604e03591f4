"""Federations of 10,000 and of 1,000,000 clients, 1,000 a round: time of a round, and memory.

    python benchmarks/million.py FOLDER [--clients 10000 1000000] [--out FILE.json]

Generated data: 20 samples of 28 × 28 bytes a client, written to FOLDER once (15 GiB for a million)
and used again. Every case runs in a new process, so that no other case's memory counts: the largest
resident set, in which mapped pages of the data count while they are there; and the system forgets
the data's files before it, so that they are read from the disk even where they would fit
into memory. Writes benchmarks/results/million.json or the file given.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import maxfl
from maxfl.core.federation import Metadata
from maxfl.core.federation_files import open_federation, write_federation
from maxfl.engine.streaming.stream import stream
from maxfl.utils.files import write_json

FILE = Path(__file__).parent / "results/million.json"
SAMPLES, TEST, COHORT, ROUNDS, WARM = 12, 8, 1000, 12, 2
CASES = {
    "FedAvg": (maxfl.fedavg, maxfl.fixed(1.0, steps=10)),
    "MaxFL, requirement given": (maxfl.maxfl, maxfl.fixed(1.0, steps=10)),
    "MaxFL, requirement found when first sampled": (maxfl.maxfl, maxfl.solo(steps=10)),
}


def main() -> None:
    """Measure each case with each number of clients."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="for the data; used again")
    parser.add_argument("--clients", type=int, nargs="*", default=[10_000, 1_000_000])
    parser.add_argument("--out", type=Path, default=FILE)
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(measure(arguments.folder, arguments.clients[0], arguments.case)))
        return
    found: dict[str, Any] = {"machine": platform.machine(), "rounds": []}
    for case in CASES:
        for clients in arguments.clients:
            found["rounds"].append(in_process(arguments.folder, clients, case))
            print(found["rounds"][-1], flush=True)
            write_json(arguments.out, found)


def in_process(folder: Path, clients: int, case: str) -> dict[str, Any]:
    """Return what ``measure`` finds in a new process."""
    command = [sys.executable, __file__, str(folder), "--clients", str(clients), "--case", case]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    return {"case": case, "clients": clients} | json.loads(done.stdout.splitlines()[-1])


def measure(folder: Path, clients: int, case: str) -> dict[str, float]:
    """Return the median time of a round once all is compiled, and the largest resident set."""
    maxfl.use_all_cores()
    place = folder / f"clients-{clients}"
    if not (place / "federation.json").exists():
        write_federation(place, generated(clients), classes=10, metadata=Metadata("generated"))
    forget(place)
    ends: list[float] = []

    def progress(stage: str, done: int, total: int) -> None:  # noqa: ARG001
        if stage == "rounds":
            ends.append(time.perf_counter())

    algorithm, requirement = CASES[case]
    training = maxfl.Training(
        ROUNDS + WARM, COHORT, local_steps=10, batch_size=10, local_lr=0.05,
        evaluate_every=ROUNDS + WARM,
    )  # fmt: skip
    stream(
        open_federation(place), maxfl.mlp(784, (64, 30), 10), algorithm(), training,
        requirement=requirement, eval_clients=500, progress=progress,
    )  # fmt: skip
    times = np.diff(ends[WARM - 1 : -1])  # the last round is followed by an evaluation
    size = sum(path.stat().st_size for path in place.iterdir())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "ms": 1000 * float(np.median(times)), "memory_gib": peak / 2**30, "data_gib": size / 2**30
    }  # fmt: skip


def forget(folder: Path) -> None:
    """Have the system drop what it holds of a folder's files in memory (not all systems can)."""
    for path in folder.iterdir():
        with path.open("rb+") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def generated(clients: int) -> Iterator[tuple]:
    """Make clients with noisy prototypes of two or three of ten labels each."""
    rng = np.random.default_rng(0)
    prototypes = rng.integers(0, 256, (10, 28, 28), np.uint8)
    noise = rng.integers(0, 128, (4096, 28, 28), np.uint8)
    for _ in range(clients):
        labels = rng.integers(0, 10, 3)
        y = labels[rng.integers(0, 3, SAMPLES + TEST)].astype(np.int32)
        x = prototypes[y] // 2 + noise[rng.integers(0, 4096, SAMPLES + TEST)]
        yield (x[:SAMPLES], y[:SAMPLES]), (x[SAMPLES:], y[SAMPLES:])


if __name__ == "__main__":
    main()
