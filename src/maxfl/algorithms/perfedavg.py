"""Per-FedAvg: a model from which one step on own data leads far.

Fallah, Mokhtari, Ozdaglar, "Personalized Federated Learning with Theoretical Guarantees: A
Model-Agnostic Meta-Learning Approach", NeurIPS 2020, algorithm 1. With minibatches D₁, D₂, D₃:

    w' = w_k − α ∇f(w_k; D₁),  g = ∇f(w'; D₂)
    first order:   w_k ← w_k − η_l g
    Hessian-free:  w_k ← w_k − η_l (g − α (∇f(w_k + δg; D₃) − ∇f(w_k − δg; D₃)) / 2δ)

It differs from FedAvg in the local step, which needs two gradients, or four; and a client uses the
model after one step of α on its own training data, never on test data. α = 0 is FedAvg, on every
second (Hessian-free: third) minibatch. Written from the paper; no code of the authors was at hand.
"""

from typing import Any, NamedTuple

import jax
from jax import Array
from numpy.typing import ArrayLike

from maxfl.algorithms.fedavg import BASE
from maxfl.algorithms.fedavg import local as train
from maxfl.core.algorithm import Algorithm, Client, Server, Work, difference, move
from maxfl.core.model import Params
from maxfl.utils.errors import check_number


class Hyper(NamedTuple):
    """Numbers of Per-FedAvg.

    Attributes:
        alpha: α, the step of a client that adapts the model.
        delta: δ, the step of the finite difference, Hessian-free variant only.
    """

    alpha: Any = 0.01
    delta: Any = 1e-3


def first_order(
    hyper: Hyper,
    server: Server,
    memory: Any,
    client: Client,
    work: Work,
) -> tuple[Params, Any]:
    """τ steps along the gradient after adapting."""

    def gradient(w: Params, r: Array, scale: Any = 1.0) -> Params:
        adapted = move(w, work.gradient(w, 2 * r), -hyper.alpha)
        return work.gradient(adapted, 2 * r + 1, scale)

    return train(hyper, server, memory, client, work._replace(gradient=gradient))


def hessian_free(
    hyper: Hyper,
    server: Server,
    memory: Any,
    client: Client,
    work: Work,
) -> tuple[Params, Any]:
    """τ steps along (I − α∇²f) g, the product by a finite difference."""

    def gradient(w: Params, r: Array, scale: Any = 1.0) -> Params:
        g = work.gradient(move(w, work.gradient(w, 3 * r), -hyper.alpha), 3 * r + 1)
        ahead = work.gradient(move(w, g, hyper.delta), 3 * r + 2)
        behind = work.gradient(move(w, g, -hyper.delta), 3 * r + 2)
        curvature = difference(ahead, behind)
        corrected = move(g, curvature, -hyper.alpha / (2 * hyper.delta))
        return jax.tree.map(lambda leaf: scale * leaf, corrected)

    return train(hyper, server, memory, client, work._replace(gradient=gradient))


def personal(hyper: Hyper, server: Server, memory: Any, client: Client, work: Work) -> Params:  # noqa: ARG001
    """One step of α on the client's own training data."""
    return move(server.params, work.gradient(server.params, 0), -hyper.alpha)


def perfedavg(alpha: ArrayLike = 0.01) -> Algorithm:
    """Per-FedAvg, first order: a model from which one step on own data leads far.

    Args:
        alpha: α, the step of a client that adapts the model.
    """
    check_number("algorithm.alpha", alpha, least=0)
    return BASE._replace(name="perfedavg", hyper=Hyper(alpha), local=first_order, personal=personal)


def perfedavg_hf(alpha: ArrayLike = 0.01, delta: ArrayLike = 1e-3) -> Algorithm:
    """Per-FedAvg, Hessian-free.

    Args:
        alpha: α, the step of a client that adapts the model.
        delta: δ, the step of the finite difference.
    """
    check_number("algorithm.alpha", alpha, least=0)
    check_number("algorithm.delta", delta, above=0)
    return perfedavg()._replace(name="perfedavg-hf", hyper=Hyper(alpha, delta), local=hessian_free)
