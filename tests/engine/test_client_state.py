"""What clients keep: a row for each that has taken part, and rows in doublings."""

import jax
import jax.numpy as jnp
import numpy as np

import maxfl
from maxfl.engine.client_state import grow, init_states, read_state, rows_needed, write_states
from support.federations import make_clients
from support.small import MODEL, TRAINING


def test_rows_are_never_more_than_clients():
    assert [rows_needed(n, 50) for n in (0, 1, 2, 3, 20, 33, 1000)] == [1, 1, 2, 4, 32, 50, 50]


def test_rows_by_hand():
    states = init_states(jnp.zeros(2), 5, 2)
    fresh = jnp.full(2, -1.0)
    present = jnp.array([True, False])
    states = write_states(states, jnp.array([3, 1]), present, jnp.array([[1.0, 2], [3, 4]]))
    assert states.slot.tolist() == [0, 0, 0, 1, 0]
    assert int(states.used) == 1
    for rows in (4, 5):
        wide = grow(jax.tree.map(lambda a: a[None], states), rows)
        states = jax.tree.map(lambda a: a[0], wide)
        assert states.rows.shape == (rows, 2)
    both = jnp.array([True, True])
    states = write_states(states, jnp.array([0, 3]), both, jnp.array([[5.0, 6], [7, 8]]))
    assert states.slot.tolist() == [2, 0, 0, 1, 0]
    found = [read_state(states, jnp.int32(k), fresh).tolist() for k in (0, 1, 3, 6)]
    assert found == [[5, 6], [-1, -1], [7, 8], [-1, -1]], "client 6 is unseen"


def test_rows_grow_with_those_that_have_taken_part():
    clients = make_clients([3] * 50)
    many = maxfl.Federation.from_clients(clients, clients, classes=3)
    training = TRAINING._replace(rounds=2, checkpoint_every=1)
    simulation = maxfl.Simulation(many, MODEL, maxfl.ditto(), training)
    state, rows = simulation.start(), []
    for now, block in simulation.blocks(simulation.prepare(), state):
        state = now
        rows.append(state.client_states.rows[0].weight.shape[1])
        assert rows[-1] <= max(4, 2 * 3 * int(block.rounds[-1])), "twice those that took part"
    assert rows == [4, 4, 8]
    slots = np.asarray(state.client_states.slot[0])
    assert int(state.client_states.used[0]) == (slots > 0).sum() <= 6
    assert sorted(slots[slots > 0]) == list(range(1, (slots > 0).sum() + 1))
