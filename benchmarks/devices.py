"""Milliseconds per round with one device, two devices, and two processes of one device each.

The workload `mlp` of the peers with 10 clients a round: once as one configuration, whose clients
are spread, and once as two configurations, which are. Every layout runs in new processes, in turns.
A device has a core to itself. The fastest block of all turns counts, which a busy machine harms
least; the evaluation at its end is measured alone and taken off.

    python benchmarks/devices.py [FILE.json]

Writes benchmarks/results/devices.json or the file given.
"""

import json
import os
import platform
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import maxfl
from maxfl.utils.files import write_json

sys.path.append(str(Path(__file__).parent / "peers"))
from peer_maxfl import federation
from workloads import make

FILE = Path(__file__).parent / "results/devices.json"
COHORT, ROUNDS, BLOCKS, TURNS = 10, 5, 4, 2
LAYOUTS = {"1 device": (1, 1), "2 devices": (1, 2), "2 processes": (2, 1)}
"""Processes, and devices of each."""


def main() -> None:
    best: dict[str, list[float]] = {}
    for _ in range(TURNS):
        for name, (processes, devices) in LAYOUTS.items():
            times = run(processes, devices)
            best[name] = [min(pair) for pair in zip(times, best.get(name, times), strict=True)]
            print(name, *(f"{ms:.1f} ms a round" for ms in times), flush=True)
    found = {name: dict(zip(("1", "2"), times, strict=True)) for name, times in best.items()}
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    write_json(file, {"machine": platform.machine(), "ms_by_configurations": found})


def run(processes: int, devices: int) -> list[float]:
    """Return the times that process 0 of some measured."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": str(devices)}
    running = [
        subprocess.Popen(
            [sys.executable, __file__, address, str(processes), str(p)],
            env=environment, stdout=subprocess.PIPE, text=True,
        )
        for p in range(processes)
    ]  # fmt: skip
    output = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        raise SystemExit(f"a process ended with {[process.returncode for process in running]}")
    return list(json.loads(output[0].strip().splitlines()[-1]))


def work(address: str, processes: int, process: int) -> None:
    """Measure as one of some processes."""
    if processes > 1:
        os.sched_setaffinity(0, {process})
        maxfl.join(address, processes, process)
    task = make("mlp")
    clients, model = federation(task), maxfl.mlp(784, (64, 30), 10)
    training = maxfl.Training(
        2 * ROUNDS, COHORT, task.steps, task.batch, task.rate,
        evaluate_every=ROUNDS, checkpoint_every=ROUNDS,
    )  # fmt: skip
    times = []
    for seeds in ([0], [0, 1]):
        simulation = maxfl.Simulation(
            clients, model, maxfl.maxfl(), training, seed=seeds, requirement=maxfl.solo(steps=1)
        )
        fastest = partial(_fastest, simulation, simulation.prepare(), simulation.start())
        # The block before the rounds is nothing but an evaluation.
        times.append((fastest(done=1) - fastest(done=0)) * 1000 / ROUNDS)
    print(json.dumps(times))


def _fastest(simulation: maxfl.Simulation, prepared: Any, state: Any, done: int) -> float:
    """Return the seconds of a block, the fastest of some; the first compiles."""
    taken = []
    for _ in range(BLOCKS):
        began = time.perf_counter()
        next(simulation.blocks(prepared, state, done=done))
        taken.append(time.perf_counter() - began)
    return min(taken)


if __name__ == "__main__":
    if len(sys.argv) == 4:
        work(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
