"""A convolution and its gradients, without windows in memory.

    y[n, p]  = Σ_t x[n, s·p + d·t − m] · w[t]             s: stride, d: dilation, m: zeros before
    dx[n, q] = Σ_t g[n, (q + m − d·t) / s] · w[t]ᵀ        where s divides
    dw[t]    = Σ_{n, p} x[n, s·p + d·t − m]ᵀ · g[n, p]

with places p of outputs, q of inputs and taps t of the kernel, each in two dimensions, and g the
gradient of y.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from maxfl.models.gpu import patches, pooled_gradients
from maxfl.models.gpu.fused import fused
from maxfl.models.gpu.places import Geometry, pooled_geometries, transposed
from maxfl.models.gpu.products import pooled_products, window_products, window_sums


def convolution(geometry: Geometry, plain: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    """Return the function of images x [n, height, width, inputs] and weights that gives y.

    Args:
        geometry: Where windows lie.
        plain: The same function in JAX.
    """

    def forward(x: Array, w: Array) -> tuple[Array, tuple[()]]:
        return window_products(geometry, x, w), ()

    def backward(arguments: tuple[Array, ...], _: tuple[()], g: Array) -> tuple[Array, ...]:
        x, w = arguments
        return _image_gradient(geometry, g, w), _as_weights(w, window_sums((geometry,), x, g))

    return fused(plain, forward, backward)


def pooled_convolution(geometry: Geometry, plain: Callable[..., Array]) -> Callable[..., Array]:
    """Return the function of images, weights and a bias that gives relu(pool(y) + bias).

    ``pool`` takes the largest of each 2 × 2; equals share its gradient, and a NaN has none. y is
    not written to memory, nor is its gradient, if a program holds all channels and taps of dx.

    Args:
        geometry: Where windows lie.
        plain: The same function in JAX.
    """
    geometries = pooled_geometries(geometry)

    def forward(x: Array, w: Array, bias: Array) -> tuple[Array, Array]:
        by_patches = patches.suits_products(geometries, x.shape[3])
        products = patches.pooled_products if by_patches else pooled_products
        return products(geometries, x, w, bias)

    def backward(arguments: tuple[Array, ...], is_largest: Array, g: Array) -> tuple[Array, ...]:
        x, w, bias = arguments
        of_image = _pooled_image_gradient(geometry, g, is_largest, w)
        sums = _pooled_sums(geometry, x, g, is_largest)
        return of_image, _as_weights(w, sums[:-1]), sums[-1].astype(bias.dtype)

    return fused(plain, forward, backward)


def _pooled_sums(geometry: Geometry, x: Array, g: Array, is_largest: Array) -> Array:
    """Return the gradients of weights and of the bias, [window + 1, outputs]."""
    if pooled_gradients.suits_sums(geometry, x.shape[3]):
        return pooled_gradients.pooled_sums(geometry, x, g, is_largest)
    geometries = pooled_geometries(geometry)
    by_patches = patches.suits_sums(geometries, x.shape[3])
    return (patches.pooled_sums if by_patches else window_sums)(geometries, x, g, is_largest)


def _pooled_image_gradient(geometry: Geometry, g: Array, is_largest: Array, w: Array) -> Array:
    """Return dx from the gradient of what was pooled."""
    if pooled_gradients.suits_images(geometry, w.shape[2]):
        return pooled_gradients.image_gradient(geometry, g, is_largest, w)
    return _image_gradient(geometry, _spread(geometry, g, is_largest), w)


def _image_gradient(geometry: Geometry, g: Array, w: Array) -> Array:
    """Return dx."""
    between = [(0, 0, 0), *((0, 0, axis.stride - 1) for axis in geometry), (0, 0, 0)]
    spread = jax.lax.pad(g, jnp.zeros((), g.dtype), between)
    return window_products(transposed(geometry), spread, w, inputs_last=True)


def _as_weights(w: Array, sums: Array) -> Array:
    return sums.reshape(w.shape).astype(w.dtype)


def _spread(geometry: Geometry, g: Array, is_largest: Array) -> Array:
    """Return the gradient of y from that of what was pooled."""
    n, rows, columns, outputs = g.shape
    each = g / jax.lax.population_count(is_largest).astype(g.dtype)
    place = jnp.arange(4, dtype=jnp.uint8).reshape(2, 1, 2, 1)
    passes = (is_largest[:, :, None, :, None] >> place) & 1
    whole = jnp.where(passes == 1, each[:, :, None, :, None], 0)
    left_over: list[Any] = [(0, axis.places % 2) for axis in geometry]
    whole = whole.reshape(n, 2 * rows, 2 * columns, outputs)
    return jnp.pad(whole, [(0, 0), *left_over, (0, 0)])
