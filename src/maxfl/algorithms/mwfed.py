"""MW-Fed: clients whose requirement is unmet gain weight in every round.

Blum, Haghtalab, Phillips, Shao, "One for One, or All for All: Equilibria and Optimality of
Collaboration in Federated Learning", ICML 2021: multiplicative weights over clients.

    W_k ← c W_k while F_k(w) ≥ ρ_k;   p_k = W_k / max_j W_j
    w ← w − η_g Σ p_k Δ_k / Σ p_k,    client k does max(1, round(p_k τ)) local steps

It differs from FedAvg in the weight, a state of the server, and in the local work; c = 1 is FedAvg.
The authors pool one minibatch of all clients, each contributing by its weight, and take c = 4;
weighing the updates and letting heavy clients work more is our reading of it for local steps. The
heaviest do τ steps and nobody more. Weights are kept as logarithms: W_k itself would overflow.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array
from numpy.typing import ArrayLike

from maxfl.algorithms.fedavg import BASE
from maxfl.algorithms.fedavg import client_update as train
from maxfl.core.algorithm import Algorithm, Client, Cohort, LocalTask, Server, WeightedSum, average
from maxfl.core.model import Params
from maxfl.utils.errors import check_number

FAINTEST = -60.0
"""Smallest log p_k: a cohort of clients far behind still moves the model by its mean."""


class HParams(NamedTuple):
    """Hyper-parameters of MW-Fed: c, the factor by which weights of unmet clients grow."""

    factor: Any = 4.0


def init_server(params: Params, clients: int) -> Array:
    """Return log W_k = 0."""
    return jnp.zeros(clients)


def weight(hparams: HParams, server: Server, client: Client) -> Array:
    """Return p_k = W_k / max_j W_j; unseen clients have next to none."""
    weight = server.state.at[client.client_id].get(mode="fill", fill_value=-jnp.inf)
    return jnp.exp(jnp.maximum(weight - server.state.max(), FAINTEST))


def client_update(
    hparams: HParams, server: Server, client_state: Any, client: Client, task: LocalTask
) -> tuple[Params, Any]:
    """Take as many steps of SGD as the client has weight, at least one and at most τ."""
    steps = jnp.maximum(1, jnp.round(task.steps * weight(hparams, server, client))).astype(int)
    return train(hparams, server, client_state, client, task._replace(steps=steps))


def server_update(
    hparams: HParams, server: Server, total: WeightedSum, cohort: Cohort
) -> tuple[Params, Array]:
    """Move along the mean of the updates by p; then those that are unmet gain weight."""
    unmet = cohort.participated & (cohort.cost >= cohort.requirement)
    gain = jnp.where(unmet, jnp.log(hparams.factor), 0.0)
    return average(total), server.state.at[cohort.client_id].add(gain)


def mwfed(factor: ArrayLike = 4.0) -> Algorithm:
    """Return MW-Fed, in which clients with unmet requirements gain weight in every round.

    Args:
        factor: c, the factor by which such a client's weight grows; 1 is FedAvg.
    """
    check_number("algorithm.factor", factor, least=1)
    return BASE._replace(
        name="mwfed",
        hparams=HParams(factor),
        init_server=init_server,
        weight=weight,
        client_update=client_update,
        server_update=server_update,
    )
