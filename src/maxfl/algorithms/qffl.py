"""q-FFL by q-FedAvg: clients with a large loss pull harder.

Li, Sanjabi, Beirami, Smith, "Fair Resource Allocation in Federated Learning", ICLR 2020,
algorithm 2, with L = 1/η_l and F_k(w) over all training data before the round:

    g_k = (w − w_k)/η_l,   D_k = F_k^q g_k,   h_k = q F_k^(q−1) ‖g_k‖² + F_k^q/η_l
    w ← w − η_g Σ D_k / Σ h_k

It differs from FedAvg in what a client sends, the pair (D_k, h_k), and in the fraction; q = 0 is
FedAvg. As in the authors' code, 1e-10 is added to the loss. A large q emulates AFL.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from numpy.typing import ArrayLike

from maxfl.algorithms.contract import Algorithm, Client, Cohort, Server, Total, Work, average
from maxfl.algorithms.fedavg import alike, fedavg
from maxfl.algorithms.fedavg import local as train
from maxfl.errors import check_number
from maxfl.model import Params

TINY = 1e-10
"""Added to the loss, so that a power of it exists when it is 0."""


class Hyper(NamedTuple):
    """Numbers of q-FFL: q, how much a large loss counts."""

    q: Any = 1.0


class Update(NamedTuple):
    """What a client sends: D_k and h_k."""

    direction: Params
    curvature: Array


def local(
    hyper: Hyper, server: Server, memory: Any, client: Client, work: Work
) -> tuple[Update, Any]:
    """τ steps of SGD; the update is D_k and h_k."""
    delta, memory = train(hyper, server, memory, client, work)
    g = jax.tree.map(lambda d: d / work.learning_rate, delta)
    loss = client.loss + TINY
    square = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(g))
    h = hyper.q * loss ** (hyper.q - 1) * square + loss**hyper.q / work.learning_rate
    return Update(jax.tree.map(lambda leaf: loss**hyper.q * leaf, g), h), memory


def server(hyper: Hyper, server: Server, total: Total, cohort: Cohort) -> tuple[Params, Any]:  # noqa: ARG001
    """Direction: Σ D_k / Σ h_k."""
    return average(Total(total.update.direction, total.update.curvature)), server.state


def qffl(q: ArrayLike = 1.0) -> Algorithm:
    """q-FFL, which is fairer the larger q.

    Args:
        q: How much a large loss counts; 0 is FedAvg.
    """
    check_number("algorithm.q", q, least=0)
    return fedavg()._replace(name="qffl", hyper=Hyper(q), weight=alike, local=local, server=server)
