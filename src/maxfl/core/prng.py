"""Every draw of a run, from (seed, purpose, round, client) and a number within those.

A key depends on nothing else: not on the order of work, the chunk size, the number of devices, or
the sweep that a configuration runs in. So two methods with one seed face the same clients and
minibatches, and a resumed run continues with the draws that an uninterrupted one would have made.
"""

from enum import IntEnum

import jax
import jax.numpy as jnp
from jax import Array
from jax.extend.random import threefry_2x32


class Purpose(IntEnum):
    """What a key is for. The numbers are part of every result: append, never renumber."""

    INIT = 0
    SAMPLING = 1
    TRAINING = 2
    UNAVAILABLE = 3
    SOLO_INIT = 4
    SOLO_TRAINING = 5
    FINETUNING = 6
    BYZANTINE = 7
    NOISE = 8


def key(
    seed: int | Array, purpose: Purpose, round_: int | Array = 0, client: int | Array = 0
) -> Array:
    """Return the key of a purpose in a round for a client: the four numbers, hashed in one go.

    (Folding them in one after another with ``jax.random.fold_in`` is as good, but costs a hash
    each, and hashes are most of what there is to compile.)
    """
    first = jnp.stack([jnp.uint32(seed), jnp.uint32(purpose)])
    second = jnp.stack([jnp.uint32(round_), jnp.uint32(client)])
    return jax.random.wrap_key_data(threefry_2x32(first, second), impl="threefry2x32")


def batch_key(training: Array, draw: int | Array) -> Array:
    """Return the key of the rows of minibatch number ``draw`` of a client's training."""
    return jax.random.fold_in(training, 2 * draw)


def dropout_key(training: Array, draw: int | Array) -> Array:
    """Return the key of the model's own draws on minibatch number ``draw``."""
    return jax.random.fold_in(training, 2 * draw + 1)
