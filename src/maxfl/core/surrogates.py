"""Smooth stand-ins h(z) for "the requirement is unmet", z = (F_k − ρ_k)/T, and their slopes.

Cho et al., TMLR 2024, appendix A. A surrogate enters training by its slope alone: the weight of a
client is q = h'(z). Like ``appeal``, pure and elementwise, on NumPy and JAX arrays alike.

    sigmoid      h = σ(z)             q = σ(z)(1 − σ(z))     MaxFL
    relu         h = max(z, 0)        q = 1 if z > 0 else 0
    log          h = log(1 + e^z)     q = σ(z)
    exponential  h = e^z              q = e^z
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from maxfl.core import appeal

STEEPEST = 30.0
"""Largest exponent of the exponential: beyond it weights would overflow, and one client has all."""


class Surrogate(NamedTuple):
    """A surrogate of the unmet requirement.

    Attributes:
        name: In words.
        value: h(z).
        slope: h'(z), the weight of a client.
    """

    name: str
    value: Callable[[Any], Any]
    slope: Callable[[Any], Any]


def _relu(z: Any) -> Any:
    return appeal.namespace(z).maximum(z, 0.0)


def _relu_slope(z: Any) -> Any:
    return appeal.namespace(z).where(z > 0, 1.0, 0.0)


def _log(z: Any) -> Any:
    return appeal.namespace(z).logaddexp(0.0, z)


def _exponential(z: Any) -> Any:
    """Return e^z, and beyond ``STEEPEST`` its tangent, so that it stays convex."""
    return _exponential_slope(z) * (1 + appeal.namespace(z).maximum(z - STEEPEST, 0.0))


def _exponential_slope(z: Any) -> Any:
    return appeal.namespace(z).exp(appeal.namespace(z).minimum(z, STEEPEST))


SIGMOID = Surrogate("sigmoid", lambda z: appeal.objective(z, 0.0), lambda z: appeal.weight(z, 0.0))
RELU = Surrogate("ReLU", _relu, _relu_slope)
LOG = Surrogate("log", _log, appeal.sigmoid)
EXPONENTIAL = Surrogate("exponential", _exponential, _exponential_slope)
SURROGATES = (SIGMOID, RELU, LOG, EXPONENTIAL)
