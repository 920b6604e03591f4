"""The multi-layer perceptron of the paper."""

import functools
from collections.abc import Sequence

import jax
from jax import Array

from maxfl.core.losses import Loss, cross_entropy
from maxfl.core.model import Model
from maxfl.models.arguments import check_dropout, check_widths
from maxfl.models.fitting import ModelEntry, fit_features
from maxfl.models.layers import Layer, dense, drop, init_dense
from maxfl.utils.errors import check_count

PAPER = (64, 30)
"""Units of its hidden layers."""


def mlp(
    inputs: int | Sequence[int] | None = None,
    hidden: Sequence[int] = PAPER,
    classes: int | None = None,
    dropout: float = 0.5,
    loss: Loss | None = None,
) -> Model:
    """Return a multi-layer perceptron with ReLU, and dropout after the first hidden layer.

    Weights and biases start uniform in ±1/√inputs, as in the framework that the paper used.
    Cached, so that equal arguments give one model and one compiled program. ``mlp((64, 30))``, or
    ``mlp(hidden=(64, 30))``, takes the numbers of features and outputs from the federation that it
    is trained on, and ``mlp(784, (64, 30), 10)`` has its own.

    Args:
        inputs: Number of features; inputs of any shape are flattened. A list means ``hidden``.
        hidden: Units of the hidden layers.
        classes: Number of outputs: a logit per class, or one per predicted number.
        dropout: Share of the first hidden layer's units dropped in training, at least 0 and
            below 1.
        loss: What it is trained on, see ``maxfl.losses``; by default cross-entropy, or what goes
            with the federation's labels where sizes are taken from it.
    """
    if hidden is PAPER and isinstance(inputs, Sequence):
        hidden, inputs = inputs, None
    rate = check_dropout(dropout)
    widths = check_widths("hidden", hidden, "the units of each hidden layer")
    if inputs is None and classes is None:
        return MLP.unsized(loss, hidden=widths, dropout=rate)
    MLP.refuse_half(inputs=inputs, classes=classes)
    check_count("inputs", inputs, least=1)
    check_count("classes", classes, least=1)
    return _mlp((inputs, *widths, classes), rate, loss or cross_entropy)


@functools.cache
def _mlp(widths: tuple[int, ...], dropout: float, loss: Loss) -> Model:
    """Return the model itself, one for each set of checked arguments."""

    def init(key: Array) -> tuple[Layer, ...]:
        keys = jax.random.split(key, len(widths) - 1)
        return tuple(init_dense(k, n, m) for k, n, m in zip(keys, widths, widths[1:], strict=False))

    def apply(params: tuple[Layer, ...], x: Array, key: Array | None = None) -> Array:
        h = x.reshape(len(x), -1)
        for depth, layer in enumerate(params[:-1]):
            h = jax.nn.relu(dense(layer, h))
            h = drop(key, h, dropout) if depth == 0 else h
        return dense(params[-1], h)

    name = "mlp" if len(widths) > 2 else "logistic"
    return Model(init, apply, loss, name=f"{name} {'-'.join(map(str, widths))}")


MLP = ModelEntry("mlp", mlp, fit_features)
