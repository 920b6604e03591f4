"""Compile kernels in large sizes: a GPU may have less memory on the chip than another."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from maxfl.models.gpu import (
    attention,
    group_norm,
    layer_norm,
    patches,
    perceptron,
)
from maxfl.models.gpu.factors import exact, rounded
from maxfl.models.gpu.places import pooled_geometries, window_geometry
from maxfl.models.gpu.products import pooled_products, window_products, window_sums
from maxfl.models.gpu.sizes import (
    LARGEST_BATCH,
    LARGEST_IMAGE,
    LEAST,
    LONGEST,
    LONGEST_PATCH,
    MOST_CHANNELS,
    MOST_FEATURES,
    WIDEST_LAYER,
    WIDEST_ROW,
)
from maxfl.models.gpu.spreading import spread


def try_convolution(dtype: str) -> None:
    """Compile products of windows and of patches, pooled ones, and gradients, of many images.

    Of few, a program would have one step, and less would be on the chip at the same time.
    """
    images, side, channels = 1024, 8, MOST_CHANNELS
    geometry = window_geometry((side, side), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))
    pooled = pooled_geometries(geometry)

    def kernels(x: Array, w: Array, bias: Array) -> Any:
        found: list[Any] = []
        for factor in (exact, rounded):
            factors = factor(x), factor(w)
            found += [
                window_products(geometry, *factors, x.dtype, inputs_last)
                for inputs_last in (False, True)
            ]
            found.append(window_sums((geometry,), factors[0], factors[0]))
        value, is_largest = pooled_products(pooled, rounded(x), rounded(w), bias)
        few, some = x[..., : LONGEST_PATCH // 16], x[..., : LEAST - 1]
        found += pooled_products(pooled, exact(some), exact(w[..., : LEAST - 1, :]), bias)
        found.append(window_sums(pooled, exact(some), exact(value), is_largest))
        found += spread(value, is_largest)
        of_patches = patches.pooled_products(pooled, few, w[..., : few.shape[-1], :], bias)
        return *found, *of_patches, patches.pooled_sums(pooled, few, value, is_largest)

    _compile(
        kernels, dtype, (images, side, side, channels), (3, 3, channels, channels), (channels,)
    )


def try_group_norm(dtype: str) -> None:
    """Compile normalisation with a shortcut, and gradients with one and without."""
    pixels = LARGEST_IMAGE // MOST_CHANNELS
    image = group_norm.Image(pixels, MOST_CHANNELS, 1, 1.0)

    def kernels(scale: Array, h: Array) -> Any:
        value = group_norm.normalised(image, scale, scale, h, h)
        without = group_norm.gradients(image, scale, scale, h, value)
        return without, group_norm.gradients(image, scale, scale, h, h, value)

    _compile(kernels, dtype, (MOST_CHANNELS,), (1, pixels, 1, MOST_CHANNELS))


def try_layer_norm(dtype: str) -> None:
    """Compile gradients of layer normalisation, of the widest rows."""

    def kernels(scale: Array, h: Array) -> Any:
        return layer_norm.gradients(1.0, scale, h, h, h)

    _compile(kernels, dtype, (WIDEST_ROW,), (8, WIDEST_ROW))


def try_attention(dtype: str) -> None:
    """Compile attention of one head and its gradients, of the largest pieces and of the most."""

    def kernels(together: Array) -> Any:
        return attention.gradients(1, together, attention.mixed(1, together))

    for length in (LONGEST, LONGEST - 1):
        _compile(kernels, dtype, (1, length, 3 * MOST_FEATURES))


def try_perceptron(dtype: str) -> None:
    """Compile steps of the widest layers and the largest minibatches, which are float32 alone."""
    assert dtype == "float32"
    form = perceptron.Form((WIDEST_LAYER,) * 3, 128, 2, LARGEST_BATCH)

    def kernels(x: Array, w: Array, b: Array, y: Array) -> Any:
        decisions = jnp.zeros((form.steps, form.batch, WIDEST_LAYER), jnp.uint8)
        batches = perceptron.Batches(y.astype(jnp.int32), decisions, y[0])
        features = perceptron.Features(x)
        return perceptron.take_steps(form, features, batches, w, b, w, b, w, b)

    shapes = (form.samples, WIDEST_LAYER), (WIDEST_LAYER, WIDEST_LAYER), (WIDEST_LAYER,)
    _compile(kernels, dtype, *shapes, (form.steps, form.batch))


def _compile(kernels: Callable[..., Any], dtype: str, *shapes: tuple[int, ...]) -> None:
    jax.jit(kernels).lower(*(jax.ShapeDtypeStruct(shape, dtype) for shape in shapes)).compile()


TRIALS: dict[str, Callable[[str], None]] = {
    "convolution": try_convolution,
    "group normalisation": try_group_norm,
    "layer normalisation": try_layer_norm,
    "attention": try_attention,
    "perceptron": try_perceptron,
}
"""By what the kernels compute."""
