"""Milliseconds per round with one device, two devices, and two processes of one device each.

The workload `mlp` of the peers with 10 clients a round: once as one configuration, whose clients
are spread, and once as two configurations, which are. Every layout runs in processes of its own, in
turns; the fastest block of all turns counts, which a busy machine harms least.

    python benchmarks/devices.py
"""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import maxfl

sys.path.append(str(Path(__file__).parent / "peers"))
from peer_maxfl import federation
from workloads import make

COHORT, ROUNDS, BLOCKS, TURNS = 10, 5, 4, 2
LAYOUTS = {"1 device": (1, 1), "2 devices": (1, 2), "2 processes": (2, 1)}
"""Processes, and devices of each."""


def main() -> None:
    best: dict[str, list[float]] = {}
    for _ in range(TURNS):
        for name, (processes, devices) in LAYOUTS.items():
            times = run(processes, devices)
            best[name] = [min(pair) for pair in zip(times, best.get(name, times), strict=True)]
    print(f"{'ms a round':14}{'1 configuration':>18}{'2 configurations':>18}")
    for name, times in best.items():
        print(f"{name:14}{times[0]:>18.1f}{times[1]:>18.1f}")


def run(processes: int, devices: int) -> list[float]:
    """Times by process 0 of so many."""
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{door.getsockname()[1]}"
    environment = {**os.environ, "JAX_NUM_CPU_DEVICES": str(devices)}
    running = [
        subprocess.Popen(
            [sys.executable, __file__, address, str(processes), str(p)],
            env=environment, stdout=subprocess.PIPE, text=True,
        )
        for p in range(processes)
    ]  # fmt: skip
    said = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        raise SystemExit(f"a process ended with {[process.returncode for process in running]}")
    return list(json.loads(said[0].strip().splitlines()[-1]))


def work(address: str, processes: int, process: int) -> None:
    """One process's part."""
    if processes > 1:
        maxfl.join(address, processes, process)
    task = make("mlp")
    clients, model = federation(task), maxfl.mlp(784, (64, 30), 10)
    training = maxfl.Training(
        ROUNDS * (BLOCKS + 1), COHORT, task.steps, task.batch, task.rate, evaluate_every=ROUNDS,
        block=ROUNDS,
    )  # fmt: skip
    times = []
    for seeds in ([0], [0, 1]):
        simulation = maxfl.Simulation(
            clients, model, maxfl.maxfl(), training, seed=seeds, requirement=maxfl.solo(steps=1)
        )
        blocks = simulation.blocks(simulation.prepare(), simulation.start())
        next(blocks), next(blocks)  # the untrained model, and what compiles
        taken = []
        for _ in range(BLOCKS - 1):
            began = time.perf_counter()
            next(blocks)
            taken.append((time.perf_counter() - began) * 1000 / ROUNDS)
        times.append(min(taken))
    print(json.dumps(times))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        work(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
