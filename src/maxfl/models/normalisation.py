"""Normalisation by what one sample shows, so that no statistics of others are kept or sent.

    h ← scale · (h − mean) / √(variance + ε) + shift

Layer normalisation (Ba, Kiros, Hinton, 2016): mean and variance over a position's features. Group
normalisation (Wu, He, ECCV 2018): over the pixels and a group of neighbouring channels. Batch
normalisation's means differ from client to client; without them models of clients can be averaged
(Hsieh, Phanishayee, Mutlu, Gibbons, ICML 2020).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from maxfl.models.gpu.support import takes_group_norm, takes_layer_norm

EPSILON = 1e-5


class Scaling(NamedTuple):
    """What follows a normalisation: scale [features], shift [features]."""

    scale: Array
    shift: Array


def init_scaling(features: int) -> Scaling:
    """Return the scaling that changes nothing."""
    return Scaling(jnp.ones(features), jnp.zeros(features))


def layer_norm(scaling: Scaling, h: Array) -> Array:
    """Normalise h [..., features] over its features."""
    return _normalise(h, -1) * scaling.scale + scaling.shift


def layer_norm_beside(scaling: Scaling, h: Array) -> tuple[Array, Array]:
    """Return h and h normalised: where both go on, a GPU adds their gradients in one pass."""

    def plain(scale: Array, shift: Array, h: Array) -> tuple[Array, Array]:
        return h, layer_norm(Scaling(scale, shift), h)

    if not takes_layer_norm(*scaling, h):
        return plain(*scaling, h)
    from maxfl.models.gpu import layer_norm as gpu

    return gpu.layer_norm_beside(EPSILON, plain)(*scaling, h)


def group_norm(scaling: Scaling, h: Array, groups: int) -> Array:
    """Normalise h [n, height, width, channels] over pixels and each group of channels."""
    n, height, width, channels = h.shape
    grouped = h.reshape(n, height * width, groups, channels // groups)
    return _normalise(grouped, (1, 3)).reshape(h.shape) * scaling.scale + scaling.shift


def group_norm_relu(scaling: Scaling, h: Array, groups: int, *shortcut: Array) -> Array:
    """Normalise, add a shortcut if there is one, and let what is positive pass."""

    def plain(scale: Array, shift: Array, h: Array, *shortcut: Array) -> Array:
        return jax.nn.relu(sum(shortcut, group_norm(Scaling(scale, shift), h, groups)))

    if not takes_group_norm(groups, h, *scaling, *shortcut):
        return plain(*scaling, h, *shortcut)
    from maxfl.models.gpu import group_norm as gpu

    image = gpu.Image(h.shape[1] * h.shape[2], h.shape[3], groups, EPSILON)
    return gpu.group_norm_relu(image, plain)(*scaling, h, *shortcut)


def _normalise(h: Array, axes: int | tuple[int, ...]) -> Array:
    """Subtract the mean and divide by the standard deviation, both in float32."""
    wide = h.astype(jnp.float32)
    centred = wide - wide.mean(axes, keepdims=True)
    variance = jnp.square(centred).mean(axes, keepdims=True)
    return (centred / jnp.sqrt(variance + EPSILON)).astype(h.dtype)
