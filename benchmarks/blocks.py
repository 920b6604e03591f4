"""Times a simulation's rounds, and the memory that they take; for other benchmarks to import."""

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from maxfl import Simulation
from maxfl.core.requirements.requirement import Solo
from maxfl.engine.resources import parallel_configurations
from maxfl.engine.trainer import Prepared

TURNS = 3


def measure_blocks(simulation: Simulation) -> dict[str, Any]:
    """Measure a block of rounds: milliseconds a round and configuration, first block, and memory.

    The simulation has two blocks. The evaluation that ends one is measured alone and taken off:
    what comes before the first round is nothing else. On a GPU that was idle, it takes longer than
    at the end of a block: a block should be much longer than that. Nobody trains alone before.
    """
    session = simulation.session
    size, training = session.configurations, session.experiment.training
    block = timed_blocks(simulation)
    first = block(1)
    block(0)
    whole, evaluations = (np.median([block(number) for _ in range(TURNS)]) for number in (1, 0))
    stats = jax.devices()[0].memory_stats()
    return {
        "ms_a_round": 1000 * float(whole - evaluations) / training.evaluate_every / size,
        "ms_taken_off": 1000 * float(evaluations),
        "first_block_s": first,
        "parallel": parallel_configurations(session.spec.layout, size),
        "predicted_gib": session.footprint.of(session.spec.layout) / 2**30,
        "peak_gib": stats["peak_bytes_in_use"] / 2**30 if stats else None,
    }


def timed_blocks(simulation: Simulation) -> Callable[[int], float]:
    """Return a function that runs a block, by the number of those done, and returns its seconds."""
    session = simulation.session
    clients = session.experiment.federation.clients
    nothing = np.zeros((session.configurations, clients), np.float32)
    solo = Solo(nothing, nothing, (nothing,) * len(session.metric_infos))
    prepared, state = Prepared(solo, simulation.requirements(solo)), simulation.start()

    def block(number: int) -> float:
        began = time.perf_counter()
        jax.block_until_ready(next(simulation.blocks(prepared, state, done=number)))
        return time.perf_counter() - began

    return block
