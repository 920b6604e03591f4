"""The convolutional network of LEAF for FEMNIST.

Caldas et al., "LEAF: A Benchmark for Federated Settings", 2018; first in McMahan et al., AISTATS
2017, with 512 dense units. Two convolutions 5 × 5 of 32 and 64 channels, each with ReLU and 2 × 2
max-pooling, a dense layer of 2048 with ReLU, and the output: 6,603,710 parameters for 62 classes.
"""

import functools
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import jax
from jax import Array

from maxfl.core.losses import Loss, cross_entropy
from maxfl.core.model import Model
from maxfl.models.arguments import check_dropout, check_image_shape, check_widths
from maxfl.models.convolution import (
    Padding,
    check_padding,
    convolution_layer,
    convolved_side,
    init_convolution,
)
from maxfl.models.fitting import ModelEntry, fit_images
from maxfl.models.layers import Layer, dense, drop, in_chunks, init_dense
from maxfl.utils.errors import InputError, check_count


class Cnn(NamedTuple):
    """Parameters: convolutions, and dense layers of which the last one gives the outputs."""

    convolutions: tuple[Layer, ...]
    dense: tuple[Layer, ...]


class Form(NamedTuple):
    """Checked arguments, as ``cnn`` has them."""

    shape: tuple[int, int, int]
    channels: tuple[int, ...]
    kernel: int
    padding: Padding
    hidden: tuple[int, ...]
    classes: int
    dropout: float

    @property
    def flat(self) -> int:
        """Number of features that the convolutions give."""
        height, width = self.shape[:2]
        for _ in self.channels:
            height, width = (
                convolved_side(side, self.kernel, padding=self.padding) // 2
                for side in (height, width)
            )
        return max(height, 0) * max(width, 0) * self.channels[-1]


def cnn(
    shape: Sequence[int] | None = None,
    classes: int | None = None,
    channels: Sequence[int] = (32, 64),
    kernel: int = 5,
    conv_padding: Padding = "same",
    hidden: Sequence[int] = (2048,),
    dropout: float = 0.0,
    loss: Loss | None = None,
) -> Model:
    """Return convolutions, each with ReLU and 2 × 2 max-pooling, then dense layers with ReLU.

    The defaults are LEAF's for FEMNIST. Weights and biases start uniform in ±1/√fan-in. Cached, so
    that equal arguments give one model and one compiled program. ``cnn()`` takes shape and classes
    from the federation that it is trained on.

    Args:
        shape: Of an image: (height, width) or (height, width, channels).
        classes: Number of outputs: a logit per class, or one per predicted number.
        channels: Channels of the convolutions.
        kernel: Side of their windows.
        conv_padding: ``"same"``: zeros around an image, so that convolutions keep its size;
            ``"valid"``: none.
        hidden: Units of the dense hidden layers.
        dropout: Share of the first dense layer's units dropped in training, at least 0 and below 1.
        loss: What it is trained on, see ``maxfl.losses``; by default cross-entropy, or what goes
            with the federation's labels where sizes are taken from it.
    """
    rate = check_dropout(dropout)
    check_count("kernel", kernel, least=1)
    check_padding(conv_padding)
    planes = check_widths("channels", channels, "the channels of each convolution", least=1)
    widths = check_widths("hidden", hidden, "the units of each dense hidden layer")
    if shape is None and classes is None:
        return CNN.unsized(
            loss, channels=planes, kernel=kernel, conv_padding=conv_padding, hidden=widths,
            dropout=rate,
        )  # fmt: skip
    CNN.refuse_half(shape=shape, classes=classes)
    check_count("classes", classes, least=1)
    form = Form(check_image_shape(shape), planes, kernel, conv_padding, widths, classes, rate)  # type: ignore[arg-type]
    if form.flat == 0:
        raise InputError(
            f"images of {form.shape[0]} x {form.shape[1]} are too small for {len(form.channels)} "
            f"convolutions with 2 x 2 pooling: give fewer channels, as channels = (32,)"
        )
    return _cnn(form, loss or cross_entropy)


@functools.cache
def _cnn(form: Form, loss: Loss) -> Model:
    """Return the model itself, one for each set of checked arguments."""
    planes = (form.shape[2], *form.channels)
    widths = (form.flat, *form.hidden, form.classes)

    def init(key: Array) -> Cnn:
        keys = iter(jax.random.split(key, len(planes) + len(widths) - 2))
        return Cnn(
            tuple(init_convolution(next(keys), form.kernel, n, m) for n, m in pairwise(planes)),
            tuple(init_dense(next(keys), n, m) for n, m in pairwise(widths)),
        )

    def outputs(params: Cnn, x: Array, key: Array | None) -> Array:
        h = x.reshape(len(x), *form.shape)
        for layer in params.convolutions:
            h = convolution_layer(layer, h, form.padding)
        h = h.reshape(len(x), -1)
        for depth, layer in enumerate(params.dense[:-1]):
            h = jax.nn.relu(dense(layer, h))
            h = drop(key, h, form.dropout) if depth == 0 else h
        return dense(params.dense[-1], h)

    def apply(params: Cnn, x: Array, key: Array | None = None) -> Array:
        if key is not None:
            return outputs(params, x, key)
        return in_chunks(lambda part: outputs(params, part, None), x)

    return Model(init, apply, loss, name=f"cnn {'x'.join(map(str, form.shape))}-{form.classes}")


CNN = ModelEntry("cnn", cnn, fit_images)
