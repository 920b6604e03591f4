"""Multinomial logistic regression; with another loss, linear regression."""

from maxfl.core.losses import Loss
from maxfl.core.model import Model
from maxfl.models.fitting import ModelEntry, fit_features
from maxfl.models.mlp import mlp


def logistic(
    inputs: int | None = None, classes: int | None = None, loss: Loss | None = None
) -> Model:
    """Return one dense layer, which is convex in its parameters with every loss of ``losses``.

    Cached, so that equal arguments give one model and one compiled program. ``logistic()`` takes
    its sizes from the federation that it is trained on.

    Args:
        inputs: Number of features; inputs of any shape are flattened.
        classes: Number of outputs: a logit per class, or one per predicted number.
        loss: What it is trained on, see ``maxfl.losses``; by default cross-entropy, or what goes
            with the federation's labels where sizes are taken from it.
    """
    if inputs is None and classes is None:
        return LOGISTIC.unsized(loss)
    LOGISTIC.refuse_half(inputs=inputs, classes=classes)
    return mlp(inputs, (), classes, 0.0, loss)


LOGISTIC = ModelEntry("logistic", logistic, fit_features)
