"""Normalisation by what one sample shows, so that no statistics of others are kept or sent.

    h ← scale · (h − mean) / √(variance + ε) + shift

Layer normalisation (Ba, Kiros, Hinton, 2016): mean and variance over a position's features. Group
normalisation (Wu, He, ECCV 2018): over the pixels and a group of neighbouring channels. Batch
normalisation's means differ from client to client; without them models of clients can be averaged
(Hsieh, Phanishayee, Mutlu, Gibbons, ICML 2020).
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

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


def group_norm(scaling: Scaling, h: Array, groups: int) -> Array:
    """Normalise h [n, height, width, channels] over pixels and each group of channels."""
    n, height, width, channels = h.shape
    grouped = h.reshape(n, height * width, groups, channels // groups)
    return _normalise(grouped, (1, 3)).reshape(h.shape) * scaling.scale + scaling.shift


def _normalise(h: Array, axes: int | tuple[int, ...]) -> Array:
    """Subtract the mean and divide by the standard deviation, both in float32."""
    wide = h.astype(jnp.float32)
    centred = wide - wide.mean(axes, keepdims=True)
    variance = jnp.square(centred).mean(axes, keepdims=True)
    return (centred / jnp.sqrt(variance + EPSILON)).astype(h.dtype)
