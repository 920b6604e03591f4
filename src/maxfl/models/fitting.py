"""How a model of the zoo is made to fit a federation: its sizes, and its loss if none is named."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from maxfl.core import losses
from maxfl.core.checks.samples import are_classes
from maxfl.core.federation import Federation
from maxfl.core.losses import Loss, NextToken
from maxfl.core.model import Model, UnsizedModel
from maxfl.utils.errors import InputError
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
        name: As files have it.
        factory: Makes it, of what fits it to the data, ``classes``, ``loss`` and its settings.
        fit: Returns what fits it to a federation's inputs, by the factory's names.
        tokens: Whether its inputs are tokens, so that it can predict the next ones.
    """

    name: str
    factory: Callable[..., Model]
    fit: Callable[[Wanted], dict[str, Any]]
    tokens: bool = False

    def fitted(self, federation: Federation, loss: Loss | None, settings: dict[str, Any]) -> Model:
        """Return the model for a federation; without a loss, with the one for its labels."""
        loss = self.default_loss(federation) if loss is None else loss
        outputs = None if isinstance(loss, NextToken) else count_outputs(federation, loss)
        if outputs is None and not self.tokens:
            raise InputError(
                f'the loss of next tokens needs a model of tokens: name = "lstm" or '
                f'"transformer", not {self.name}'
            )
        fitted = self.fit(Wanted(self.name, federation, loss, settings))
        return self.factory(**(settings | fitted), classes=outputs, loss=loss)

    def unsized(self, loss: Loss | None, **settings: Any) -> Model:
        """Return the model that will take its sizes from the federation it is trained on."""
        written = ", ".join(f"{name}={value!r}" for name, value in settings.items())
        return UnsizedModel(
            f"{self.name}({written})", lambda federation: self.fitted(federation, loss, settings)
        )

    def refuse_half(self, **sizes: Any) -> None:
        """Refuse sizes of which some are given and others are not."""
        given = [name for name, size in sizes.items() if size is not None]
        if given and len(given) < len(sizes):
            missing = " and ".join(name for name in sizes if name not in given)
            raise InputError(
                f"{self.name} has {' and '.join(given)} but not {missing}: give all of them, or "
                f"none, and they are taken from the federation"
            )

    def default_loss(self, federation: Federation, padding: int = 0) -> Loss:
        """Return the loss for a federation's labels, see ``default_loss``."""
        return default_loss(federation, self.name, padding, tokens=self.tokens)


def default_loss(
    federation: Federation, name: str, padding: int = 0, *, tokens: bool = False
) -> Loss:
    """Return the loss for a federation's labels, of a model of this name, perhaps of tokens.

    Cross-entropy for classes, the next token's for sequences of integers, and squared error for
    floats.
    """
    y = federation.train.y
    if federation.classes is not None:
        return losses.cross_entropy
    if np.issubdtype(y.dtype, np.floating):
        return losses.squared_error
    if tokens and y.ndim == 2:
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


def fit_features(wanted: Wanted) -> dict[str, Any]:
    """Take features of any shape."""
    return {"inputs": math.prod(wanted.federation.train.x.shape[1:])}


def fit_images(wanted: Wanted) -> dict[str, Any]:
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


def fit_tokens(wanted: Wanted) -> dict[str, Any]:
    """Take tokens [length]; there are as many as the largest says, or more where it is given."""
    train, test = wanted.federation.train, wanted.federation.test
    if train.x.ndim != 2 or not np.issubdtype(train.x.dtype, np.integer):
        raise InputError(
            f"{wanted.name} takes sequences of tokens, integers [length], but samples are "
            f"{train.x.dtype}{list(train.x.shape[1:])}: choose mlp or logistic, and for images "
            f"cnn or resnet"
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


def fit_sequences(wanted: Wanted) -> dict[str, Any]:
    """Take tokens of a certain length."""
    return fit_tokens(wanted) | {"length": wanted.federation.train.x.shape[1]}
