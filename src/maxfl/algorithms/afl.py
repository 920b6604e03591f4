"""AFL: the mixture of clients for which the model is worst.

Mohri, Sivek, Suresh, "Agnostic Federated Learning", ICML 2019: min_w max_λ Σ λ_k F_k(w), λ on the
simplex.

    w ← w − η_g Σ λ_k Δ_k / Σ λ_k over the cohort
    λ_k ← λ_k + γ F_k(w) for the cohort, then projected onto the simplex

It differs from FedAvg in the weight, which is a state of the server; γ = 0 is FedAvg. The paper's
Stochastic-AFL takes one gradient step of all clients; with local steps and a cohort this is the
usual federated form of it, and our reading; no code of the authors was at hand.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array
from numpy.typing import ArrayLike

from maxfl.algorithms.fedavg import BASE
from maxfl.core.algorithm import Algorithm, Client, Cohort, Server, Total, average
from maxfl.core.model import Params
from maxfl.utils.errors import check_number


class Hyper(NamedTuple):
    """Numbers of AFL: γ, the step of the mixture."""

    gamma: Any = 0.01


def init(params: Params, clients: int) -> Array:  # noqa: ARG001
    """λ = 1/M for everyone."""
    return jnp.full(clients, 1 / clients)


def weight(hyper: Hyper, server: Server, client: Client) -> Array:  # noqa: ARG001
    """λ_k; unseen clients have none."""
    return server.state.at[client.number].get(mode="fill", fill_value=0.0)


def server(hyper: Hyper, server: Server, total: Total, cohort: Cohort) -> tuple[Params, Array]:
    """Direction: the mean of the updates by λ; then λ climbs."""
    heard = cohort.took_part & jnp.isfinite(cohort.loss)
    climb = jnp.where(heard, hyper.gamma * cohort.loss, 0.0)
    mixture = project(server.state.at[cohort.client].add(climb))
    return average(total), mixture


def project(v: Array) -> Array:
    """The point of the simplex that is nearest to v; Duchi et al., ICML 2008."""
    high = jnp.sort(v)[::-1]
    excess = (jnp.cumsum(high) - 1) / jnp.arange(1, len(v) + 1)
    last = jnp.sum(high > excess) - 1
    return jnp.maximum(v - excess[last], 0.0)


def afl(gamma: ArrayLike = 0.01) -> Algorithm:
    """AFL, for the worst mixture of clients.

    Args:
        gamma: γ, how fast the mixture climbs; 0 is FedAvg.
    """
    check_number("algorithm.gamma", gamma, least=0)
    return BASE._replace(name="afl", hyper=Hyper(gamma), init=init, weight=weight, server=server)
