"""The server's step: what becomes of a method's direction d, with optax.

Reddi et al., "Adaptive Federated Optimization", ICLR 2021: the direction of any method, MaxFL's
included, is a pseudo-gradient that an optimizer of the server takes.

    sgd       w ← w − η_g d                                      (plain; the paper)
    momentum  m ← β₁ m + d,  w ← w − η_g m                       (FedAvgM)
    adam      w ← w − η_g m̂ / (√v̂ + ε)                           (FedAdam)
    yogi      the same, with v growing additively                (FedYogi)

optax's rules: both moments are corrected for their start at 0, where Reddi et al. start v at τ² and
correct nothing, and Yogi starts both at 1e-6. Adam and Yogi step by about η_g per weight whatever
the direction's length, so they need a server learning rate near 0.01.
"""

from enum import StrEnum
from typing import Any, NamedTuple

import jax
import optax
from jax import Array
from numpy.typing import ArrayLike

from maxfl.core.algorithm import Pytree, difference
from maxfl.core.model import Params, Variables
from maxfl.utils.errors import check_number


class OptimizerKind(StrEnum):
    """Which optimizer."""

    SGD = "sgd"
    MOMENTUM = "momentum"
    ADAM = "adam"
    YOGI = "yogi"


class OptimizerHParams(NamedTuple):
    """Hyper-parameters of an optimizer.

    Attributes:
        beta1: Decay of the first moment.
        beta2: Decay of the second moment.
        eps: ε below the fraction of Adam and Yogi.
    """

    beta1: Any = 0.9
    beta2: Any = 0.99
    eps: Any = 1e-3


class ServerOptimizer(NamedTuple):
    """The optimizer and its hyper-parameters."""

    kind: OptimizerKind = OptimizerKind.SGD
    hparams: OptimizerHParams = OptimizerHParams()


def sgd() -> ServerOptimizer:
    """Take plain steps along the method's direction."""
    return ServerOptimizer()


def momentum(beta1: ArrayLike = 0.9) -> ServerOptimizer:
    """Step along a decaying sum of directions (FedAvgM)."""
    return _checked(OptimizerKind.MOMENTUM, OptimizerHParams(beta1))


def adam(beta1: ArrayLike = 0.9, beta2: ArrayLike = 0.99, eps: ArrayLike = 1e-3) -> ServerOptimizer:
    """Take the steps of FedAdam; β₁, β₂ and ε as in the paper."""
    return _checked(OptimizerKind.ADAM, OptimizerHParams(beta1, beta2, eps))


def yogi(beta1: ArrayLike = 0.9, beta2: ArrayLike = 0.99, eps: ArrayLike = 1e-3) -> ServerOptimizer:
    """Take the steps of FedYogi; β₁, β₂ and ε as in the paper."""
    return _checked(OptimizerKind.YOGI, OptimizerHParams(beta1, beta2, eps))


def _checked(kind: OptimizerKind, hparams: OptimizerHParams) -> ServerOptimizer:
    check_number("server.beta1", hparams.beta1, least=0, below=1)
    check_number("server.beta2", hparams.beta2, least=0, below=1)
    check_number("server.eps", hparams.eps, above=0)
    return ServerOptimizer(kind, hparams)


def transformation(kind: OptimizerKind, hparams: OptimizerHParams) -> optax.GradientTransformation:
    """Return the optimizer without its learning rate."""
    match kind:
        case OptimizerKind.SGD:
            return optax.identity()
        case OptimizerKind.MOMENTUM:
            return optax.trace(hparams.beta1)
        case OptimizerKind.ADAM:
            return optax.scale_by_adam(hparams.beta1, hparams.beta2, hparams.eps)
        case OptimizerKind.YOGI:
            return optax.scale_by_yogi(hparams.beta1, hparams.beta2, hparams.eps)


def take_step(
    kind: OptimizerKind,
    hparams: OptimizerHParams,
    learning_rate: Array,
    direction: Params,
    params: Params,
    opt_state: Pytree,
) -> tuple[Params, Pytree]:
    """Return the new model, and what the optimizer keeps; state is averaged, not optimized."""
    if isinstance(params, Variables):
        moved, opt_state = take_step(
            kind, hparams, learning_rate, direction.params, params.params, opt_state
        )
        return Variables(moved, difference(params.state, direction.state)), opt_state
    step, opt_state = transformation(kind, hparams).update(direction, opt_state, params)
    return jax.tree.map(lambda w, d: w - learning_rate * d, params, step), opt_state
