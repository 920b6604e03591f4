"""The multi-layer perceptron of the paper."""

import functools
from collections.abc import Sequence

import jax
from jax import Array

from maxfl.core.losses import Loss, cross_entropy
from maxfl.core.model import Model
from maxfl.models.arguments import check_dropout, check_widths
from maxfl.models.layers import Layer, dense, drop, init_dense
from maxfl.utils.errors import check_count


def mlp(
    inputs: int,
    hidden: Sequence[int],
    classes: int,
    dropout: float = 0.5,
    loss: Loss = cross_entropy,
) -> Model:
    """Return a multi-layer perceptron with ReLU, and dropout after the first hidden layer.

    Weights and biases start uniform in ±1/√inputs, as in the framework that the paper used.
    Cached, so that equal arguments give one model and one compiled program.

    Args:
        inputs: Number of features; inputs of any shape are flattened.
        hidden: Units of the hidden layers, for instance (64, 30).
        classes: Number of outputs: a logit per class, or one per predicted number.
        dropout: Share of the first hidden layer's units dropped in training, at least 0 and
            below 1.
        loss: What it is trained on, see ``maxfl.losses``.
    """
    rate = check_dropout(dropout)
    widths = check_widths("hidden", hidden, "the units of each hidden layer")
    check_count("inputs", inputs, least=1)
    check_count("classes", classes, least=1)
    return _mlp((inputs, *widths, classes), rate, loss)


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

    return Model(init, apply, loss)
