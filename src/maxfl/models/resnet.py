"""A residual network for small images, with group normalisation.

He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition", CVPR 2016, section 4.2: a 3 × 3
convolution, three stages of n blocks of two 3 × 3 convolutions at width w, 2w and 4w, the second
and third stage at half the size of the one before, the mean over all pixels, and the output: 6n + 2
layers. Shortcuts have no parameters: where the size halves, every other pixel, and zeros as the new
channels. Group in place of batch normalisation, after Hsieh et al., ICML 2020.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from maxfl.core.losses import Loss, cross_entropy
from maxfl.core.model import Model
from maxfl.models.arguments import check_image_shape
from maxfl.models.convolution import convolve, init_convolution
from maxfl.models.fitting import ModelEntry, fit_images
from maxfl.models.layers import Layer, dense, in_chunks, init_dense
from maxfl.models.normalisation import Scaling, group_norm_relu, init_scaling
from maxfl.utils.errors import InputError, check_count

STAGES = 3


class Unit(NamedTuple):
    """A convolution without bias, weight [3, 3, inputs, outputs], and its normalisation."""

    weight: Array
    scaling: Scaling


class Block(NamedTuple):
    """Two convolutions that a shortcut passes by."""

    first: Unit
    second: Unit


class Resnet(NamedTuple):
    """Parameters: the first convolution, blocks of all stages in a row, and the output."""

    stem: Unit
    blocks: tuple[Block, ...]
    output: Layer


class Form(NamedTuple):
    """Checked arguments, as ``resnet`` has them."""

    shape: tuple[int, int, int]
    classes: int
    blocks: int
    width: int
    groups: int


def resnet(
    shape: Sequence[int] | None = None,
    classes: int | None = None,
    blocks: int = 3,
    width: int = 16,
    groups: int = 8,
    loss: Loss | None = None,
) -> Model:
    """Return a residual network of 6 · blocks + 2 layers; 3 blocks a stage make ResNet-20.

    Cached, so that equal arguments give one model and one compiled program. ``resnet()`` takes
    shape and classes from the federation that it is trained on.

    Args:
        shape: Of an image: (height, width) or (height, width, channels), as (32, 32, 3).
        classes: Number of outputs: a logit per class, or one per predicted number.
        blocks: Blocks of each of the three stages.
        width: Channels of the first stage; those after it have twice and four times as many.
        groups: Groups of channels that are normalised together; they divide the width.
        loss: What it is trained on, see ``maxfl.losses``; by default cross-entropy, or what goes
            with the federation's labels where sizes are taken from it.
    """
    for name, value in {"blocks": blocks, "width": width, "groups": groups}.items():
        check_count(name, value, least=1)
    if width % groups:
        raise InputError(f"groups = {groups} do not divide width = {width}: give a divisor of it")
    if shape is None and classes is None:
        return RESNET.unsized(loss, blocks=blocks, width=width, groups=groups)
    RESNET.refuse_half(shape=shape, classes=classes)
    check_count("classes", classes, least=1)
    form = Form(check_image_shape(shape), classes, blocks, width, groups)  # type: ignore[arg-type]
    return _resnet(form, loss or cross_entropy)


@functools.cache
def _resnet(form: Form, loss: Loss) -> Model:
    """Return the model itself, one for each set of checked arguments."""
    planes = [form.width * 2**stage for stage in range(STAGES) for _ in range(form.blocks)]

    def init(key: Array) -> Resnet:
        keys = iter(jax.random.split(key, 2 * len(planes) + 2))
        stem = _init_unit(next(keys), form.shape[2], form.width)
        blocks = tuple(
            Block(_init_unit(next(keys), n, m), _init_unit(next(keys), m, m))
            for n, m in zip([form.width, *planes], planes, strict=False)
        )
        return Resnet(stem, blocks, init_dense(next(keys), planes[-1], form.classes))

    def unit(params: Unit, h: Array, stride: int = 1, *shortcut: Array) -> Array:
        convolved = convolve(h, params.weight, stride)
        return group_norm_relu(params.scaling, convolved, form.groups, *shortcut)

    def block(params: Block, h: Array) -> Array:
        wider = params.first.weight.shape[3] - h.shape[3]
        stride = 2 if wider else 1
        inner = unit(params.first, h, stride)
        shortcut = jnp.pad(h[:, ::stride, ::stride], ((0, 0), (0, 0), (0, 0), (0, wider)))
        return unit(params.second, inner, 1, shortcut)

    def outputs(params: Resnet, x: Array) -> Array:
        h = unit(params.stem, x.reshape(len(x), *form.shape))
        for each in params.blocks:
            h = block(each, h)
        return dense(params.output, h.mean((1, 2)))

    def apply(params: Resnet, x: Array, key: Array | None = None) -> Array:
        run = functools.partial(outputs, params)
        return in_chunks(run, x) if key is None else run(x)

    shape = "x".join(map(str, form.shape))
    layers = 2 * STAGES * form.blocks + 2
    return Model(init, apply, loss, name=f"resnet-{layers} {shape}-{form.classes}")


def _init_unit(key: Array, inputs: int, outputs: int) -> Unit:
    return Unit(init_convolution(key, 3, inputs, outputs).weight, init_scaling(outputs))


RESNET = ModelEntry("resnet", resnet, fit_images)
