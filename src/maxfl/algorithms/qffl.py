"""q-FFL by q-FedAvg: clients with a large loss count more.

Li, Sanjabi, Beirami, Smith, "Fair Resource Allocation in Federated Learning", ICLR 2020,
algorithm 2, with L = 1/η_l and F_k(w) before the round, on the data that clients judge by (in the
paper, and with ``requirement.judge = "training"``, all training data):

    g_k = Δ_k/η_l,   D_k = F_k^q g_k,   h_k = q F_k^(q−1) ‖g_k‖² + F_k^q/η_l,   w ← w − η_g ΣD/Σh

Written here with the weight F_k^q and the update (Δ_k, 1 + q‖Δ_k‖²/(η_l F_k)), which is the same
fraction. It differs from FedAvg in the weight and in that second part; q = 0 is FedAvg. As in the
authors' code, 1e-10 is added to the loss. A large q emulates AFL.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from numpy.typing import ArrayLike

from maxfl.algorithms.fedavg import BASE
from maxfl.algorithms.fedavg import client_update as train
from maxfl.core import appeal
from maxfl.core.algorithm import (
    Algorithm,
    Client,
    Cohort,
    CompositeUpdate,
    LocalTask,
    Server,
    WeightedSum,
    average,
    trained,
    with_trained,
)
from maxfl.core.model import Params
from maxfl.utils.errors import check_number


class HParams(NamedTuple):
    """Hyper-parameters of q-FFL: q, how much a large loss counts."""

    q: Any = 1.0


def weight(hparams: HParams, server: Server, client: Client) -> Array:
    """Return F_k^q."""
    return appeal.fair_weight(client.loss, hparams.q)


def client_update(
    hparams: HParams, server: Server, client_state: Any, client: Client, task: LocalTask
) -> tuple[CompositeUpdate, Any]:
    """Take τ steps of SGD; beside Δ_k goes h_k/F_k^q, times η_l."""
    delta, client_state = train(hparams, server, client_state, client, task)
    square = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(trained(delta)))
    steepness = 1 + hparams.q * square / (task.learning_rate * (client.loss + appeal.TINY))
    return CompositeUpdate(delta, steepness), client_state


def server_update(
    hparams: HParams, server: Server, total: WeightedSum, cohort: Cohort
) -> tuple[Params, Any]:
    """Move along Σ D_k / Σ h_k; a model's state is a plain mean by the weights."""
    step = average(WeightedSum(trained(total.update.model), total.update.more))
    mean = average(WeightedSum(total.update.model, total.weight))
    return with_trained(mean, step), server.state


def qffl(q: ArrayLike = 1.0) -> Algorithm:
    """Return q-FFL, in which clients with a large loss count more: the larger q, the fairer.

    Args:
        q: how much more a large loss counts; 0 is FedAvg.
    """
    check_number("algorithm.q", q, least=0)
    return BASE._replace(
        name="qffl",
        hparams=HParams(q),
        weight=weight,
        client_update=client_update,
        server_update=server_update,
        needs_sgd=True,
    )
