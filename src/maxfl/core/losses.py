"""Losses of samples, with optax: ``loss(outputs, y) -> float32[n]``.

    cross_entropy   −log softmax(outputs)_y                      y: int[n], outputs: [n, classes]
    multi_label     mean over labels of −log σ(±outputs)         y: 0 or 1 [n, labels]
    squared_error   mean over targets of (outputs − y)²          y: float[n] or [n, targets]
    absolute_error  mean over targets of |outputs − y|           the same
    huber           squared near 0, linear beyond ``delta``      the same
    next_token      mean over a sequence of −log softmax(outputs)_y,
                    positions with y = padding left out          y: int[n, length],
                                                                 outputs: [n, length, vocabulary]

A loss of one's own is any such function. It is compared with a requirement, so it should be a mean
over what a sample consists of, not a sum. A sequence of nothing but padding has a loss of 0, which
counts in its client's mean: leave such out.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array

from maxfl.utils.errors import InputError, check_number

Loss = Callable[[Any, Array], Array]
"""``loss(outputs, y) -> float32[n]``: one number for each sample."""


def cross_entropy(outputs: Array, y: Array) -> Array:
    """Compute softmax cross-entropy with integer labels.

    On an accelerator the label's output is picked out by comparison, not by index, and infinite
    outputs have no case of their own: the same up to rounding, but the gradient is one kernel.
    """
    if jax.default_backend() == "cpu":
        return optax.softmax_cross_entropy_with_integer_labels(outputs, y)
    # Labels of another shape or type are refused as on a CPU.
    jax.eval_shape(optax.softmax_cross_entropy_with_integer_labels, outputs, y)
    return _cross_entropy_without_scatter(outputs, y)


def _cross_entropy_without_scatter(outputs: Array, y: Array) -> Array:
    is_label = jnp.arange(outputs.shape[-1]) == y[..., None]
    shifted = outputs - jax.lax.stop_gradient(outputs.max(-1, keepdims=True))
    return jnp.log(jnp.exp(shifted).sum(-1)) - jnp.where(is_label, shifted, 0.0).sum(-1)


def multi_label(outputs: Array, y: Array) -> Array:
    """Compute the mean over labels, each there or not, of the sigmoid's cross-entropy."""
    return mean_per_sample(optax.sigmoid_binary_cross_entropy(*align(outputs, y)))


def squared_error(outputs: Array, y: Array) -> Array:
    """Compute the mean squared error of each sample."""
    return mean_per_sample(optax.squared_error(*align(outputs, y)))


def absolute_error(outputs: Array, y: Array) -> Array:
    """Compute the mean absolute error of each sample."""
    outputs, y = align(outputs, y)
    return mean_per_sample(jnp.abs(outputs - y))


@dataclass(frozen=True)
class Huber:
    """Huber's loss; build it with ``huber``."""

    delta: float

    def __call__(self, outputs: Array, y: Array) -> Array:
        """Compute the mean of each sample."""
        return mean_per_sample(optax.huber_loss(*align(outputs, y), delta=self.delta))


@dataclass(frozen=True)
class NextToken:
    """The loss of language models; build it with ``next_token``."""

    padding: int

    def __call__(self, outputs: Array, y: Array) -> Array:
        """Compute the mean over each sequence's tokens."""
        losses = cross_entropy(outputs, y)
        return masked_mean(losses, y != self.padding)


def loss_name(loss: Loss) -> str:
    """Return what a loss is called: ready-made ones as in a file, others by their function."""
    match loss:
        case Huber(delta):
            return f"huber, delta {delta:g}"
        case NextToken(padding):
            return f"next-token, padding {padding}"
        case functools.partial():
            return loss_name(loss.func)
    name = str(getattr(loss, "__name__", type(loss).__name__))
    return name.replace("_", "-") if loss in READY_MADE else name


def is_ready_made(loss: Loss) -> bool:
    """Return whether a loss is one of this module's."""
    return loss in READY_MADE or isinstance(loss, Huber | NextToken)


def huber(delta: float = 1.0) -> Huber:
    """Return Huber's loss: squared up to an error of ``delta``, then linear."""
    check_number("delta", delta, above=0)
    return Huber(float(delta))


def next_token(padding: int = 0) -> NextToken:
    """Return the mean cross-entropy of the tokens y of a sequence, without ``padding``."""
    return NextToken(int(padding))


READY_MADE = (cross_entropy, multi_label, squared_error, absolute_error)
"""Those without a setting."""


def align(outputs: Array, y: Array) -> tuple[Array, Array]:
    """Return outputs in the shape of the targets: one output [n, 1] is as good as [n].

    Other shapes are refused, since broadcasting [n, 1] with [n] would compare everything with
    everything.
    """
    if outputs.ndim == y.ndim + 1 and outputs.shape[-1] == 1:
        outputs = outputs[..., 0]
    if outputs.shape != y.shape:
        raise InputError(
            f"the model gives outputs of shape {list(outputs.shape)} for labels of shape "
            f"{list(y.shape)}: this loss needs one output for each number of a label"
        )
    return outputs, y.astype(outputs.dtype)


def mean_per_sample(values: Array) -> Array:
    """Average over all axes but the first."""
    return values.reshape(len(values), -1).mean(1)


def masked_mean(values: Array, mask: Array) -> Array:
    """Average over all axes but the first where the mask is set; 0 where it nowhere is."""
    mask = mask.reshape(len(mask), -1)
    total = jnp.where(mask, values.reshape(mask.shape), 0.0).sum(1)
    return total / jnp.maximum(mask.sum(1), 1)
