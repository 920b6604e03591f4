"""SCAFFOLD: control variates take the drift out of local steps.

Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", ICML 2020,
algorithm 1.

    y ← y − η_l (∇f_k(y) + c − c_k)                        from y = w, τ times
    option II:  c_k⁺ = c_k − c + (w − y)/(τ η_l)           option I:  c_k⁺ = ∇f_k(w)
    w ← w − η_g mean_k(w − y),     c ← c + 1/M Σ_k (c_k⁺ − c_k)

It differs from FedAvg in the local gradient, in a memory c_k of each client and a state c of the
server; the update is the pair (w − y, c_k⁺ − c_k). With all control variates zero a round is
FedAvg's. Option I takes ∇f_k(w) on the round's τ minibatches, at twice the cost.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from numpy.typing import ArrayLike

from maxfl.algorithms.contract import (
    Algorithm,
    Client,
    Cohort,
    Server,
    Total,
    Work,
    average,
    descend,
    difference,
    move,
)
from maxfl.algorithms.fedavg import alike, fedavg
from maxfl.errors import check_number
from maxfl.model import Params


class Hyper(NamedTuple):
    """Numbers of SCAFFOLD: which option renews c_k."""

    option: Any = 2


class Control(NamedTuple):
    """The server's control variate c, and M, the number of clients that it is a mean over."""

    c: Params
    clients: Array


class Update(NamedTuple):
    """What a client sends: w − y and c_k⁺ − c_k."""

    model: Params
    control: Params


def init(params: Params, clients: int) -> Control:
    """C = 0."""
    return Control(jax.tree.map(jnp.zeros_like, params), jnp.float32(clients))


def memory(params: Params) -> Params:
    """c_k = 0."""
    return jax.tree.map(jnp.zeros_like, params)


def local(
    hyper: Hyper,
    server: Server,
    memory: Params,
    client: Client,  # noqa: ARG001
    work: Work,
) -> tuple[Update, Params]:
    """τ corrected steps, and a new c_k."""
    correction = difference(server.state.c, memory)

    def gradient(y: Params, r: Array) -> Params:
        return move(work.gradient(y, r), correction, 1.0)

    trained = descend(server.params, gradient, work.steps, work.learning_rate)
    delta = difference(server.params, trained)

    def option_1() -> Params:
        def add(r: Array, total: Params) -> Params:
            return move(total, work.gradient(server.params, r), 1 / work.steps)

        return jax.lax.fori_loop(0, work.steps, add, jax.tree.map(jnp.zeros_like, memory))

    def option_2() -> Params:
        drift = 1 / (work.steps * work.learning_rate)
        return jax.tree.map(lambda d, minus: drift * d - minus, delta, correction)

    renewed = jax.lax.cond(hyper.option == 1, option_1, option_2)
    return Update(delta, difference(renewed, memory)), renewed


def server(hyper: Hyper, server: Server, total: Total, cohort: Cohort) -> tuple[Params, Control]:  # noqa: ARG001
    """Direction: the mean of w − y; c moves by the share of clients that renewed theirs."""
    state = server.state
    control = move(state.c, total.update.control, 1 / state.clients)
    return average(Total(total.update.model, total.weight)), state._replace(c=control)


def scaffold(option: ArrayLike = 2) -> Algorithm:
    """SCAFFOLD, whose clients correct their steps by control variates.

    Args:
        option: 2 renews control variates from the steps taken, 1 from gradients at the model.
    """
    check_number("algorithm.option", option, least=1, most=2, whole=True)
    return fedavg()._replace(
        name="scaffold",
        hyper=Hyper(option),
        init=init,
        memory=memory,
        weight=alike,
        local=local,
        server=server,
    )
