"""AFL: minimise the loss of the worst mixture of clients.

Mohri, Sivek, Suresh, "Agnostic Federated Learning", ICML 2019: min_w max_λ Σ λ_k F_k(w), λ on the
simplex.

    w ← w − η_g Σ λ_k Δ_k / Σ λ_k over the cohort
    λ_k ← λ_k + γ F_k(w) for the cohort, then projected onto the simplex

It differs from FedAvg in the weight, which is a state of the server; γ = 0 is FedAvg. The paper's
Stochastic-AFL takes one gradient step over all clients. The form here, with local steps and a
cohort, is the usual federated one, and our reading; no code of the authors was at hand.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array
from numpy.typing import ArrayLike

from maxfl.algorithms.fedavg import BASE
from maxfl.core.algorithm import Algorithm, Client, Cohort, Server, WeightedSum, average
from maxfl.core.model import Params
from maxfl.utils.errors import check_number


class HParams(NamedTuple):
    """Hyper-parameters of AFL: γ, the step of the mixture."""

    gamma: Any = 0.01


def init_server(params: Params, clients: int) -> Array:
    """Return λ = 1/M for everyone."""
    return jnp.full(clients, 1 / clients, jnp.float32)  # a weak type would compile rounds twice


def weight(hparams: HParams, server: Server, client: Client) -> Array:
    """Return λ_k; unseen clients have none."""
    return server.state.at[client.client_id].get(mode="fill", fill_value=0.0)


def server_update(
    hparams: HParams, server: Server, total: WeightedSum, cohort: Cohort
) -> tuple[Params, Array]:
    """Move along the mean of the updates by λ; then λ climbs."""
    counts = cohort.participated & jnp.isfinite(cohort.loss)
    climb = jnp.where(counts, hparams.gamma * cohort.loss, 0.0)
    mixture = project(server.state.at[cohort.client_id].add(climb))
    return average(total), mixture


def project(v: Array) -> Array:
    """Return the point of the simplex that is nearest to v; Duchi et al., ICML 2008."""
    high = jnp.sort(v)[::-1]
    excess = (jnp.cumsum(high) - 1) / jnp.arange(1, len(v) + 1)
    last = jnp.sum(high > excess) - 1
    return jnp.maximum(v - excess[last], 0.0)


def afl(gamma: ArrayLike = 0.01) -> Algorithm:
    """Return AFL, which minimises the loss of the worst mixture of clients.

    Args:
        gamma: γ, the learning rate of the mixture; 0 is FedAvg.
    """
    check_number("algorithm.gamma", gamma, least=0)
    return BASE._replace(
        name="afl",
        hparams=HParams(gamma),
        init_server=init_server,
        weight=weight,
        server_update=server_update,
    )
