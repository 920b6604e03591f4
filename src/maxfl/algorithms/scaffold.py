"""SCAFFOLD: control variates correct the drift of local steps.

Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", ICML 2020,
algorithm 1.

    y ← y − η_l (∇f_k(y) + c − c_k)                        from y = w, τ times
    option II:  c_k⁺ = c_k − c + (w − y)/(τ η_l)           option I:  c_k⁺ = ∇f_k(w)
    w ← w − η_g mean_k(w − y),     c ← c + 1/M Σ_k (c_k⁺ − c_k)

It differs from FedAvg in the local gradient, in a memory c_k of each client and a state c of the
server; the update is the pair (w − y, c_k⁺ − c_k). With all control variates zero a round is
FedAvg's. Option I takes ∇f_k(w) on the round's τ minibatches, at twice the cost. Written from the
paper; no code of the authors was at hand.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from maxfl.algorithms.fedavg import BASE
from maxfl.algorithms.fedavg import client_update as train
from maxfl.core.algorithm import (
    Algorithm,
    Client,
    Cohort,
    CompositeUpdate,
    LocalTask,
    Server,
    WeightedSum,
    average,
    difference,
    move,
    trained,
)
from maxfl.core.model import Params


class Control(NamedTuple):
    """The server's control variate c, and M, the number of clients that it is a mean over."""

    c: Params
    clients: Array


def init_server(params: Params, clients: int) -> Control:
    """Return c = 0."""
    return Control(jax.tree.map(jnp.zeros_like, trained(params)), jnp.float32(clients))


def init_client(params: Params) -> Params:
    """Return c_k = 0."""
    return jax.tree.map(jnp.zeros_like, trained(params))


def corrected(
    server: Server, client_state: Params, client: Client, task: LocalTask
) -> tuple[Params, Params]:
    """Return c − c_k, and w − y after τ steps corrected by it."""
    correction = difference(server.state.c, client_state)

    def gradient(y: Params, r: Array, scale: Any = 1.0) -> Params:
        return move(task.gradient(y, r, scale), correction, scale)

    delta, _ = train((), server, client_state, client, task._replace(gradient=gradient))
    return correction, delta


def option_1(
    hparams: Any,
    server: Server,
    client_state: Params,
    client: Client,
    task: LocalTask,
) -> tuple[CompositeUpdate, Params]:
    """Train, and renew c_k⁺ = ∇f_k(w), on the round's τ minibatches."""
    _, delta = corrected(server, client_state, client, task)

    def add(r: Array, total: Params) -> Params:
        return move(total, task.gradient(server.params, r), 1 / task.steps)

    renewed = jax.lax.fori_loop(0, task.steps, add, jax.tree.map(jnp.zeros_like, client_state))
    return CompositeUpdate(delta, difference(renewed, client_state)), renewed


def option_2(
    hparams: Any,
    server: Server,
    client_state: Params,
    client: Client,
    task: LocalTask,
) -> tuple[CompositeUpdate, Params]:
    """Train, and renew c_k⁺ = c_k − c + (w − y)/(τη_l)."""
    correction, delta = corrected(server, client_state, client, task)
    drift = 1 / (task.steps * task.learning_rate)
    renewed = jax.tree.map(lambda d, minus: drift * d - minus, trained(delta), correction)
    return CompositeUpdate(delta, difference(renewed, client_state)), renewed


def server_update(
    hparams: Any, server: Server, total: WeightedSum, cohort: Cohort
) -> tuple[Params, Control]:
    """Move along the mean of w − y; c moves by the share of clients that renewed theirs."""
    state = server.state
    control = move(state.c, total.update.more, 1 / state.clients)
    return average(WeightedSum(total.update.model, total.weight)), state._replace(c=control)


def scaffold() -> Algorithm:
    """Return SCAFFOLD, in which control variates correct client drift; option II of the paper."""
    return BASE._replace(
        name="scaffold",
        init_server=init_server,
        init_client=init_client,
        client_update=option_2,
        server_update=server_update,
        needs_sgd=True,
    )


def scaffold_1() -> Algorithm:
    """Return SCAFFOLD with option I of the paper."""
    return scaffold()._replace(name="scaffold-1", client_update=option_1)
