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

from maxfl.models.gpu.sizes import ADDRESSES, power_of_two

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
    held = power_of_two(pixels) * power_of_two(channels)
    fits = held <= LARGEST_IMAGE and h.size < ADDRESSES
    return fits and _takes(h)


def _takes(*arrays: Array) -> bool:
    """Tell whether there is a GPU and something to compute, in the usual precision.

    ``jax.default_matmul_precision``, as ``maxfl.with_precision`` sets it, turns all kernels off.
    """
    dtype = arrays[0].dtype
    return (
        _platform() == "gpu"
        and all(a.dtype == dtype and a.size > 0 for a in arrays)
        and dtype in (jnp.float32, jnp.bfloat16)
        and jax.config.jax_default_matmul_precision is None  # type: ignore[attr-defined]
        and _compiles(dtype.name)
    )


def _platform() -> str:
    """Return on what kind of device JAX computes by default."""
    device = jax.config.jax_default_device  # type: ignore[attr-defined]
    return device.platform if isinstance(device, jax.Device) else device or jax.default_backend()


@functools.cache
def _compiles(dtype: str) -> bool:
    """Try whether this version of JAX compiles the kernels for this GPU, and say it if not.

    All of them, in the sizes that take most: a GPU may have less memory on the chip than another.
    """
    try:
        from maxfl.models.gpu.group_norm import Image, gradients, normalised
        from maxfl.models.gpu.places import pooled_geometries, window_geometry
        from maxfl.models.gpu.products import pooled_products, window_products, window_sums

        side, channels = 8, MOST_CHANNELS
        geometry = window_geometry((side, side), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))
        pooled = pooled_geometries(geometry)
        image = Image(LARGEST_IMAGE // channels, channels, 1, 1.0)

        def kernels(x: Array, w: Array, bias: Array, h: Array) -> Any:
            value, is_largest = pooled_products(pooled, x, w, bias)
            sums = window_sums(pooled, x, value, is_largest)
            normal = normalised(image, bias, bias, h, h)
            return window_products(geometry, x, w), sums, gradients(image, bias, h, normal, h)

        images = (1, side, side, channels), (1, LARGEST_IMAGE // channels, 1, channels)
        shapes = images[0], (3, 3, channels, channels), (channels,), images[1]
        inputs = [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes]
        jax.jit(kernels).lower(*inputs).compile()
    except Exception as error:  # whatever compilers say: there is another way to compute it all
        warnings.warn(
            f"maxfl's kernels for GPUs can't be compiled here, and models with convolutions take "
            f"longer without them ({type(error).__name__}: {error})",
            stacklevel=2,
        )
        return False
    return True
