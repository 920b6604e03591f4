"""The contract: room for state, and a learning rate in the loss or beside the gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from maxfl.algorithms import ALGORITHMS
from maxfl.core import algorithm as contract
from maxfl.core.algorithm import Algorithm, Client, LocalTask, Server
from support.small import DROPOUT_MODEL, PAIR, SMALL, TRAINING, run_blocks, simulation, sweep, train


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


def test_server_and_client_states_follow_the_clients_that_took_part():
    """Two clients at once on each device."""
    counted = simulation(
        counting(), TRAINING._replace(rounds=9), max_parallel=2, participation=maxfl.everyone(0.3)
    )
    history, state = run_blocks(counted)
    cohorts = history.cohorts
    rounds = np.bincount(cohorts.client_id[cohorts.participated], minlength=SMALL.seen)
    np.testing.assert_array_equal(state.server.state[0], rounds)
    slot = np.asarray(state.client_states.slot[0])
    rows = np.asarray(state.client_states.rows[0])[np.maximum(slot - 1, 0)]
    np.testing.assert_array_equal(np.where(slot > 0, rows, 0), rounds)
    assert rounds.sum() < 9 * TRAINING.cohort


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_rate_in_the_loss_is_a_rate_of_the_gradient(name, monkeypatch):
    """What descend does on a GPU, for every method's own gradient."""
    method = ALGORITHMS[name]()
    params = (jnp.array([1.0, -2.0, 0.5]),)

    def gradient(w, draw, scale=1.0):  # of (w − draw)⁴ / 4
        return (scale * (w[0] - 0.1 * draw) ** 3,)

    task = LocalTask(gradient, 4, jnp.float32(0.05))
    client = Client(*(jnp.asarray(v) for v in (1, 20, 0.9, 0.8, 0.7)))
    server, client_state = Server(params, method.init_server(params, 3)), method.init_client(params)

    def train_client(in_loss):
        monkeypatch.setattr(contract, "rate_in_loss", lambda: in_loss)
        return method.client_update(method.hparams, server, client_state, client, task)

    after, before = jax.tree.leaves(train_client(True)), jax.tree.leaves(train_client(False))
    for one, other in zip(after, before, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
    assert not np.allclose(after[0], 0)


def test_a_rate_in_the_loss_gives_the_same_rounds(monkeypatch):
    """With the engine's own gradient, of minibatches of two sizes."""
    plain = train(**sweep(*PAIR))
    monkeypatch.setattr(contract, "rate_in_loss", lambda: True)
    again = DROPOUT_MODEL._replace(apply=lambda *args: DROPOUT_MODEL.apply(*args))
    in_loss = train(**sweep(*PAIR, model=again))  # another model, so that it is traced again
    np.testing.assert_allclose(
        in_loss.evaluation.train_loss, plain.evaluation.train_loss, rtol=1e-5
    )
