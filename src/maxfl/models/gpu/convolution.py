"""A convolution and its gradients, without windows in memory.

    y[n, p]  = Σ_t x[n, s·p + d·t − m] · w[t]             s: stride, d: dilation, m: zeros before
    dx[n, q] = Σ_t g[n, (q + m − d·t) / s] · w[t]ᵀ        where s divides
    dw[t]    = Σ_{n, p} x[n, s·p + d·t − m]ᵀ · g[n, p]

with places p of outputs, q of inputs and taps t of the kernel, each in two dimensions, and g the
gradient of y.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike

from maxfl.models.gpu import patches
from maxfl.models.gpu.factors import Factor, exact, rounded
from maxfl.models.gpu.fused import fused
from maxfl.models.gpu.places import Geometry, even, pooled_geometries, transposed
from maxfl.models.gpu.products import pooled_products, window_products, window_sums
from maxfl.models.gpu.sizes import LEAST, LONG_WINDOW
from maxfl.models.gpu.spreading import spread


class Factors(NamedTuple):
    """Images and weights as they were multiplied."""

    x: Factor
    w: Factor


def convolution(geometry: Geometry, plain: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    """Return the function of images x [n, height, width, inputs] and weights that gives y.

    Args:
        geometry: Where windows lie.
        plain: The same function in JAX.
    """

    def forward(x: Array, w: Array) -> tuple[Array, Factors]:
        factor = _factor_of(geometry, x)
        factors = Factors(factor(x), factor(w))
        return window_products(geometry, *factors, x.dtype), factors

    def backward(arguments: tuple[Array, ...], factors: Factors, g: Array) -> tuple[Array, ...]:
        x, w = arguments
        of_y = _factor_of(geometry, x)(g)
        of_image = _image_gradient(geometry, of_y, factors.w, g.dtype)
        return of_image, _as_weights(w, window_sums((geometry,), factors.x, of_y))

    return fused(plain, forward, backward)


def pooled_convolution(
    geometry: Geometry, inputs: int, plain: Callable[..., Array]
) -> Callable[..., Array]:
    """Return the function of images, weights and a bias that gives relu(pool(y) + bias).

    ``pool`` takes the largest of each 2 × 2; equals share its gradient, and a NaN has none. y is
    not written to memory.

    Args:
        geometry: Where windows lie.
        inputs: Channels of the images.
        plain: The same function in JAX.
    """
    by_patches = patches.suits_products(pooled_geometries(geometry), inputs)
    # Rows of few numbers in half precision would be loaded one by one.
    are_few = by_patches or inputs < LEAST
    return fused(plain, *(_of_few_channels if are_few else _of_many_channels)(even(geometry)))


def _of_few_channels(geometry: Geometry) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return a pooled convolution and its gradients, by patches where these are the faster ones."""
    geometries = pooled_geometries(geometry)

    def forward(x: Array, w: Array, bias: Array) -> tuple[Array, Array]:
        if patches.suits_products(geometries, x.shape[3]):
            return patches.pooled_products(geometries, x, w, bias)
        return pooled_products(geometries, exact(x), exact(w), bias)

    def backward(arguments: tuple[Array, ...], is_largest: Array, g: Array) -> tuple[Array, ...]:
        x, w, bias = arguments
        of_image = _image_gradient(geometry, exact(_spread(g, is_largest)), exact(w), g.dtype)
        if patches.suits_sums(geometries, x.shape[3]):
            sums = patches.pooled_sums(geometries, x, g, is_largest)
        else:
            sums = window_sums(geometries, exact(x), exact(g), is_largest)
        return of_image, _as_weights(w, sums[:-1]), sums[-1].astype(bias.dtype)

    return forward, backward


def _of_many_channels(geometry: Geometry) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return a pooled convolution by windows and its gradients."""
    geometries = pooled_geometries(geometry)

    def forward(x: Array, w: Array, bias: Array) -> tuple[Array, tuple[Factors, Array]]:
        factors = Factors(rounded(x), rounded(w))
        value, is_largest = pooled_products(geometries, *factors, bias)
        return value, (factors, is_largest)

    def backward(
        arguments: tuple[Array, ...], more: tuple[Factors, Array], g: Array
    ) -> tuple[Array, ...]:
        (_, w, bias), (factors, is_largest) = arguments, more
        of_y, of_bias = spread(g, is_largest)
        of_image = _image_gradient(geometry, of_y, factors.w, g.dtype)
        of_weights = _as_weights(w, window_sums((geometry,), factors.x, of_y))
        return of_image, of_weights, of_bias.astype(bias.dtype)

    return forward, backward


def _factor_of(geometry: Geometry, x: Array) -> Callable[[Array], Factor]:
    """Return what makes factors: of short windows, products save less time than rounding takes."""
    return rounded if geometry.taps * x.shape[3] >= LONG_WINDOW else exact


def _image_gradient(geometry: Geometry, g: Factor, w: Factor, dtype: DTypeLike) -> Array:
    """Return dx."""
    if any(axis.stride > 1 for axis in geometry):
        between = [(0, 0, 0), *((0, 0, axis.stride - 1) for axis in geometry), (0, 0, 0)]
        g = g._replace(numbers=jax.lax.pad(g.numbers, jnp.zeros((), g.numbers.dtype), between))
    return window_products(transposed(geometry), g, w, dtype, inputs_last=True)


def _as_weights(w: Array, sums: Array) -> Array:
    return sums.reshape(w.shape).astype(w.dtype)


def _spread(g: Array, is_largest: Array) -> Array:
    """Return the gradient of y from that of what was pooled, in its type and without a scale."""
    n, rows, columns, outputs = g.shape
    each = g / jax.lax.population_count(is_largest).astype(g.dtype)
    place = jnp.arange(4, dtype=jnp.uint8).reshape(2, 1, 2, 1)
    passes = (is_largest[:, :, None, :, None] >> place) & 1
    whole = jnp.where(passes == 1, each[:, :, None, :, None], 0)
    return whole.reshape(n, 2 * rows, 2 * columns, outputs)
