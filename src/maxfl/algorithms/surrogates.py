"""MaxFL with other surrogates of the unmet requirement, for the ablation.

Cho et al., "Maximizing Global Model Appeal in Federated Learning", TMLR 2024, appendix A. MaxFL
minimises 1/M Σ h((F_k − ρ_k)/T); a surrogate h enters by its slope, the weight q = h'(z):

    sigmoid      h = σ(z)             q = σ(z)(1 − σ(z))     MaxFL itself
    relu         h = max(z, 0)        q = 1 if z > 0 else 0
    log          h = log(1 + e^z)     q = σ(z)
    exponential  h = e^z              q = e^z

All but the sigmoid are convex: q grows with the loss, so that the clients out of reach steer the
model, and on mean estimation the minimiser is FedAvg's (lemma A.2). They differ from MaxFL in the
weight alone.
"""

import jax
import jax.numpy as jnp
from jax import Array
from numpy.typing import ArrayLike

from maxfl.algorithms.contract import Algorithm, Client, Server
from maxfl.algorithms.maxfl import Hyper, maxfl

STEEPEST = 30.0
"""Largest exponent of the exponential: beyond it weights would overflow, and one client has all."""


def relu_weight(hyper: Hyper, server: Server, client: Client) -> Array:  # noqa: ARG001
    """1 for a client whose requirement is unmet."""
    return (_gap(hyper, client) > 0).astype(jnp.float32)


def log_weight(hyper: Hyper, server: Server, client: Client) -> Array:  # noqa: ARG001
    """σ(z)."""
    return jax.nn.sigmoid(_gap(hyper, client))


def exponential_weight(hyper: Hyper, server: Server, client: Client) -> Array:  # noqa: ARG001
    """e^z."""
    return jnp.exp(jnp.minimum(_gap(hyper, client), STEEPEST))


def _gap(hyper: Hyper, client: Client) -> Array:
    return (client.tuned_loss - client.requirement) / hyper.temperature


def maxfl_relu(temperature: ArrayLike = 1.0, epsilon: ArrayLike = 1e-3) -> Algorithm:
    """MaxFL with the ReLU in the sigmoid's place.

    Args:
        temperature: T, in units of the loss.
        epsilon: ε, added to the sum of the weights.
    """
    return maxfl(temperature, epsilon)._replace(name="maxfl-relu", weight=relu_weight)


def maxfl_log(temperature: ArrayLike = 1.0, epsilon: ArrayLike = 1e-3) -> Algorithm:
    """MaxFL with log(1 + e^z) in the sigmoid's place.

    Args:
        temperature: T, in units of the loss.
        epsilon: ε, added to the sum of the weights.
    """
    return maxfl(temperature, epsilon)._replace(name="maxfl-log", weight=log_weight)


def maxfl_exponential(temperature: ArrayLike = 1.0, epsilon: ArrayLike = 1e-3) -> Algorithm:
    """MaxFL with e^z in the sigmoid's place.

    Args:
        temperature: T, in units of the loss.
        epsilon: ε, added to the sum of the weights.
    """
    return maxfl(temperature, epsilon)._replace(name="maxfl-exponential", weight=exponential_weight)
