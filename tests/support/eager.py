"""Rounds of any method by its contract alone: eagerly, without the engine and its programs."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

import maxfl
from maxfl.core.algorithm import Client, Cohort, LocalTask, Server, WeightedSum
from maxfl.core.server_optimizers import take_step, transformation


class EagerRun(NamedTuple):
    """A federation after some rounds.

    Attributes:
        server: The global model and the method's server state.
        client_states: What each client keeps; None of those that have not taken part.
        opt_state: What the server optimizer keeps.
    """

    server: Server
    client_states: list[Any]
    opt_state: Any


def loss_of(model, data, params):
    """Return F_k(w), the mean loss over all data of a client."""
    x, y = (jnp.asarray(a) for a in data)
    return optax.softmax_cross_entropy_with_integer_labels(model.apply(params, x), y).mean()


def local_task(model, data, steps, learning_rate):
    """Return a task whose every minibatch is all data of the client."""

    def gradient(params, draw, scale=1.0):  # noqa: ARG001
        grads = jax.grad(lambda w: loss_of(model, data, w))(params)
        return jax.tree.map(lambda g: scale * g, grads)

    return LocalTask(gradient, steps, jnp.float32(learning_rate))


def run_rounds(algorithm, model, clients, training, requirement, server_optimizer=None):
    """Let all clients, (x, y) of each, participate in every round of a training."""
    with jax.disable_jit():
        optimizer = server_optimizer or maxfl.server_optimizers.sgd()
        params = model.init(jax.random.key(0))
        server = Server(params, algorithm.init_server(params, len(clients)))
        run = EagerRun(
            server,
            [None] * len(clients),
            transformation(optimizer.kind, optimizer.hparams).init(params),
        )
        for _ in range(training.rounds):
            run = _round(algorithm, model, clients, training, requirement, optimizer, run)
        return run


def _round(algorithm, model, clients, training, requirement, optimizer, run):
    """One round, as the docstring of maxfl.core.algorithm has it."""
    server, hparams = run.server, algorithm.hparams
    total, reports, states = None, [], []
    for k, data in enumerate(clients):
        loss, rho = loss_of(model, data, server.params), jnp.float32(requirement[k])
        client = Client(jnp.int32(k), jnp.int32(len(data[1])), loss, loss, rho)
        state = run.client_states[k]
        state = algorithm.init_client(server.params) if state is None else state
        weight = algorithm.weight(hparams, server, client)
        task = local_task(model, data, training.local_steps, training.local_lr)
        update, renewed = algorithm.client_update(hparams, server, state, client, task)
        states.append(renewed)
        reports.append(Cohort(client.client_id, jnp.bool_(True), loss, rho, weight))
        part = WeightedSum(jax.tree.map(lambda u, q=weight: q * u, update), weight)
        total = part if total is None else jax.tree.map(jnp.add, total, part)
    cohort = jax.tree.map(lambda *rows: jnp.stack(rows), *reports)
    direction, server_state = algorithm.server_update(hparams, server, total, cohort)
    params, opt_state = take_step(
        optimizer.kind, optimizer.hparams, training.server_lr, direction, server.params,
        run.opt_state,
    )  # fmt: skip
    return EagerRun(Server(params, server_state), states, opt_state)
