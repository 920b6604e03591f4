"""The zoo by name, and how each model is made to fit a federation."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from maxfl.core import losses
from maxfl.core.federation import Federation, are_classes
from maxfl.core.losses import Loss, NextToken
from maxfl.core.model import Model
from maxfl.models.cnn import cnn
from maxfl.models.logistic import logistic
from maxfl.models.lstm import lstm
from maxfl.models.mlp import mlp
from maxfl.models.resnet import resnet
from maxfl.models.transformer import transformer
from maxfl.utils.errors import InputError, check_choice
from maxfl.utils.mapped import value_range


class Wanted(NamedTuple):
    """A model that is asked for: its name, the data, the loss and the given settings."""

    name: str
    federation: Federation
    loss: Loss
    settings: dict[str, Any]


class ModelEntry(NamedTuple):
    """A model of the zoo.

    Attributes:
        factory: Makes it, of what fits it to the data, ``classes``, ``loss`` and its settings.
        fit: Returns what fits it to a federation's inputs, by the factory's names.
        tokens: Whether its inputs are tokens, so that it can predict the next ones.
    """

    factory: Callable[..., Model]
    fit: Callable[[Wanted], dict[str, Any]]
    tokens: bool = False


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
    entry = MODELS[check_choice("model.name", name, MODELS)]
    loss = default_loss(name, federation) if loss is None else loss
    outputs = None if isinstance(loss, NextToken) else count_outputs(federation, loss)
    if outputs is None and not entry.tokens:
        raise InputError(
            f'the loss of next tokens needs a model of tokens: name = "lstm" or "transformer", '
            f"not {name}"
        )
    fitted = entry.fit(Wanted(name, federation, loss, settings))
    return entry.factory(**(settings | fitted), classes=outputs, loss=loss)


def default_loss(name: str, federation: Federation, padding: int = 0) -> Loss:
    """Return the loss for a federation's labels.

    Cross-entropy for classes, the next token's for sequences of integers, and squared error for
    floats.
    """
    y = federation.train.y
    if federation.classes is not None:
        return losses.cross_entropy
    if np.issubdtype(y.dtype, np.floating):
        return losses.squared_error
    if name in MODELS and MODELS[name].tokens and y.ndim == 2:
        return losses.next_token(padding)
    raise InputError(
        f"labels are {y.dtype}{list(y.shape[1:])}, of which {name} can't choose a loss: for "
        f'sequences of tokens choose model.name = "lstm" or "transformer"; else choose '
        f'model.loss = "multi-label" if they are 0 and 1, "squared-error" if they are numbers'
    )


def count_outputs(federation: Federation, loss: Loss) -> int:
    """Count the outputs of a model: classes, or numbers predicted of a sample.

    A loss of one's own is taken to be of classes where the labels are.
    """
    y = federation.train.y
    if federation.classes is not None and not losses.is_ready_made(loss):
        return federation.classes
    if loss is losses.cross_entropy:
        if federation.classes is None:
            raise InputError(
                f"cross-entropy needs one integer per sample, but labels are {y.dtype}"
                f"{list(y.shape[1:])}: choose another model.loss"
            )
        return federation.classes
    if y.ndim > 2:
        raise InputError(
            f"labels of shape {list(y.shape[1:])}: models of the zoo predict a number, or a row "
            f"of them, for each sample; store labels as [samples, numbers]"
        )
    return math.prod(y.shape[1:])


def _fit_features(wanted: Wanted) -> dict[str, Any]:
    """Take features of any shape."""
    return {"inputs": math.prod(wanted.federation.train.x.shape[1:])}


def _fit_images(wanted: Wanted) -> dict[str, Any]:
    """Take images [height, width] or [height, width, channels]."""
    name, shape = wanted.name, wanted.federation.train.x.shape[1:]
    if len(shape) not in (2, 3):
        raise InputError(
            f"{name} takes images, [height, width] or [height, width, channels], but samples have "
            f"the shape {list(shape)}: choose mlp or logistic, or store images as such"
        )
    if len(shape) == 3 and shape[0] in (1, 3) and shape[1] == shape[2] > 4:
        raise InputError(
            f"images of shape {list(shape)} have their channels first; {name} takes them last: "
            f"numpy.moveaxis(x, 1, -1)"
        )
    return {"shape": shape}


def _fit_tokens(wanted: Wanted) -> dict[str, Any]:
    """Take tokens [length]; there are as many as the largest says, or more where it is given."""
    train, test = wanted.federation.train, wanted.federation.test
    if train.x.ndim != 2 or not np.issubdtype(train.x.dtype, np.integer):
        raise InputError(
            f"{wanted.name} takes sequences of tokens, integers [length], but samples are "
            f"{train.x.dtype}{list(train.x.shape[1:])}: choose mlp, logistic, or cnn for images"
        )
    low, high = value_range([train.x, test.x])
    if isinstance(wanted.loss, NextToken):
        if train.y.shape[1:] != train.x.shape[1:] or are_classes(train.y):
            raise InputError(
                f"for the loss of next tokens, labels are the tokens after each of x, integers "
                f"{list(train.x.shape[1:])}, but they are {train.y.dtype}{list(train.y.shape[1:])}"
            )
        high = max(high, value_range([train.y, test.y], wanted.loss.padding).high)
    if low < 0:
        raise InputError(f"tokens count from 0, but the smallest is {low}: renumber them")
    needed = int(high) + 1
    named = wanted.federation.metadata.vocabulary
    known = needed if named is None else max(needed, len(named))
    vocabulary = wanted.settings.get("vocabulary") or known
    if vocabulary < needed:
        raise InputError(
            f"vocabulary = {vocabulary}, but there is token {needed - 1}: give {needed} or more"
        )
    return {"vocabulary": vocabulary}


def _fit_sequences(wanted: Wanted) -> dict[str, Any]:
    """Take tokens of a certain length."""
    return _fit_tokens(wanted) | {"length": wanted.federation.train.x.shape[1]}


MODELS = {
    "mlp": ModelEntry(mlp, _fit_features),
    "logistic": ModelEntry(logistic, _fit_features),
    "cnn": ModelEntry(cnn, _fit_images),
    "resnet": ModelEntry(resnet, _fit_images),
    "lstm": ModelEntry(lstm, _fit_tokens, tokens=True),
    "transformer": ModelEntry(transformer, _fit_sequences, tokens=True),
}
"""The zoo, by the names that a file has for it."""
