"""FedAvg: the plain mean of the clients' updates.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data",
AISTATS 2017.

    w_k ← τ steps of SGD from w,   Δ_k = w − w_k,   w ← w − η_g · mean_k Δ_k

The original weighs clients by their number of samples n_k. The MaxFL paper's objective is the
plain mean of the clients' losses, so that is the default here; ``by_size=1`` gives the original.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array
from numpy.typing import ArrayLike

from maxfl.core.algorithm import (
    Algorithm,
    Client,
    Cohort,
    LocalTask,
    Server,
    WeightedSum,
    average,
    descend,
    difference,
)
from maxfl.core.model import Params
from maxfl.utils.errors import check_number


class HParams(NamedTuple):
    """Hyper-parameters of FedAvg.

    Attributes:
        by_size: 0 for the plain mean, 1 for weights n_k.
    """

    by_size: Any = 0.0


def init_server(params: Params, clients: int) -> tuple[()]:
    """Keep nothing beside the model."""
    return ()


def init_client(params: Params) -> tuple[()]:
    """Keep nothing between rounds."""
    return ()


def weight(hparams: HParams, server: Server, client: Client) -> Array:
    """Return n_k^by_size: 1 for the plain mean, n_k for McMahan's."""
    return client.size.astype(jnp.float32) ** hparams.by_size


def client_update(
    hparams: Any,
    server: Server,
    client_state: Any,
    client: Client,
    task: LocalTask,
) -> tuple[Params, Any]:
    """Take τ local steps from the server's model; the update is Δ_k = w − w_k."""
    w = descend(server.params, task.gradient, task.steps, task.learning_rate, task.optimizer)
    return difference(server.params, w), client_state


def server_update(
    hparams: Any, server: Server, total: WeightedSum, cohort: Cohort
) -> tuple[Params, Any]:
    """Move along the weighted mean of the updates."""
    return average(total), server.state


def alike(hparams: Any, server: Server, client: Client) -> Array:
    """Weigh every client the same."""
    return jnp.ones_like(client.loss)


BASE = Algorithm("fedavg", (), init_server, init_client, alike, client_update, server_update)
"""The plain mean of all clients' updates: what other methods say their difference from."""


def fedavg(by_size: ArrayLike = 0.0) -> Algorithm:
    """Return FedAvg, the plain mean of the clients' updates.

    Args:
        by_size: 0 for the plain mean; 1 to weigh clients by their number of samples.
    """
    check_number("algorithm.by_size", by_size, least=0)
    return BASE._replace(hparams=HParams(by_size), weight=weight)
