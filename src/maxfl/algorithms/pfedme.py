"""pFedMe: personal models, tied to the global one by a Moreau envelope.

Dinh, Tran, Nguyen, "Personalized Federated Learning with Moreau Envelopes", NeurIPS 2020,
algorithm 1. In each of τ local steps, on one minibatch:

    K times  θ ← θ − α (∇f(θ) + λ (θ − w_k)),   then  w_k ← w_k − η_l λ (w_k − θ)
    w ← w − η_g mean_k(w − w_k)                                          β = η_g

It differs from FedAvg in the local step, of K gradients, and clients use their own θ. λη_l = 1 and
K = 1 are FedAvg with the rate α. θ starts at the received model and goes on from step to step of a
round, as in the authors' code. That code also hides a weight decay of 1e-3 in its optimiser (left
out here) and lets all clients train in every round, of which it averages some; here only those that
are sampled train, so the others' θ are of the round in which they were last sampled.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from numpy.typing import ArrayLike

from maxfl.algorithms.fedavg import BASE
from maxfl.core.algorithm import (
    Algorithm,
    Client,
    LocalTask,
    Server,
    advance,
    difference,
    move,
    pulled,
    trained,
    with_trained,
)
from maxfl.core.model import Params
from maxfl.utils.errors import check_number


class HParams(NamedTuple):
    """Hyper-parameters of pFedMe.

    Attributes:
        strength: λ, how strongly a personal model is tied to the global one.
        inner_steps: K, gradient steps towards the personal model.
        inner_lr: α, their rate.
    """

    strength: Any = 15.0
    inner_steps: Any = 5
    inner_lr: Any = 0.01


def init_client(params: Params) -> Params:
    """Return the received model: a client's personal one, until it has trained."""
    return params


def client_update(
    hparams: HParams,
    server: Server,
    client_state: Params,
    client: Client,
    task: LocalTask,
) -> tuple[Params, Params]:
    """Take τ steps towards personal models; keep the last of them."""

    def step(r: Array, both: tuple[Params, Params]) -> tuple[Params, Params]:
        w, theta = both
        tied = pulled(task.gradient, w, hparams.strength)

        def inner(_: Array, theta: Params) -> Params:
            return advance(theta, tied(theta, r), -hparams.inner_lr)

        theta = jax.lax.fori_loop(0, jnp.int32(hparams.inner_steps), inner, theta)
        return move(w, difference(w, theta), -task.learning_rate * hparams.strength), theta

    w, theta = jax.lax.fori_loop(0, task.steps, step, (server.params, server.params))
    sent = with_trained(theta, trained(w))  # a model's state is that of the model that trained
    return difference(server.params, sent), theta


def personalize(
    hparams: HParams, server: Server, client_state: Params, client: Client, task: LocalTask
) -> Params:
    """Return θ_k."""
    return client_state


def pfedme(
    strength: ArrayLike = 15.0, inner_steps: ArrayLike = 5, inner_lr: ArrayLike = 0.01
) -> Algorithm:
    """Return pFedMe, in which a Moreau envelope ties personal models to the global one.

    Args:
        strength: λ, how strongly personal models are tied to the global one.
        inner_steps: K, the number of gradient steps for a personal model.
        inner_lr: α, the learning rate of these steps.
    """
    check_number("algorithm.strength", strength, above=0)
    check_number("algorithm.inner_steps", inner_steps, least=1, whole=True)
    check_number("algorithm.inner_lr", inner_lr, above=0)
    return BASE._replace(
        name="pfedme",
        hparams=HParams(strength, inner_steps, inner_lr),
        init_client=init_client,
        client_update=client_update,
        personalize=personalize,
        needs_sgd=True,
    )
