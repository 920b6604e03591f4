"""MaxFL: a model that appeals to as many clients as possible.

Cho et al., "Maximizing Global Model Appeal in Federated Learning", TMLR 2024, algorithm 1.

    q_k = s(1 − s),  s = σ((F_k(w) − ρ_k)/T),   w ← w − η_g · Σ q_k Δ_k / (Σ q_k + ε)

It differs from FedAvg in the weight, and in ε below the fraction. T = 1 is the paper. A client far
below its requirement is content, one far above it is out of reach: both get a weight near 0.
The printed algorithm says q = σ(·); we take eq. 4's s(1 − s), the gradient (docs/paper.md).
"""

from typing import Any, NamedTuple

from jax import Array
from numpy.typing import ArrayLike

from maxfl.algorithms.fedavg import BASE
from maxfl.core import appeal
from maxfl.core.algorithm import Algorithm, Client, Cohort, Server, WeightedSum, average
from maxfl.core.model import Params
from maxfl.utils.errors import check_number


class HParams(NamedTuple):
    """Hyper-parameters of MaxFL.

    Attributes:
        temperature: T, the width of the sigmoid in units of the loss.
        epsilon: ε, which keeps a round of clients with tiny weights from taking a full step.
    """

    temperature: Any = 1.0
    epsilon: Any = 1e-3


def weight(hparams: HParams, server: Server, client: Client) -> Array:
    """Return q_k = s(1 − s) of the gap, eq. 4; of the fine-tuned model, if any."""
    return appeal.weight(client.finetuned_cost, client.requirement, hparams.temperature)


def server_update(
    hparams: HParams, server: Server, total: WeightedSum, cohort: Cohort
) -> tuple[Params, Any]:
    """Move along Σ q_k Δ_k / (Σ q_k + ε), the adaptive server learning rate of section 3."""
    return average(total, hparams.epsilon), server.state


def maxfl(temperature: ArrayLike = 1.0, epsilon: ArrayLike = 1e-3) -> Algorithm:
    """Return MaxFL, for a model that appeals to as many clients as possible.

    Args:
        temperature: T, the width of the sigmoid in units of the loss; 1 in the paper.
        epsilon: ε, added to the sum of the weights.
    """
    check_number("algorithm.temperature", temperature, above=0)
    check_number("algorithm.epsilon", epsilon, least=0)
    return BASE._replace(
        name="maxfl",
        hparams=HParams(temperature, epsilon),
        weight=weight,
        server_update=server_update,
    )
