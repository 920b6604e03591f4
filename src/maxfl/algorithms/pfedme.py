"""pFedMe: personal models tied to the global one by a Moreau envelope.

Dinh, Tran, Nguyen, "Personalized Federated Learning with Moreau Envelopes", NeurIPS 2020,
algorithm 1. In each of τ local steps, on one minibatch:

    K times  θ ← θ − α (∇f(θ) + λ (θ − w_k)),   then  w_k ← w_k − η_l λ (w_k − θ)
    w ← w − η_g mean_k(w − w_k)                                          β = η_g

It differs from FedAvg in the local step, of K gradients, and clients use their own θ. λη_l = 1 and
K = 1 are FedAvg with the rate α. θ starts at the received model and goes on from step to step of a
round, as in the authors' code. That code also hides a weight decay of 1e-3 in its optimiser (left
out here) and lets all clients train in every round, of which it averages some; here only those that
are asked train, so the others' θ are of the round in which they were last asked.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from numpy.typing import ArrayLike

from maxfl.algorithms.fedavg import BASE
from maxfl.core.algorithm import Algorithm, Client, Server, Work, difference, move, pulled
from maxfl.core.model import Params
from maxfl.utils.errors import check_number


class Hyper(NamedTuple):
    """Numbers of pFedMe.

    Attributes:
        strength: λ, how strongly a personal model is tied to the global one.
        inner_steps: K, gradient steps towards the personal model.
        inner_lr: α, their rate.
    """

    strength: Any = 15.0
    inner_steps: Any = 5
    inner_lr: Any = 0.01


def memory(params: Params) -> Params:
    """A client's personal model is the received one, until it has trained."""
    return params


def local(
    hyper: Hyper,
    server: Server,
    memory: Params,  # noqa: ARG001
    client: Client,  # noqa: ARG001
    work: Work,
) -> tuple[Params, Params]:
    """τ steps towards personal models; keeps the last of them."""

    def step(r: Array, both: tuple[Params, Params]) -> tuple[Params, Params]:
        w, theta = both
        tied = pulled(work.gradient, w, hyper.strength)

        def inner(_: Array, theta: Params) -> Params:
            return move(theta, tied(theta, r), -hyper.inner_lr)

        theta = jax.lax.fori_loop(0, jnp.int32(hyper.inner_steps), inner, theta)
        return move(w, difference(w, theta), -work.learning_rate * hyper.strength), theta

    w, theta = jax.lax.fori_loop(0, work.steps, step, (server.params, server.params))
    return difference(server.params, w), theta


def personal(hyper: Hyper, server: Server, memory: Params, client: Client, work: Work) -> Params:  # noqa: ARG001
    """θ_k."""
    return memory


def pfedme(
    strength: ArrayLike = 15.0, inner_steps: ArrayLike = 5, inner_lr: ArrayLike = 0.01
) -> Algorithm:
    """pFedMe, whose personal models are tied to the global one.

    Args:
        strength: λ, how strongly personal models are tied to the global one.
        inner_steps: K, gradient steps towards a personal model.
        inner_lr: α, their rate.
    """
    check_number("algorithm.strength", strength, above=0)
    check_number("algorithm.inner_steps", inner_steps, least=1, whole=True)
    check_number("algorithm.inner_lr", inner_lr, above=0)
    return BASE._replace(
        name="pfedme",
        hyper=Hyper(strength, inner_steps, inner_lr),
        memory=memory,
        local=local,
        personal=personal,
    )
