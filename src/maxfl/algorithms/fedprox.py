"""FedProx: a proximal term holds local steps near the global model.

Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020, algorithm 2.

    w_k ← w_k − η_l (∇f_k(w_k) + μ (w_k − w))

It differs from FedAvg in the local gradient; μ = 0 is FedAvg. The authors' code also lets slow
clients do fewer steps; here all clients do τ, as for every other method.
"""

from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from maxfl.algorithms.fedavg import BASE
from maxfl.algorithms.fedavg import client_update as train
from maxfl.core.algorithm import Algorithm, Client, LocalTask, Server, pulled
from maxfl.core.model import Params
from maxfl.utils.errors import check_number


class HParams(NamedTuple):
    """Hyper-parameters of FedProx: μ, how strongly clients are held near the global model."""

    mu: Any = 0.1


def client_update(
    hparams: HParams, server: Server, client_state: Any, client: Client, task: LocalTask
) -> tuple[Params, Any]:
    """Take τ steps on the loss and μ/2 ‖w_k − w‖²."""
    held = pulled(task.gradient, server.params, hparams.mu)
    return train(hparams, server, client_state, client, task._replace(gradient=held))


def fedprox(mu: ArrayLike = 0.1) -> Algorithm:
    """Return FedProx, whose proximal term holds local steps near the global model.

    Args:
        mu: μ, the strength of the proximal term; 0 is FedAvg.
    """
    check_number("algorithm.mu", mu, least=0)
    return BASE._replace(name="fedprox", hparams=HParams(mu), client_update=client_update)
