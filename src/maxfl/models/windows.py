"""A convolution of images as one matrix product, all windows times the kernel.

    out[n, i, j] = Σ_{a, b} x[n, s·i + d·a, s·j + d·b] · kernel[a, b]    s: stride, d: dilation

Where each client has a kernel of its own, that is one batch of products, several times as fast as
the grouped convolution that ``jax.lax.conv_general_dilated`` becomes.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array


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
    borders = [(0, 0, 0), *((before, after, 0) for before, after in margins), (0, 0, 0)]
    x = jax.lax.pad(x, jnp.zeros((), x.dtype), borders)
    rows, columns = (range(0, n * d, d) for n, d in zip(kernel.shape, dilation, strict=False))
    height, width = x.shape[1] - rows[-1], x.shape[2] - columns[-1]
    # Columns first, then rows: ten pieces for a 5 × 5 kernel instead of 25, half the time on a GPU.
    across = jnp.concatenate([x[:, :, b : b + width : strides[1]] for b in columns], axis=-1)
    windows = jnp.concatenate([across[:, a : a + height : strides[0]] for a in rows], axis=-1)
    return jnp.matmul(windows, kernel.reshape(-1, kernel.shape[3]), **product)
