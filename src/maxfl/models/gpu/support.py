"""What the kernels here compute: that for which they were made, and measured.

This file alone may be imported everywhere: it does not import Pallas before there is a GPU.
"""

import functools
import math
import warnings
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

ADDRESSES = 2**31
"""Numbers of an array that a kernel's addresses reach."""
MOST_CHANNELS = 64
"""Of a convolution: up to here windows in memory take longer."""
LARGEST_IMAGE = 32_768
"""Numbers of an image that a program of group normalisation can hold."""


def takes_convolution(x: Array, w: Array, **product: Any) -> bool:
    """Tell whether images are convolved with weights [..., inputs, outputs] by a kernel.

    Args:
        x: Images.
        w: Weights.
        product: ``precision`` and ``preferred_element_type`` of the product.
    """
    is_usual = product.get("precision") is None and (
        product.get("preferred_element_type") in (None, x.dtype)
    )
    widest = max(w.shape[2:])
    reaches = math.prod(x.shape[:3]) * widest < ADDRESSES
    return is_usual and widest <= MOST_CHANNELS and reaches and _takes(x, w)


def takes_group_norm(h: Array) -> bool:
    """Tell whether images [n, height, width, channels] are normalised by a kernel."""
    pixels, channels = h.shape[1] * h.shape[2], h.shape[3]
    fits = _up(pixels) * _up(channels) <= LARGEST_IMAGE and h.size < ADDRESSES
    return fits and _takes(h)


def _up(number: int) -> int:
    """Return the next power of two."""
    return 1 << (number - 1).bit_length()


def _takes(*arrays: Array) -> bool:
    """Tell whether there is a GPU, and nothing unusual is asked of products."""
    return (
        jax.default_backend() == "gpu"
        and len({a.dtype for a in arrays}) == 1
        and arrays[0].dtype in (jnp.float32, jnp.bfloat16)
        and jax.config.jax_default_matmul_precision is None  # type: ignore[attr-defined]
        and _compiles()
    )


@functools.cache
def _compiles() -> bool:
    """Try whether this version of JAX compiles kernels for this GPU, and say it if not."""
    try:
        from maxfl.models.gpu.places import windows_form
        from maxfl.models.gpu.products import window_products

        form = windows_form((4, 4), (3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1))
        x, w = (jax.ShapeDtypeStruct(s, jnp.float32) for s in ((1, 4, 4, 1), (3, 3, 1, 1)))
        jax.jit(functools.partial(window_products, form)).lower(x, w).compile()
    except Exception as error:  # whatever compilers say: there is another way to compute it all
        warnings.warn(
            f"maxfl's kernels for GPUs can't be compiled here, and models with convolutions take "
            f"longer without them ({type(error).__name__}: {error})",
            stacklevel=2,
        )
        return False
    return True
