"""Multinomial logistic regression; with another loss, linear regression."""

from maxfl.core.losses import Loss, cross_entropy
from maxfl.core.model import Model
from maxfl.models.mlp import mlp


def logistic(inputs: int, classes: int, loss: Loss = cross_entropy) -> Model:
    """Return one dense layer, which is convex in its parameters with every loss of ``losses``.

    Cached, so that equal arguments give one model and one compiled program.

    Args:
        inputs: Number of features; inputs of any shape are flattened.
        classes: Number of outputs: a logit per class, or one per predicted number.
        loss: What it is trained on, see ``maxfl.losses``.
    """
    return mlp(inputs, (), classes, 0.0, loss)
