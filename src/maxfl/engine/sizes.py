"""Bytes that a run takes in its folder."""

from typing import Any, NamedTuple

import jax

from maxfl.engine.experiment import Training
from maxfl.engine.spec import Asked, Evaluation, Personal, State


class StateBytes(NamedTuple):
    """Bytes of a configuration's state without what clients keep, and of what a client keeps."""

    server: int
    client: int


def state_bytes(state: State, configurations: int, rows: int) -> StateBytes:
    """Those of a state, given by its shapes, with so many rows of clients' memory."""
    memory = state.memory
    server = _bytes((state.server, state.optimiser, memory.place))
    return StateBytes(server // configurations, _bytes(memory.rows) // (configurations * rows))


def measured_bytes(
    training: Training, configurations: int, looks: int, clients: int, *, personal: bool
) -> int:
    """Bytes of so many evaluations by so many clients, and of who was asked."""
    numbers = len(Evaluation._fields) + (len(Personal._fields) if personal else 0)
    asked = training.rounds * training.cohort * len(Asked._fields)
    return 4 * configurations * (looks * clients * numbers + asked)


def _bytes(tree: Any) -> int:
    return sum(int(a.size) * a.dtype.itemsize for a in jax.tree.leaves(tree))
