"""Per-FedAvg: a model that one step on a client's own data adapts well.

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

from jax import Array
from numpy.typing import ArrayLike

from maxfl.algorithms.fedavg import BASE
from maxfl.algorithms.fedavg import client_update as train
from maxfl.core.algorithm import Algorithm, Client, LocalTask, Server, difference, move
from maxfl.core.algorithm import scale as scaled
from maxfl.core.model import Params
from maxfl.utils.errors import check_number


class HParams(NamedTuple):
    """Hyper-parameters of Per-FedAvg.

    Attributes:
        alpha: α, the step size with which a client adapts the model.
        delta: δ, the step size of the finite difference, Hessian-free variant only.
    """

    alpha: Any = 0.01
    delta: Any = 1e-3


def first_order(
    hparams: HParams,
    server: Server,
    client_state: Any,
    client: Client,
    task: LocalTask,
) -> tuple[Params, Any]:
    """Take τ steps along the gradient after adapting."""

    def gradient(w: Params, r: Array, scale: Any = 1.0) -> Params:
        adapted = move(w, task.gradient(w, 2 * r), -hparams.alpha)
        return task.gradient(adapted, 2 * r + 1, scale)

    return train(hparams, server, client_state, client, task._replace(gradient=gradient))


def hessian_free(
    hparams: HParams,
    server: Server,
    client_state: Any,
    client: Client,
    task: LocalTask,
) -> tuple[Params, Any]:
    """Take τ steps along (I − α∇²f) g, the product by a finite difference."""

    def gradient(w: Params, r: Array, scale: Any = 1.0) -> Params:
        g = task.gradient(move(w, task.gradient(w, 3 * r), -hparams.alpha), 3 * r + 1)
        ahead = task.gradient(move(w, g, hparams.delta), 3 * r + 2)
        behind = task.gradient(move(w, g, -hparams.delta), 3 * r + 2)
        curvature = difference(ahead, behind)
        corrected = move(g, curvature, -hparams.alpha / (2 * hparams.delta))
        return scaled(corrected, scale)

    return train(hparams, server, client_state, client, task._replace(gradient=gradient))


def personalize(
    hparams: HParams, server: Server, client_state: Any, client: Client, task: LocalTask
) -> Params:
    """Take one step of α on the client's own training data."""
    return move(server.params, task.gradient(server.params, 0), -hparams.alpha)


def perfedavg(alpha: ArrayLike = 0.01) -> Algorithm:
    """Return Per-FedAvg, first order: a model that one step on own data adapts well.

    Args:
        alpha: α, the step size with which a client adapts the model.
    """
    check_number("algorithm.alpha", alpha, least=0)
    return BASE._replace(
        name="perfedavg", hparams=HParams(alpha), client_update=first_order, personalize=personalize
    )


def perfedavg_hf(alpha: ArrayLike = 0.01, delta: ArrayLike = 1e-3) -> Algorithm:
    """Return Per-FedAvg, Hessian-free variant.

    Args:
        alpha: α, the step size with which a client adapts the model.
        delta: δ, the step size of the finite difference.
    """
    check_number("algorithm.alpha", alpha, least=0)
    check_number("algorithm.delta", delta, above=0)
    return perfedavg()._replace(
        name="perfedavg-hf", hparams=HParams(alpha, delta), client_update=hessian_free
    )
