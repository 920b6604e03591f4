"""FedProx: local steps are held near the global model.

Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020, algorithm 2.

    w_k ← w_k − η_l (∇f_k(w_k) + μ (w_k − w))

It differs from FedAvg in the local gradient; μ = 0 is FedAvg. The authors' code also lets slow
clients do fewer steps; here all clients do τ, as for every other method.
"""

from typing import Any, NamedTuple

import jax
from jax import Array
from numpy.typing import ArrayLike

from maxfl.algorithms.contract import Algorithm, Client, Server, Work, descend, difference, move
from maxfl.algorithms.fedavg import alike, fedavg
from maxfl.errors import check_number
from maxfl.model import Params


class Hyper(NamedTuple):
    """Numbers of FedProx: μ, how strongly clients are held near the global model."""

    mu: Any = 0.1


def local(
    hyper: Hyper,
    server: Server,
    memory: Any,
    client: Client,  # noqa: ARG001
    work: Work,
) -> tuple[Params, Any]:
    """τ steps on the loss and μ/2 ‖w_k − w‖²."""

    def gradient(w: Params, r: Array) -> Params:
        pull = jax.tree.map(lambda own, shared: own - shared, w, server.params)
        return move(work.gradient(w, r), pull, hyper.mu)

    trained = descend(server.params, gradient, work.steps, work.learning_rate)
    return difference(server.params, trained), memory


def fedprox(mu: ArrayLike = 0.1) -> Algorithm:
    """FedProx, whose clients are held near the global model.

    Args:
        mu: μ, the strength of the pull; 0 is FedAvg.
    """
    check_number("algorithm.mu", mu, least=0)
    return fedavg()._replace(name="fedprox", hyper=Hyper(mu), weight=alike, local=local)
