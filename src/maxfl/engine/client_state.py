"""Client state: what clients keep between rounds, with rows for those that have taken part.

A federation of a million clients of which a few thousand have trained needs a few thousand rows.
Rows are added between the blocks of a run, in doublings, so that few programs are compiled.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from maxfl.core.algorithm import Pytree
from maxfl.core.model import Model, Params


class ClientStates(NamedTuple):
    """Rows of the clients that have taken part.

    Attributes:
        slot: Row of each seen client plus one; 0 for those that have none yet, int32[M].
        used: Number of rows in use, int32.
        rows: What each of them keeps, leading axis S; S is enough for the rounds to come.
    """

    slot: Array
    used: Array
    rows: Pytree


class Memory(NamedTuple):
    """What a client keeps where the model's state is its own.

    Attributes:
        method: What it keeps for its method.
        model_state: The model's state.
    """

    method: Pytree
    model_state: Pytree


def init_memory(model: Model, init_client: Callable[[Params], Pytree], params: Params) -> Pytree:
    """Return what a client keeps when it receives its first model."""
    method = init_client(params)
    return Memory(method, params.state) if model.keep_local else method


def init_states(one: Pytree, clients: int, rows: int) -> ClientStates:
    """Return the states while no client has taken part.

    Args:
        one: What a client would keep.
        clients: M, the seen clients.
        rows: S.
    """
    zeros = jax.tree.map(lambda a: jnp.zeros((rows, *jnp.shape(a)), jnp.result_type(a)), one)
    return ClientStates(jnp.zeros(clients, jnp.int32), jnp.int32(0), zeros)


def rows_needed(participants: int, clients: int) -> int:
    """Return rows for so many participants: the next power of two, at most one for each client."""
    return min(clients, 1 << max(participants - 1, 0).bit_length())


def grow(states: ClientStates, rows: int) -> ClientStates:
    """Return the states of all configurations, leading axis C, with at least so many rows."""

    def pad(a: Array) -> Array:
        more = max(rows - a.shape[1], 0)
        return jnp.pad(a, ((0, 0), (0, more), *[(0, 0)] * (a.ndim - 2))) if more else a

    return states._replace(rows=jax.tree.map(pad, states.rows))


def read_state(states: ClientStates, client: Array, fresh: Pytree) -> Pytree:
    """Return what a client keeps; ``fresh`` if it has not taken part, or is unseen."""
    # An unseen client's index is beyond the end: filled with 0, as of one that never participated.
    slot = states.slot.at[client].get(mode="fill", fill_value=0)
    row = jax.tree.map(lambda rows: rows[jnp.maximum(slot - 1, 0)], states.rows)
    return jax.tree.map(lambda old, new: jnp.where(slot > 0, old, new), row, fresh)


def write_states(
    states: ClientStates, client: Array, participated: Array, renewed: Pytree
) -> ClientStates:
    """Write what the clients of a cohort keep: int[m], bool[m], leading axis m.

    Newcomers get the next free rows; those that did not participate keep what they had.
    """
    known = states.slot[client]
    new = participated & (known == 0)
    slot = jnp.where(new, states.used + jnp.cumsum(new), known)
    beyond = len(states.slot)  # S ≤ M, so no such row is there: nothing is written
    return ClientStates(
        states.slot.at[jnp.where(participated, client, beyond)].set(slot, mode="drop"),
        states.used + new.sum(),
        jax.tree.map(
            lambda rows, row: rows.at[jnp.where(participated, slot - 1, beyond)].set(
                row, mode="drop"
            ),
            states.rows,
            renewed,
        ),
    )
