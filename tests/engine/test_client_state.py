"""What clients keep: a row for each that has taken part, and rows in doublings."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from maxfl.core.algorithm import Algorithm
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


def counting() -> Algorithm:
    """A method whose clients count their rounds and train the less, the more there were."""
    fedavg = maxfl.fedavg()

    def client_update(hparams, server, rounds, client, task):
        update, _ = fedavg.client_update(hparams, server, (), client, task)
        return jax.tree.map(lambda u: u / (1 + rounds), update), rounds + 1

    def server_update(hparams, server, total, cohort):
        direction, _ = fedavg.server_update(hparams, server, total, cohort)
        present = jnp.where(cohort.participated, cohort.client_id, len(server.state))
        return direction, server.state.at[present].add(1, mode="drop")

    return fedavg._replace(
        name="counting",
        init_server=lambda params, clients: jnp.zeros(clients, jnp.int32),  # noqa: ARG005
        init_client=lambda params: jnp.zeros((), jnp.float32),  # noqa: ARG005
        weight=lambda hparams, server, client: 1.0 + 0.0 * client.loss,  # noqa: ARG005
        client_update=client_update,
        server_update=server_update,
    )


@pytest.mark.slow
def test_states_follow_the_clients_that_took_part_and_rows_grow_with_them():
    """Fifty clients, of which two at once train on each device."""
    clients = make_clients([3] * 50)
    many = maxfl.Federation.from_clients(clients, clients, classes=3)
    training = TRAINING._replace(rounds=7)
    simulation = maxfl.Simulation(
        many, MODEL, counting(), training, max_parallel=2, participation=maxfl.everyone(0.3)
    )
    prepared = simulation.prepare()
    assert simulation.start().client_states.rows.shape == (1, 4)
    states, blocks = zip(*simulation.blocks(prepared, simulation.start()), strict=True)
    rows = [state.client_states.rows.shape[1] for state in states]
    assert rows == [16, 32], "the next power of two, for three rounds and for seven"
    state, cohorts = states[-1], simulation.history(prepared, blocks, states[-1]).cohorts
    rounds = np.bincount(cohorts.client_id[cohorts.participated], minlength=50)
    assert rounds.max() > 1
    assert rounds.sum() < 7 * training.cohort
    np.testing.assert_array_equal(state.server.state[0], rounds)
    slots = np.asarray(state.client_states.slot[0])
    kept = np.asarray(state.client_states.rows[0])[np.maximum(slots - 1, 0)]
    np.testing.assert_array_equal(np.where(slots > 0, kept, 0), rounds)
    used = (rounds > 0).sum()
    assert int(state.client_states.used[0]) == used
    assert sorted(slots[slots > 0]) == list(range(1, used + 1))
