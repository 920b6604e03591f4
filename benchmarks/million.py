"""Federations of 10,000 and of 1,000,000 clients, 1,000 a round: time of a round, and memory.

Generated data: 20 samples of 28 × 28 bytes a client, written to disk once (16 GB for a million).

    python benchmarks/million.py FOLDER [--clients 10000 1000000]

Every size runs in a process of its own, so that its memory is its own. Memory is the largest
resident set; mapped pages of the data count while they are there.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

SAMPLES, TEST, COHORT, ROUNDS, WARM = 12, 8, 1000, 12, 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="for the data; kept, and used again")
    parser.add_argument("--clients", type=int, nargs="*", default=[10_000, 1_000_000])
    parser.add_argument("--method", default="fedavg")
    parser.add_argument(
        "--loss", type=float,
        help="a fixed requirement; without it clients train alone when first asked, so that the "
        "rounds of a small federation get faster",
    )  # fmt: skip
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    wanted = parser.parse_args()
    if wanted.one:
        print(json.dumps(measure(wanted.folder, wanted.one, wanted.method, wanted.loss)))
        return
    base = 0.0
    for clients in wanted.clients:
        command = [sys.executable, __file__, str(wanted.folder), "--one", str(clients),
                   "--method", wanted.method]  # fmt: skip
        command += [] if wanted.loss is None else ["--loss", str(wanted.loss)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr)
        found = json.loads(done.stdout.splitlines()[-1])
        base = base or found["round_ms"]
        print(f"{clients:>9,} clients: {found['round_ms']:.0f} ms a round "
              f"({found['round_ms'] / base:.2f} of the first), {found['gib']:.2f} GiB at most; "
              f"data {found['data_gib']:.1f} GiB; {wanted.method}", flush=True)  # fmt: skip


def measure(folder: Path, clients: int, method: str, loss: float | None) -> dict[str, float]:
    import maxfl
    from maxfl.disk import open_federation, write_federation
    from maxfl.federation import About
    from maxfl.stream import stream

    maxfl.use_all_cores()
    place = folder / f"clients-{clients}"
    if not (place / "federation.json").exists():
        write_federation(place, generated(clients), classes=10, about=About("generated"))
    federation = open_federation(place)
    ends: list[float] = []

    def progress(stage: str, done: int, total: int) -> None:  # noqa: ARG001
        if stage == "rounds":
            ends.append(time.perf_counter())

    training = maxfl.Training(
        ROUNDS + WARM, COHORT, local_steps=10, batch_size=10, local_lr=0.05,
        evaluate_every=ROUNDS + WARM,
    )  # fmt: skip
    stream(
        federation, maxfl.mlp(784, (64, 30), 10), maxfl.ALGORITHMS[method](), training,
        requirement=maxfl.solo(steps=10) if loss is None else maxfl.fixed(loss, steps=10),
        panel=500, progress=progress,
    )  # fmt: skip
    times = np.diff(ends[WARM - 1 : -1])  # the last round is followed by an evaluation
    size = sum(path.stat().st_size for path in place.iterdir())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"round_ms": float(np.median(times)) * 1000, "gib": peak / 2**30,
            "data_gib": size / 2**30, "cores": os.cpu_count() or 0}  # fmt: skip


def generated(clients: int) -> Iterator[tuple]:
    """Noisy prototypes of ten labels, two or three of them at each client."""
    rng = np.random.default_rng(0)
    prototypes = rng.integers(0, 256, (10, 28, 28), np.uint8)
    noise = rng.integers(0, 128, (4096, 28, 28), np.uint8)
    for _ in range(clients):
        own = rng.integers(0, 10, 3)
        y = own[rng.integers(0, 3, SAMPLES + TEST)].astype(np.int32)
        x = prototypes[y] // 2 + noise[rng.integers(0, 4096, SAMPLES + TEST)]
        yield (x[:SAMPLES], y[:SAMPLES]), (x[SAMPLES:], y[SAMPLES:])


if __name__ == "__main__":
    main()
