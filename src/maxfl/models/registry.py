"""The zoo by name."""

from typing import Any

from maxfl.core.federation import Federation
from maxfl.core.losses import Loss
from maxfl.core.model import Model
from maxfl.models.cnn import CNN
from maxfl.models.logistic import LOGISTIC
from maxfl.models.lstm import LSTM
from maxfl.models.mlp import MLP
from maxfl.models.resnet import RESNET
from maxfl.models.transformer import TRANSFORMER
from maxfl.utils.errors import check_choice

MODELS = {entry.name: entry for entry in (MLP, LOGISTIC, CNN, RESNET, LSTM, TRANSFORMER)}
"""The zoo, by the names that a file has for it."""


def fit_model(
    name: str, federation: Federation, loss: Loss | None = None, **settings: Any
) -> Model:
    """Return a model of the zoo for a federation's inputs and labels.

    Args:
        name: One of ``MODELS``.
        federation: What it will be trained on.
        loss: By default the one that goes with the labels, see ``default_loss``.
        settings: Its other arguments.
    """
    return MODELS[check_choice("model.name", name, MODELS)].fitted(federation, loss, settings)


def default_loss(name: str, federation: Federation, padding: int = 0) -> Loss:
    """Return the loss for a federation's labels, and for a model that can be trained on it."""
    return MODELS[name].default_loss(federation, padding)
