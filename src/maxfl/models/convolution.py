"""Convolution and pooling of images [n, height, width, channels], the former by ``windows``."""

import math
from typing import Literal, get_args

import jax
import jax.numpy as jnp
from jax import Array

from maxfl.models.gpu.places import window_geometry
from maxfl.models.gpu.support import takes_convolution
from maxfl.models.layers import Layer
from maxfl.models.windows import convolve_windows
from maxfl.utils.errors import InputError

Padding = Literal["same", "valid"]
"""Zeros around an image so that its size stays (is divided by the stride, rounded up), or none."""


def init_convolution(key: Array, kernel: int, inputs: int, outputs: int) -> Layer:
    """Draw weight [kernel, kernel, inputs, outputs] and bias [outputs], uniform in ±1/√fan-in."""
    bound = 1 / math.sqrt(kernel * kernel * inputs)
    shapes = (kernel, kernel, inputs, outputs), (outputs,)
    draws = (
        jax.random.uniform(k, shape, minval=-bound, maxval=bound)
        for k, shape in zip(jax.random.split(key), shapes, strict=True)
    )
    return Layer(*draws)


def convolve(x: Array, weight: Array, stride: int = 1, padding: Padding = "same") -> Array:
    """Convolve x [n, height, width, inputs] with weight [rows, columns, inputs, outputs]."""
    margins = _margins(x, weight, stride, padding)
    return convolve_windows(x, weight, (stride, stride), margins)


def convolution_layer(layer: Layer, x: Array, padding: Padding) -> Array:
    """Convolve x, take the largest of each 2 × 2, add the bias, and let what is positive pass."""

    def plain(x: Array, weight: Array, bias: Array) -> Array:
        return jax.nn.relu(max_pool(convolve(x, weight, padding=padding)) + bias)

    margins = _margins(x, layer.weight, 1, padding)
    geometry = window_geometry(x.shape[1:3], layer.weight.shape[:2], (1, 1), margins, (1, 1))
    if not takes_convolution(geometry, x, *layer):
        return plain(x, *layer)
    from maxfl.models.gpu.convolution import pooled_convolution

    return pooled_convolution(geometry, x.shape[3], plain)(x, *layer)


def convolved_side(side: int, kernel: int, stride: int = 1, padding: Padding = "same") -> int:
    """Return what a convolution makes of a height or width; 0 or less if it is too small."""
    return -(-(side if padding == "same" else side - kernel + 1) // stride)


def check_padding(padding: str) -> None:
    """Refuse anything but ``same`` and ``valid``."""
    if padding not in get_args(Padding):
        raise InputError(f"conv_padding = {padding!r}: expected {' or '.join(get_args(Padding))}")


@jax.custom_jvp
def max_pool(h: Array) -> Array:
    """Take the largest of each 2 × 2; a row or column left over is dropped.

    Its derivative is that of JAX's ``max``, shared between equals, in a third of the time on a CPU;
    where there is a NaN, the gradient is 0.
    """
    return _by_fours(h).max((2, 4))


@max_pool.defjvp
def _pool_derivative(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (h,), (change,) = primals, tangents
    largest = max_pool(h)
    is_largest = _by_fours(h) == largest[:, :, None, :, None]
    equals = is_largest.astype(h.dtype).sum((2, 4))
    return largest, jnp.where(is_largest, _by_fours(change), 0.0).sum((2, 4)) / equals


def _by_fours(h: Array) -> Array:
    """Return images as [n, rows, 2, columns, 2, channels], without what is left over."""
    n, height, width, channels = h.shape
    rows, columns = height // 2, width // 2
    return h[:, : 2 * rows, : 2 * columns].reshape(n, rows, 2, columns, 2, channels)


def _margins(x: Array, weight: Array, stride: int, padding: Padding) -> list[tuple[int, int]]:
    """Return how many zeros go before and after; of an odd number the larger part after."""
    if padding == "valid":
        return [(0, 0), (0, 0)]
    more = (
        max((convolved_side(side, kernel, stride) - 1) * stride + kernel - side, 0)
        for side, kernel in zip(x.shape[1:3], weight.shape[:2], strict=True)
    )
    return [(zeros // 2, zeros - zeros // 2) for zeros in more]
