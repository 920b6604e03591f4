"""What a client does with its gradients, with optax: plain SGD unless chosen otherwise.

    g ← ∇f(w), shortened to clip_norm if it is longer
    sgd       w ← w − η_l (g + λ w)
    momentum  m ← β₁ m + g + λ w,  w ← w − η_l m
    adam      w ← w − η_l m̂/(√v̂ + ε)               of g + λ w          Kingma, Ba, ICLR 2015
    adamw     w ← w − η_l (m̂/(√v̂ + ε) + λ w)       of g                Loshchilov, Hutter, ICLR 2019

λ is the weight decay. Moments start at 0 in every round and whenever a client trains alone: clients
of a federation keep nothing between rounds but what their method does.
"""

from enum import StrEnum
from typing import Any, NamedTuple

import jax.numpy as jnp
import optax
from numpy.typing import ArrayLike

from maxfl.utils.errors import check_number

ADAMW_DECAY = 0.01
"""AdamW's weight decay where none is given."""


class LocalKind(StrEnum):
    """Which optimizer."""

    SGD = "sgd"
    MOMENTUM = "momentum"
    ADAM = "adam"
    ADAMW = "adamw"


class LocalHParams(NamedTuple):
    """Hyper-parameters of a local optimizer.

    Attributes:
        beta1: Decay of the first moment.
        beta2: Decay of the second moment.
        eps: ε below the fraction of Adam.
        weight_decay: λ.
        clip_norm: Largest norm of a gradient.
    """

    beta1: Any = 0.9
    beta2: Any = 0.999
    eps: Any = 1e-8
    weight_decay: Any = 0.0
    clip_norm: Any = jnp.inf


class LocalOptimizer(NamedTuple):
    """The optimizer, what of it is compiled in, and its hyper-parameters.

    Attributes:
        kind: Which.
        decays: Whether there is weight decay.
        clips: Whether gradients are clipped.
        hparams: The hyper-parameters; None where they are given elsewhere.
    """

    kind: LocalKind = LocalKind.SGD
    decays: bool = False
    clips: bool = False
    hparams: Any = LocalHParams()

    @property
    def is_plain(self) -> bool:
        """Whether steps are w − η_l g."""
        return self.kind is LocalKind.SGD and not self.decays and not self.clips

    def transformation(self) -> optax.GradientTransformation:
        """Return the optimizer without its learning rate."""
        hparams, parts = self.hparams, []
        if self.clips:
            parts.append(optax.clip_by_global_norm(hparams.clip_norm))
        decay = [optax.add_decayed_weights(hparams.weight_decay)] if self.decays else []
        match self.kind:
            case LocalKind.SGD:
                parts += decay
            case LocalKind.MOMENTUM:
                parts += [*decay, optax.trace(hparams.beta1)]
            case LocalKind.ADAM:
                parts += [*decay, optax.scale_by_adam(hparams.beta1, hparams.beta2, hparams.eps)]
            case LocalKind.ADAMW:
                parts += [optax.scale_by_adam(hparams.beta1, hparams.beta2, hparams.eps), *decay]
        return optax.chain(*parts) if parts else optax.identity()


def sgd(weight_decay: ArrayLike = 0.0, clip_norm: ArrayLike | None = None) -> LocalOptimizer:
    """Take plain steps, with weight decay and clipped gradients if asked for."""
    return _optimizer(LocalKind.SGD, LocalHParams(weight_decay=weight_decay), clip_norm)


def momentum(
    beta1: ArrayLike = 0.9, weight_decay: ArrayLike = 0.0, clip_norm: ArrayLike | None = None
) -> LocalOptimizer:
    """Step along a decaying sum of the round's gradients."""
    hparams = LocalHParams(beta1, weight_decay=weight_decay)
    return _optimizer(LocalKind.MOMENTUM, hparams, clip_norm)


def adam(
    beta1: ArrayLike = 0.9,
    beta2: ArrayLike = 0.999,
    eps: ArrayLike = 1e-8,
    weight_decay: ArrayLike = 0.0,
    clip_norm: ArrayLike | None = None,
) -> LocalOptimizer:
    """Take Adam's steps; training.local_lr near 0.001."""
    hparams = LocalHParams(beta1, beta2, eps, weight_decay)
    return _optimizer(LocalKind.ADAM, hparams, clip_norm)


def adamw(
    beta1: ArrayLike = 0.9,
    beta2: ArrayLike = 0.999,
    eps: ArrayLike = 1e-8,
    weight_decay: ArrayLike = ADAMW_DECAY,
    clip_norm: ArrayLike | None = None,
) -> LocalOptimizer:
    """Take Adam's steps with decoupled weight decay; training.local_lr near 0.001."""
    hparams = LocalHParams(beta1, beta2, eps, weight_decay)
    return _optimizer(LocalKind.ADAMW, hparams, clip_norm)


def _optimizer(
    kind: LocalKind, hparams: LocalHParams, clip_norm: ArrayLike | None
) -> LocalOptimizer:
    check_number("local.beta1", hparams.beta1, least=0, below=1)
    check_number("local.beta2", hparams.beta2, least=0, below=1)
    check_number("local.eps", hparams.eps, above=0)
    check_number("local.weight_decay", hparams.weight_decay, least=0)
    if clip_norm is not None:
        check_number("local.clip_norm", clip_norm, above=0)
        hparams = hparams._replace(clip_norm=clip_norm)
    decays = bool(jnp.any(jnp.asarray(hparams.weight_decay) > 0))
    return LocalOptimizer(kind, decays, clip_norm is not None, hparams)
