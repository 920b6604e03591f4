"""Every draw of a run, folded from (seed, purpose, round, client, step).

A key depends on nothing else: not on the order of work, the chunk size, the number of devices, or
the sweep that a configuration runs in. So two methods with one seed face the same clients and
minibatches, and a resumed run continues with the draws that an uninterrupted one would have made.
"""

from enum import IntEnum

import jax
from jax import Array


class Purpose(IntEnum):
    """What a draw is for. The numbers are part of every result: append, never renumber."""

    INIT = 0
    SAMPLING = 1
    TRAINING = 2
    UNAVAILABLE = 3
    SOLO_INIT = 4
    SOLO_TRAINING = 5
    BATCH = 6
    DROPOUT = 7


def key(seed: int | Array, purpose: Purpose, *path: int | Array) -> Array:
    """Key of one purpose of one seed, then folded along ``path`` (round, client, ...)."""
    return fold(jax.random.fold_in(jax.random.key(seed), purpose), *path)


def fold(parent: Array, *path: int | Array) -> Array:
    """Fold integers into a key, one after another."""
    for number in path:
        parent = jax.random.fold_in(parent, number)
    return parent
