"""What clients keep between rounds, with rows for those that have taken part.

A federation of a million clients of which a few thousand have trained needs a few thousand rows.
Rows are added between the blocks of a run, in doublings, so that few programs are compiled.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from maxfl.core.algorithm import Pytree


class Memory(NamedTuple):
    """Rows of the clients that have taken part.

    Attributes:
        place: Row of each seen client plus one; 0 for those that have none yet, int32[M].
        used: Number of rows in use, int32.
        rows: What each of them keeps, leading axis S; S is enough for the rounds to come.
    """

    place: Array
    used: Array
    rows: Pytree


def empty(one: Pytree, clients: int, rows: int) -> Memory:
    """No client has taken part; ``one`` is what a client would keep, ``rows`` is S."""
    kept = jax.tree.map(lambda a: jnp.zeros((rows, *jnp.shape(a)), jnp.result_type(a)), one)
    return Memory(jnp.zeros(clients, jnp.int32), jnp.int32(0), kept)


def rows_needed(taken_part: int, clients: int) -> int:
    """Rows for as many as ``taken_part`` clients: the next power of two, at most one for each."""
    return min(clients, 1 << max(taken_part - 1, 0).bit_length())


def grown(memory: Memory, rows: int) -> Memory:
    """The memory of all configurations, leading axis C, with at least so many rows."""

    def grow(a: Array) -> Array:
        more = max(rows - a.shape[1], 0)
        return jnp.pad(a, ((0, 0), (0, more), *[(0, 0)] * (a.ndim - 2))) if more else a

    return memory._replace(rows=jax.tree.map(grow, memory.rows))


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
