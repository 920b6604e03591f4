"""MaxFL with other surrogates of the unmet requirement, for the ablation.

Cho et al., "Maximizing Global Model Appeal in Federated Learning", TMLR 2024, appendix A. MaxFL
minimises 1/M Σ h((F_k − ρ_k)/T); ``maxfl.surrogates`` has h and its slope, the weight q = h'(z).
All but the sigmoid are convex: q never falls with the loss, so that the clients out of reach steer
the model, and for two clients' mean estimation the minimiser is FedAvg's (lemma A.2). They differ
from MaxFL in the weight alone.
"""

from collections.abc import Callable

from jax import Array
from numpy.typing import ArrayLike

from maxfl.algorithms.maxfl import HParams, maxfl
from maxfl.core.algorithm import Algorithm, Client, Server
from maxfl.core.surrogates import EXPONENTIAL, LOG, RELU, Surrogate


def _weight(surrogate: Surrogate) -> Callable[[HParams, Server, Client], Array]:
    """Return the weight q = h'(z) of a surrogate."""

    def weight(hparams: HParams, server: Server, client: Client) -> Array:
        return surrogate.slope((client.finetuned_cost - client.requirement) / hparams.temperature)

    return weight


# Made once, so that equal methods share one compiled program.
relu_weight, log_weight, exponential_weight = map(_weight, (RELU, LOG, EXPONENTIAL))


def maxfl_relu(temperature: ArrayLike = 1.0, epsilon: ArrayLike = 1e-3) -> Algorithm:
    """Return MaxFL with the ReLU instead of the sigmoid.

    Args:
        temperature: T, the temperature in units of the loss.
        epsilon: ε, added to the sum of the weights.
    """
    return maxfl(temperature, epsilon)._replace(name="maxfl-relu", weight=relu_weight)


def maxfl_log(temperature: ArrayLike = 1.0, epsilon: ArrayLike = 1e-3) -> Algorithm:
    """Return MaxFL with log(1 + e^z) instead of the sigmoid.

    Args:
        temperature: T, the temperature in units of the loss.
        epsilon: ε, added to the sum of the weights.
    """
    return maxfl(temperature, epsilon)._replace(name="maxfl-log", weight=log_weight)


def maxfl_exponential(temperature: ArrayLike = 1.0, epsilon: ArrayLike = 1e-3) -> Algorithm:
    """Return MaxFL with e^z instead of the sigmoid.

    Args:
        temperature: T, the temperature in units of the loss.
        epsilon: ε, added to the sum of the weights.
    """
    return maxfl(temperature, epsilon)._replace(name="maxfl-exponential", weight=exponential_weight)
