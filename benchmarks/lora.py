"""Memory of low-rank adapters: one base and 100 clients' adapters on one device.

    python benchmarks/lora.py [FILE.json]

A transformer of about 19 million frozen and 0.2 million trained parameters, 100 clients at once,
with minibatches of one sequence of 16 tokens, so that little but parameters needs memory, and of 4
of 64: as predicted and as used. Each in a process of its own, since a peak is the process's.
Writes benchmarks/results/lora.json or the file given, which docs/performance.md quotes.
"""

import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np

import maxfl
from maxfl.engine.trainer import train

FILE = Path(__file__).parent / "results/lora.json"
VOCABULARY, WIDTH, DEPTH, RANK = 256, 512, 6, 4
CLIENTS, SAMPLES, STEPS, ROUNDS = 100, 8, 2, 2
SIZES = ((1, 16), (4, 64))
"""Sequences of a minibatch, and tokens of a sequence."""


def main() -> None:
    """Measure each size, print and write."""
    if len(sys.argv) > 2:
        print(json.dumps(measure(*map(int, sys.argv[2:]))))
        return
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    rows: list[dict[str, Any]] = []
    for size in SIZES:
        words = [sys.executable, __file__, str(file), *map(str, size)]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
        rows.append(json.loads(done.stdout.splitlines()[-1]))
        print(rows[-1], flush=True)
        # After each, since the second size takes minutes.
        file.write_text(json.dumps({"clients": CLIENTS, "rows": rows}, indent=1) + "\n")


def measure(batch: int, length: int) -> dict[str, Any]:
    """Train the adapters, and return memory in bytes."""
    simulation = simulation_of(batch, length)
    session = simulation.session
    layout, footprint = session.spec.layout, session.footprint
    train(simulation)
    trained, _, frozen = maxfl.count_parameters(session.experiment.model)
    device = jax.devices()[0]
    used = device.memory_stats() or {}
    return {
        "device": device.device_kind, "machine": platform.machine(), "jax": jax.__version__,
        "batch": batch, "length": length, "trained": trained, "frozen": frozen,
        "clients_at_once": layout.parallel_clients,
        "predicted": footprint.of(layout), "predicted_data_and_base": footprint.data,
        "predicted_client": footprint.client, "peak": used.get("peak_bytes_in_use"),
        "bytes_of_100_bases": CLIENTS * 4 * frozen, "bytes_of_100_adapters": CLIENTS * 4 * trained,
    }  # fmt: skip


def simulation_of(batch: int, length: int) -> maxfl.Simulation:
    """Return the rounds of a size."""
    base = maxfl.transformer(VOCABULARY, length, width=WIDTH, depth=DEPTH, heads=8, dropout=0.0)
    return maxfl.Simulation(
        federation(length),
        maxfl.lora(base, RANK, "blocks", params=base.init(jax.random.key(0))),
        maxfl.fedavg(),
        maxfl.Training(
            rounds=ROUNDS, cohort=CLIENTS, local_steps=STEPS, batch_size=batch, local_lr=0.01,
            evaluate_every=ROUNDS, checkpoint_every=ROUNDS,
        ),
        requirement=maxfl.fixed(1.0, steps=1),
    )  # fmt: skip


def federation(length: int) -> maxfl.Federation:
    """Make up sequences in which tokens count up by steps of each client's own."""
    rng = np.random.default_rng(0)

    def sequences(client: int) -> tuple[Any, Any]:
        start = rng.integers(1, VOCABULARY, (SAMPLES, 1))
        steps = np.arange(length + 1) * (1 + client % 5)
        tokens = 1 + (start + steps) % (VOCABULARY - 1)
        return tokens[:, :-1], tokens[:, 1:]

    splits = [[sequences(client) for client in range(CLIENTS)] for _ in range(2)]
    return maxfl.Federation.from_clients(*splits)


if __name__ == "__main__":
    main()
