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
    Server,
    Total,
    Work,
    average,
    descend,
    difference,
)
from maxfl.core.model import Params
from maxfl.utils.errors import check_number


class Hyper(NamedTuple):
    """Numbers of FedAvg.

    Attributes:
        by_size: 0 for the plain mean, 1 for weights n_k.
    """

    by_size: Any = 0.0


def init(params: Params, clients: int) -> tuple[()]:  # noqa: ARG001
    """Nothing is kept beside the model."""
    return ()


def memory(params: Params) -> tuple[()]:  # noqa: ARG001
    """Clients keep nothing between rounds."""
    return ()


def weight(hyper: Hyper, server: Server, client: Client) -> Array:  # noqa: ARG001
    """n_k^by_size: 1 for the plain mean, n_k for McMahan's."""
    return client.size.astype(jnp.float32) ** hyper.by_size


def local(
    hyper: Any,  # noqa: ARG001
    server: Server,
    memory: Any,
    client: Client,  # noqa: ARG001
    work: Work,
) -> tuple[Params, Any]:
    """τ steps of SGD from the server's model; the update is Δ_k = w − w_k."""
    trained = descend(server.params, work.gradient, work.steps, work.learning_rate)
    return difference(server.params, trained), memory


def server(hyper: Any, server: Server, total: Total, cohort: Cohort) -> tuple[Params, Any]:  # noqa: ARG001
    """Direction: the weighted mean of the updates."""
    return average(total), server.state


def alike(hyper: Any, server: Server, client: Client) -> Array:  # noqa: ARG001
    """Every client counts the same."""
    return jnp.ones_like(client.loss)


BASE = Algorithm("fedavg", (), init, memory, alike, local, server)
"""The plain mean of all clients' updates: what other methods say their difference from."""


def fedavg(by_size: ArrayLike = 0.0) -> Algorithm:
    """FedAvg, the plain mean of the clients' updates.

    Args:
        by_size: 0 for the plain mean, 1 to weigh clients by their number of samples.
    """
    check_number("algorithm.by_size", by_size, least=0)
    return BASE._replace(hyper=Hyper(by_size), weight=weight)
