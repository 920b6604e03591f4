"""Milliseconds per round of the Fashion-MNIST MLP, beside a plain NumPy loop in the same run.

100 clients × 300 training samples (and 200 test samples), 5 a round, 30 steps of 32, with dropout.
Engine and loop take turns, and the median of several turns counts, so that a busy machine harms
both alike. Run with `make bench`.
"""

import platform
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from numpy_loop import NumpyRound

import maxfl
from maxfl.data.fashion_mnist import fashion_mnist_12k

CLIENTS, TRAIN, TEST, COHORT, STEPS, BATCH, RATE = 100, 300, 200, 5, 30, 32, 0.05
ROUNDS, TURNS = 50, 3


def main() -> None:
    maxfl.use_all_cores()
    fed = workload()
    model = maxfl.mlp(784, (64, 30), 10)
    params = [tuple(map(np.array, layer)) for layer in model.init(jax.random.key(0))]
    loop = NumpyRound(fed, params, dropout=0.5)

    def numpy_rounds(evaluated: bool) -> Callable[[], None]:
        def work() -> None:
            for _ in range(ROUNDS):
                loop.run(COHORT, STEPS, BATCH, RATE)
                if evaluated:
                    loop.evaluate()

        return work

    known: dict[Any, Any] = {}
    peers = {
        "NumPy loop": (numpy_rounds(False), numpy_rounds(True)),
        "maxfl, FedAvg": engine_rounds(fed, model, maxfl.fedavg(), known),
        "maxfl, MaxFL": engine_rounds(fed, model, maxfl.maxfl(), known),
    }
    devices = jax.devices()
    print(f"{len(devices)} x {devices[0].device_kind} ({platform.machine()})")
    print(f"JAX {jax.__version__}, NumPy {np.__version__}; median ms a round of {TURNS} turns")
    print(f"{'':16}{'training':>16}{'with evaluation':>24}")
    base: tuple[float, ...] | None = None
    times = measure(peers)
    for name, values in times.items():
        base = base or values
        cells = [f"{v:.1f} ({v / b:.2f} of NumPy)" for v, b in zip(values, base, strict=True)]
        print(f"{name:16}{cells[0]:>24}{cells[1]:>26}")


def workload() -> maxfl.Federation:
    """Real images, drawn with replacement, since 12,000 are fewer than the workload's 50,000."""
    data, rng = fashion_mnist_12k(), np.random.default_rng(0)

    def clients(size: int) -> list[tuple[np.ndarray, np.ndarray]]:
        rows = rng.integers(0, len(data.y), (CLIENTS, size))
        return [(data.x[r], data.y[r]) for r in rows]

    return maxfl.Federation.from_clients(clients(TRAIN), clients(TEST), decoding=data.decoding)


def engine_rounds(
    fed: maxfl.Federation, model: maxfl.Model, method: maxfl.Algorithm, known: dict[Any, Any]
) -> tuple[Callable[[], None], Callable[[], None]]:
    """A block of rounds with one evaluation at its end, and one with an evaluation each."""

    def work(every: int) -> Callable[[], None]:
        training = maxfl.Training(2 * ROUNDS, COHORT, STEPS, BATCH, RATE, 1.0, every, ROUNDS)
        simulation = maxfl.Simulation(fed, model, method, training)
        prepared = simulation.prepare(known=known)
        state = simulation.start()
        # The first block also shows the untrained model; the second is rounds alone.
        return lambda: next(simulation.blocks(prepared, state, done=1)) and None

    return work(ROUNDS), work(1)


def measure(
    peers: dict[str, tuple[Callable[[], None], ...]],
) -> dict[str, tuple[float, ...]]:
    """Median milliseconds per round of all works of every peer, taken in turns."""
    taken: dict[str, list[list[float]]] = {name: [[] for _ in w] for name, w in peers.items()}
    for turn in range(TURNS + 1):  # the first warms up and compiles
        for name, works in peers.items():
            for i, work in enumerate(works):
                began = time.perf_counter()
                work()
                if turn:
                    taken[name][i].append((time.perf_counter() - began) * 1000 / ROUNDS)
    return {name: tuple(float(np.median(t)) for t in both) for name, both in taken.items()}


if __name__ == "__main__":
    main()
