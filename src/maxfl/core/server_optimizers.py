"""The server's step: what becomes of a method's direction d, with optax.

Reddi et al., "Adaptive Federated Optimization", ICLR 2021: the direction of any method, MaxFL's
included, is a pseudo-gradient that an optimiser of the server takes.

    sgd       w ← w − η_g d                                      (plain; the paper)
    momentum  m ← β₁ m + d,  w ← w − η_g m                       (FedAvgM)
    adam      w ← w − η_g m̂ / (√v̂ + ε)                           (FedAdam)
    yogi      the same, with v growing additively                (FedYogi)

optax's rules: both moments are corrected for their start at 0, where Reddi et al. start v at τ² and
correct nothing, and Yogi starts both at 1e-6. Adam and Yogi step by about η_g per weight whatever
the direction's length, so they want a server learning rate near 0.01.
"""

from enum import StrEnum
from typing import Any, NamedTuple

import jax
import optax
from jax import Array
from numpy.typing import ArrayLike

from maxfl.core.algorithm import Pytree
from maxfl.core.model import Params
from maxfl.utils.errors import check_number


class Kind(StrEnum):
    """Which optimiser."""

    SGD = "sgd"
    MOMENTUM = "momentum"
    ADAM = "adam"
    YOGI = "yogi"


class Rates(NamedTuple):
    """Numbers of an optimiser.

    Attributes:
        beta1: Decay of the first moment.
        beta2: Decay of the second moment.
        stability: ε below the fraction of Adam and Yogi.
    """

    beta1: Any = 0.9
    beta2: Any = 0.99
    stability: Any = 1e-3


class Optimiser(NamedTuple):
    """The optimiser and its numbers."""

    kind: Kind = Kind.SGD
    rates: Rates = Rates()


def sgd() -> Optimiser:
    """Plain steps along the method's direction."""
    return Optimiser()


def momentum(beta1: ArrayLike = 0.9) -> Optimiser:
    """Steps along a decaying sum of directions (FedAvgM)."""
    return _checked(Kind.MOMENTUM, Rates(beta1))


def adam(beta1: ArrayLike = 0.9, beta2: ArrayLike = 0.99, stability: ArrayLike = 1e-3) -> Optimiser:
    """FedAdam; β₁, β₂ and ε as in the paper."""
    return _checked(Kind.ADAM, Rates(beta1, beta2, stability))


def yogi(beta1: ArrayLike = 0.9, beta2: ArrayLike = 0.99, stability: ArrayLike = 1e-3) -> Optimiser:
    """FedYogi; β₁, β₂ and ε as in the paper."""
    return _checked(Kind.YOGI, Rates(beta1, beta2, stability))


def _checked(kind: Kind, rates: Rates) -> Optimiser:
    check_number("server.beta1", rates.beta1, least=0, below=1)
    check_number("server.beta2", rates.beta2, least=0, below=1)
    check_number("server.stability", rates.stability, above=0)
    return Optimiser(kind, rates)


def transformation(kind: Kind, rates: Rates) -> optax.GradientTransformation:
    """The optimiser without its learning rate."""
    match kind:
        case Kind.SGD:
            return optax.identity()
        case Kind.MOMENTUM:
            return optax.trace(rates.beta1)
        case Kind.ADAM:
            return optax.scale_by_adam(rates.beta1, rates.beta2, rates.stability)
        case Kind.YOGI:
            return optax.scale_by_yogi(rates.beta1, rates.beta2, rates.stability)


def take_step(
    kind: Kind, rates: Rates, learning_rate: Array, direction: Params, params: Params, kept: Pytree
) -> tuple[Params, Pytree]:
    """The new model, and what the optimiser keeps."""
    step, kept = transformation(kind, rates).update(direction, kept, params)
    return jax.tree.map(lambda w, d: w - learning_rate * d, params, step), kept
