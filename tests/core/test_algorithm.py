"""The contract's room for state, with a method that only counts: server state and memory."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from maxfl.algorithms import ALGORITHMS
from maxfl.core import algorithm as contract
from maxfl.core.algorithm import Algorithm, Client, Server, Work

TRAINING = maxfl.Training(rounds=9, cohort=3, local_steps=2, batch_size=2, local_lr=0.1, block=4)


def counting() -> Algorithm:
    """Each client counts its visits and trains the less, the more it was visited."""

    def local(hyper, server, visits, client, work):
        update, _ = maxfl.fedavg().local(hyper, server, (), client, work)
        eager = [u / (1 + visits) for u in update]
        return type(update)(eager) if isinstance(update, tuple) else eager[0], visits + 1

    def server(hyper, server, total, cohort):
        direction, _ = maxfl.fedavg().server(hyper, server, total, cohort)
        seen = jnp.where(cohort.took_part, cohort.client, len(server.state))
        return direction, server.state.at[seen].add(1, mode="drop")

    return maxfl.fedavg()._replace(
        name="counting",
        init=lambda params, clients: jnp.zeros(clients, jnp.int32),  # noqa: ARG005
        memory=lambda params: jnp.zeros((), jnp.float32),  # noqa: ARG005
        weight=lambda hyper, server, client: 1.0 + 0.0 * client.loss,  # noqa: ARG005
        local=local,
        server=server,
    )


MODEL = maxfl.Model(lambda _: (jnp.zeros((4, 3)),), lambda w, x, _=None: x @ w[0])


@pytest.mark.parametrize("at_once", [2])
def test_state_and_memory_follow_the_clients_that_took_part(small, at_once):
    simulation = maxfl.Simulation(
        small, MODEL, counting(), TRAINING, at_once=at_once, participation=maxfl.everyone(0.3)
    )
    prepared = simulation.prepare()
    states, blocks = zip(*simulation.blocks(prepared, simulation.start()), strict=True)
    state, history = states[-1], simulation.history(prepared, blocks, states[-1])
    visits = np.bincount(history.asked.client[history.asked.took_part], minlength=small.seen)
    np.testing.assert_array_equal(state.server.state[0], visits)
    rows = np.asarray(state.memory.rows[0])[np.maximum(state.memory.place[0] - 1, 0)]
    np.testing.assert_array_equal(np.where(state.memory.place[0] > 0, rows, 0), visits)
    assert visits.sum() < TRAINING.rounds * TRAINING.cohort


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_rate_in_the_loss_is_a_rate_of_the_gradient(name, monkeypatch):
    """What descend does on a GPU, for every method's own gradient."""
    method = ALGORITHMS[name]()
    params = (jnp.array([1.0, -2.0, 0.5]),)

    def gradient(w, draw, scale=1.0):  # of (w − draw)⁴ / 4
        return (scale * (w[0] - 0.1 * draw) ** 3,)

    work = Work(gradient, 4, jnp.float32(0.05))
    client = Client(*(jnp.asarray(v) for v in (1, 20, 0.9, 0.8, 0.7)))
    server = Server(params, method.init(params, 3))

    def local(in_loss):
        monkeypatch.setattr(contract, "rate_in_loss", lambda: in_loss)
        return method.local(method.hyper, server, method.memory(params), client, work)

    after, before = jax.tree.leaves(local(True)), jax.tree.leaves(local(False))
    for one, other in zip(after, before, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
    assert not np.allclose(after[0], 0)


def test_a_rate_in_the_loss_gives_the_same_rounds(small, monkeypatch):
    """With the engine's own gradient, of minibatches of two sizes."""
    training = TRAINING._replace(rounds=4, batch_size=np.array([2, 3]))

    def losses(in_loss):
        monkeypatch.setattr(contract, "rate_in_loss", lambda: in_loss)
        model = maxfl.Model(MODEL.init, lambda w, x, _=None: x @ w[0])  # a program of its own
        return maxfl.simulate(small, model, maxfl.maxfl(), training).evaluation.train_loss

    np.testing.assert_allclose(losses(True), losses(False), rtol=1e-5)


def test_all_cores_must_be_asked_for_first(monkeypatch):
    devices = len(jax.devices())
    monkeypatch.delenv("JAX_NUM_CPU_DEVICES", raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(devices + 1), raising=False)
    with pytest.raises(maxfl.InputError, match="JAX has computed something already"):
        maxfl.use_all_cores()


def test_the_public_names_are_loaded_when_asked_for():
    code = (
        "import sys, maxfl, maxfl.core.appeal, maxfl.utils.errors; assert 'jax' not in sys.modules;"
        "import importlib.util as u;"
        "u.find_spec('flwr') and __import__('maxfl.flower.appeal_mod');"
        "assert 'jax' not in sys.modules and 'matplotlib' not in sys.modules;"
        "maxfl.run, maxfl.simulate; assert 'matplotlib' not in sys.modules;"
        "assert not hasattr(maxfl, 'nothing')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
