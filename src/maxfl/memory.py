"""What clients keep between rounds, with rows for as many as can take part in a run.

In T rounds of m clients at most T·m of the M take part: a federation of a million clients of which
a few thousand ever train needs a few thousand rows. They are there from the start, so that the
program's shapes stay.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from maxfl.algorithms.contract import Pytree


class Memory(NamedTuple):
    """Rows of the clients that have taken part.

    Attributes:
        place: Row of each seen client plus one; 0 for those that have none yet, int32[M].
        used: Number of rows in use, int32.
        rows: What each of them keeps, leading axis S, the most that can ever take part.
    """

    place: Array
    used: Array
    rows: Pytree


def empty(one: Pytree, clients: int, most: int) -> Memory:
    """No client has taken part; ``one`` is what a client would keep, ``most`` is S."""
    rows = jax.tree.map(lambda a: jnp.zeros((most, *jnp.shape(a)), jnp.result_type(a)), one)
    return Memory(jnp.zeros(clients, jnp.int32), jnp.int32(0), rows)


def recall(memory: Memory, client: Array, fresh: Pytree) -> Pytree:
    """What a client keeps; ``fresh`` if it has not taken part, or is unseen."""
    # An unseen client's number is beyond the end: filled with 0, as of one that never took part.
    place = memory.place.at[client].get(mode="fill", fill_value=0)
    row = jax.tree.map(lambda rows: rows[jnp.maximum(place - 1, 0)], memory.rows)
    return jax.tree.map(lambda old, new: jnp.where(place > 0, old, new), row, fresh)


def remember(memory: Memory, client: Array, took_part: Array, kept: Pytree) -> Memory:
    """Write down what the clients of a cohort keep, int[m], bool[m], leading axis m.

    Newcomers get the next free rows; those that did not take part keep what they had.
    """
    known = memory.place[client]
    new = took_part & (known == 0)
    place = jnp.where(new, memory.used + jnp.cumsum(new), known)
    beyond = len(memory.place)  # S ≤ M, so no such row is there: nothing is written
    return Memory(
        memory.place.at[jnp.where(took_part, client, beyond)].set(place, mode="drop"),
        memory.used + new.sum(),
        jax.tree.map(
            lambda rows, row: rows.at[jnp.where(took_part, place - 1, beyond)].set(
                row, mode="drop"
            ),
            memory.rows,
            kept,
        ),
    )
