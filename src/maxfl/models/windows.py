"""A convolution of images as one matrix product, all windows times the kernel.

    out[n, i, j] = Σ_{a, b} x[n, s·i + d·a, s·j + d·b] · kernel[a, b]    s: stride, d: dilation

Where each client has a kernel of its own, that is one batch of products, several times as fast as
the grouped convolution that ``jax.lax.conv_general_dilated`` becomes. On a GPU, windows of few
channels are not even written to memory.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from maxfl.models.gpu.places import window_geometry
from maxfl.models.gpu.support import takes_convolution


def convolve_windows(
    x: Array,
    kernel: Array,
    strides: Sequence[int] = (1, 1),
    margins: Sequence[tuple[int, int]] = ((0, 0), (0, 0)),
    dilation: Sequence[int] = (1, 1),
    **product: Any,
) -> Array:
    """Return the convolution, [n, rows of windows, columns of windows, outputs].

    Args:
        x: Images, [n, height, width, inputs].
        kernel: [rows, columns, inputs, outputs].
        strides: Steps from window to window, down and to the right.
        margins: Zeros above and below, left and right; if negative, what is cut off.
        dilation: Steps from row to row and from column to column of the kernel.
        product: ``precision`` and ``preferred_element_type`` of the product.
    """
    by_windows = partial(
        _convolve, strides=strides, margins=margins, dilation=dilation, product=product
    )
    geometry = window_geometry(x.shape[1:3], kernel.shape[:2], strides, margins, dilation)
    if not takes_convolution(geometry, x, kernel, **product):
        return by_windows(x, kernel)
    from maxfl.models.gpu.convolution import convolution

    return convolution(geometry, by_windows)(x, kernel)


def _convolve(
    x: Array,
    kernel: Array,
    strides: Sequence[int],
    margins: Sequence[tuple[int, int]],
    dilation: Sequence[int],
    product: dict[str, Any],
) -> Array:
    """Multiply all windows by the kernel."""
    borders = [(0, 0, 0), *((before, after, 0) for before, after in margins), (0, 0, 0)]
    x = apart(jax.lax.pad(x, jnp.zeros((), x.dtype), borders))
    rows, columns = (range(0, n * d, d) for n, d in zip(kernel.shape, dilation, strict=False))
    windows = apart(_windows(Grid(x.shape[1:], rows, columns, *strides), x))
    # Flat: the gradient of the kernel would be a product over three axes, with copies on a CPU.
    *places, size = windows.shape
    outputs = kernel.shape[3]
    flat, weight = windows.reshape(math.prod(places), size), kernel.reshape(size, outputs)
    return jnp.matmul(flat, weight, **product).reshape(*places, outputs)


class Grid(NamedTuple):
    """Where windows lie in an image.

    Attributes:
        image: Height, width and channels of the image.
        rows: Of a window, counted from its first.
        columns: Likewise.
        down: Rows from window to window.
        right: Columns from window to window.
    """

    image: tuple[int, ...]
    rows: range
    columns: range
    down: int
    right: int


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _windows(grid: Grid, x: Array) -> Array:
    """Return all windows of images, [n, rows of windows, columns of windows, size of one].

    On a CPU each pixel of a window is looked up: joining slices takes twice as long, and computes
    what x is made of once for each. Both have the gradient of the joined ones, a sum of slices.
    """
    return jax.lax.platform_dependent(x, cpu=partial(look_up, grid), default=partial(join, grid))


@_windows.defjvp
def _windows_derivative(
    grid: Grid, primals: tuple[Array], tangents: tuple[Array]
) -> tuple[Array, Array]:
    return _windows(grid, *primals), join(grid, *tangents)


def apart(x: Array) -> Array:
    """Return x, on an accelerator computed by itself, and its gradient too.

    Else what lies before and after windows is computed with them, once for every pixel of each, and
    the sum that gives the gradient of a bias takes longer than any product.
    """
    return jax.lax.platform_dependent(x, cpu=lambda x: x, default=jax.lax.optimization_barrier)


def join(grid: Grid, x: Array) -> Array:
    """Join slices of images.

    Columns first, then rows: ten slices for a 5 × 5 kernel instead of 25, half the time on a GPU.
    """
    height, width = grid.image[0] - grid.rows[-1], grid.image[1] - grid.columns[-1]
    across = [x[:, :, b : b + width : grid.right] for b in grid.columns]
    joined = jnp.concatenate(across, axis=-1)
    return jnp.concatenate([joined[:, a : a + height : grid.down] for a in grid.rows], axis=-1)


def look_up(grid: Grid, x: Array) -> Array:
    """Look up the pixels of every window."""
    height, width, channels = grid.image
    tops = np.arange(0, height - grid.rows[-1], grid.down)
    lefts = np.arange(0, width - grid.columns[-1], grid.right)
    rows = tops[:, None, None, None] + np.asarray(grid.rows)[:, None]
    pixels = rows * width + lefts[:, None, None] + np.asarray(grid.columns)
    found = x.reshape(len(x), height * width, channels)
    found = found.at[:, pixels.ravel()].get(mode="promise_in_bounds")
    size = len(grid.rows) * len(grid.columns) * channels
    return found.reshape(len(x), len(tops), len(lefts), size)
