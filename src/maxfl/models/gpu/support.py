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

from maxfl.models.gpu.places import Geometry
from maxfl.models.gpu.sizes import (
    ADDRESSES,
    LARGEST_BATCH,
    LARGEST_IMAGE,
    LONGEST,
    MOST_CHANNELS,
    MOST_FEATURES,
    MOST_LAYERS,
    SAMPLES_PER_UNIT,
    WIDEST_LAYER,
    WIDEST_ROW,
    power_of_two,
)


def takes_convolution(geometry: Geometry, x: Array, w: Array, *bias: Array, **product: Any) -> bool:
    """Tell whether images are convolved with weights [..., inputs, outputs] by a kernel.

    Args:
        geometry: Where windows lie.
        x: Images.
        w: Weights.
        bias: Where each 2 × 2 is pooled, too.
        product: ``precision`` and ``preferred_element_type`` of the product.
    """
    is_usual = product.get("precision") is None and (
        product.get("preferred_element_type") in (None, x.dtype)
    )
    widest, pixels = max(w.shape[2:]), math.prod(x.shape[1:3])
    fewest = 2 if bias else 1
    fits = widest <= MOST_CHANNELS and all(axis.places >= fewest for axis in geometry)
    reaches = len(x) * max(pixels, geometry.places) * widest < ADDRESSES
    return is_usual and fits and reaches and _takes("convolution", x, w, *bias)


def takes_group_norm(groups: int, h: Array, *others: Array) -> bool:
    """Tell whether images [n, height, width, channels] are normalised by a kernel.

    Args:
        groups: Of channels.
        h: Images.
        others: Scale, shift and perhaps a shortcut.
    """
    pixels, channels = h.shape[1] * h.shape[2], h.shape[3]
    held = power_of_two(pixels) * power_of_two(channels)
    fits = channels <= MOST_CHANNELS and channels % groups == 0 and held <= LARGEST_IMAGE
    return fits and h.size < ADDRESSES and _takes("group normalisation", h, *others)


def takes_layer_norm(scale: Array, shift: Array, h: Array) -> bool:
    """Tell whether the gradient of normalising h [..., features] is computed by a kernel."""
    fits = h.ndim > 1 and h.shape[-1] <= WIDEST_ROW and h.size < ADDRESSES
    return fits and _takes("layer normalisation", h, scale, shift)


def takes_attention(together: Array, heads: int) -> bool:
    """Tell whether queries, keys and values [n, length, 3 · width] are mixed by a kernel."""
    _, length, wide = together.shape
    fits = length <= LONGEST and wide <= 3 * heads * MOST_FEATURES and wide % (3 * heads) == 0
    return fits and together.size < ADDRESSES and _takes("attention", together)


def most_perceptron_steps(batch: int, *parameters: Array) -> int:
    """Return how many local steps of a perceptron are taken at once; 0 if there is no kernel.

    Args:
        batch: Samples of a minibatch.
        parameters: Weight and bias of each layer.
    """
    units = [bias.size for bias in parameters[1::2]]
    fits = len(units) <= MOST_LAYERS and max(units) <= WIDEST_LAYER and batch <= LARGEST_BATCH
    has_x64: bool = jax.config.jax_enable_x64  # type: ignore[attr-defined]
    is_usual = parameters[0].dtype == jnp.float32 and not has_x64
    if not fits or not is_usual or not _takes("perceptron", *parameters):
        return 0
    return SAMPLES_PER_UNIT * units[0] // batch


def _takes(kind: str, *arrays: Array) -> bool:
    """Tell whether there is a GPU and something to compute, in the usual precision.

    ``jax.default_matmul_precision``, as ``maxfl.with_precision`` sets it, turns all kernels off.
    """
    dtype = arrays[0].dtype
    return (
        _platform() == "gpu"
        and all(a.dtype == dtype and a.size > 0 for a in arrays)
        and dtype in (jnp.float32, jnp.bfloat16)
        and jax.config.jax_default_matmul_precision is None  # type: ignore[attr-defined]
        and _compiles(kind, dtype.name)
    )


def _platform() -> str:
    """Return on what kind of device JAX computes by default."""
    device = jax.config.jax_default_device  # type: ignore[attr-defined]
    return device.platform if isinstance(device, jax.Device) else device or jax.default_backend()


@functools.cache
def _compiles(kind: str, dtype: str) -> bool:
    """Try whether this version of JAX compiles the kernels for this GPU, and say it if not."""
    try:
        from maxfl.models.gpu.trials import TRIALS

        TRIALS[kind](dtype)
    except Exception as error:  # whatever compilers say: there is another way to compute it
        warnings.warn(
            f"maxfl's kernels for {kind} can't be compiled for this GPU; without "
            f"them it takes longer ({type(error).__name__}: {error})",
            stacklevel=2,
        )
        return False
    return True
