"""The contract: a learning rate in the loss, or beside the gradient; several steps at once."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maxfl import local_optimizers
from maxfl.algorithms import ALGORITHMS
from maxfl.core import algorithm as contract
from maxfl.core.algorithm import Client, LocalTask, Server, descend
from support.small import DROPOUT_MODEL, PAIR, sweep, train


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


@pytest.mark.slow
def test_a_rate_in_the_loss_gives_the_same_rounds(monkeypatch):
    """With the engine's own gradient, of minibatches of two sizes."""
    plain = train(**sweep(*PAIR))
    monkeypatch.setattr(contract, "rate_in_loss", lambda: True)
    again = dataclasses.replace(DROPOUT_MODEL, apply=lambda *args: DROPOUT_MODEL.apply(*args))
    in_loss = train(**sweep(*PAIR, model=again))  # another model, so that it is traced again
    np.testing.assert_allclose(
        in_loss.evaluation.judging_loss, plain.evaluation.judging_loss, rtol=1e-5
    )


class Leaping:
    """A gradient of 1, whose steps at once are twice as long, so that it shows; never one step."""

    def __call__(self, _w, _draw, scale=1.0):
        return jnp.float32(scale)

    def descend(self, w, steps, learning_rate):
        return None if steps == 1 else w - 2 * steps * learning_rate


@pytest.mark.parametrize(
    ("steps", "optimizer", "distance"),
    [
        pytest.param(3, None, 3.0, id="at once"),
        pytest.param(3, local_optimizers.sgd(), 3.0, id="plain optimizer"),
        pytest.param(1, None, 0.5, id="none at once"),
        pytest.param(np.int32(3), None, 1.5, id="number of steps that may differ"),
        pytest.param(3, local_optimizers.momentum(0.0), 1.5, id="optimizer with a moment"),
        pytest.param(3, local_optimizers.sgd(weight_decay=0.0), 3.0, id="decay of 0"),
        pytest.param(3, local_optimizers.sgd(clip_norm=9.0), 1.5, id="clipped"),
    ],
)
def test_a_gradient_that_can_takes_plain_steps_at_once(steps, optimizer, distance):
    steps = steps if isinstance(steps, int) else jnp.asarray(steps)
    w = descend(jnp.float32(10), Leaping(), steps, jnp.float32(0.5), optimizer)
    assert w == 10 - distance
