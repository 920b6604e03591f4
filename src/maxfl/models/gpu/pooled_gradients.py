"""Gradients of a pooled convolution of many channels.

Windows of the four places that are pooled together overlap. A program loads each of their pixels
once, or each gradient around two rows and two columns of pixels, and multiplies it by all that it
meets: 16 tiles for windows of 3 × 3 instead of 36.

Tiles are loaded in the step before: what is carried from step to step is rounded to TF32 before
warps share it. Else, every warp rounds all that it multiplies, which took many times as long.
"""

import functools
import math
from itertools import product
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from maxfl.models.gpu.launch import launch, over_clients
from maxfl.models.gpu.places import PAIR, Geometry, Strip
from maxfl.models.gpu.pooling import share
from maxfl.models.gpu.program import count, divide, load, multiply, store
from maxfl.models.gpu.sizes import LEAST, MOST_TAPS, power_of_two

BLOCKS, CHANNELS = 64, 32
"""Blocks of 2 × 2 pixels whose gradients a program computes, and most of their channels: with 64,
it takes longer than a product of windows."""
OUTPUTS = 64
"""Outputs that a program sums products of, at most; of inputs and of places ``LEAST`` at once."""
STEPS = 4
"""Steps that a sum of few clients takes at least: with fewer, its parts would need more memory."""
PROGRAMS, WARPS = 200, 4
"""Programs that keep a large GPU busy. These numbers were chosen by measurements on an H200."""


class Pooled(NamedTuple):
    """Shape of what was pooled of a client's images."""

    n: int
    rows: int
    columns: int
    outputs: int

    @property
    def places(self) -> int:
        """Number of places in all images."""
        return self.n * self.rows * self.columns


def suits_images(geometry: Geometry, inputs: int) -> bool:
    """Tell whether the gradient of images is computed here: where a program has all channels."""
    return suits_sums(geometry, inputs) and inputs <= CHANNELS


def suits_sums(geometry: Geometry, inputs: int) -> bool:
    """Tell whether sums are computed here: where registers hold those of all taps."""
    is_dense = all(axis.stride == axis.dilation == 1 for axis in geometry)
    return is_dense and inputs >= LEAST and all(axis.taps <= MOST_TAPS for axis in geometry)


def image_gradient(geometry: Geometry, g: Array, is_largest: Array, w: Array) -> Array:
    """Return the gradient of images, [n, height, width, inputs].

    Args:
        geometry: Where windows lie, of all places.
        g: Gradient of what was pooled, [n, rows, columns, outputs].
        is_largest: Which of the four were the largest, uint8 of the same shape with a bit for each.
        w: [taps down, taps across, inputs, outputs].
    """
    return over_clients(functools.partial(_images, geometry), g, is_largest, w)[0]


def pooled_sums(geometry: Geometry, x: Array, g: Array, is_largest: Array) -> Array:
    """Return what ``products.window_sums`` does of what was pooled."""
    return over_clients(functools.partial(_sums, geometry), x, g, is_largest)[0]


@functools.partial(jax.jit, static_argnums=0)
def _images(geometry: Geometry, g: Array, is_largest: Array, w: Array) -> tuple[Array]:
    clients, pooled, inputs = len(g), Pooled(*g.shape[1:]), w.shape[3]
    down, across = map(Strip, geometry)
    shape = pooled.n, *(axis.pixels for axis in geometry), inputs
    (found,) = launch(
        functools.partial(_image_kernel, down, across, pooled, inputs),
        (g, is_largest, w),
        [jax.ShapeDtypeStruct((clients, math.prod(shape)), g.dtype)],
        (clients, pl.cdiv(pooled.n * down.blocks * across.blocks, BLOCKS)),
        warps=WARPS,
    )
    return (found.reshape(clients, *shape),)


@functools.partial(jax.jit, static_argnums=0)
def _sums(geometry: Geometry, x: Array, g: Array, is_largest: Array) -> tuple[Array]:
    clients, pooled, inputs = len(g), Pooled(*g.shape[1:]), x.shape[4]
    wide = min(power_of_two(pooled.outputs), OUTPUTS)
    programs = pl.cdiv(inputs, LEAST) * pl.cdiv(pooled.outputs, wide)
    whole = pl.cdiv(pooled.places, LEAST)
    steps = min(whole, max(STEPS, pl.cdiv(whole, pl.cdiv(PROGRAMS, clients * programs))))
    parts = pl.cdiv(pooled.places, steps * LEAST)
    rows = geometry.taps * inputs + 1
    (found,) = launch(
        functools.partial(_sum_kernel, geometry, pooled, inputs, wide, steps),
        (x, g, is_largest),
        [jax.ShapeDtypeStruct((clients, parts * rows * pooled.outputs), jnp.float32)],
        (clients, parts, programs),
        warps=WARPS,
    )
    return (found.reshape(clients, parts, rows, pooled.outputs).sum(1),)


def _image_kernel(down: Strip, across: Strip, pooled: Pooled, inputs: int, *tables: Any) -> None:
    """Compute the gradients of some blocks of pixels."""
    g, is_largest, w, out = tables
    block = pl.program_id(1) * BLOCKS + count(BLOCKS)
    channel = count(power_of_two(inputs))
    is_channel = _below(channel, inputs, len(channel))
    image, inside = divide(block, down.blocks * across.blocks)
    i, j = divide(inside, across.blocks)
    taps = list(product(range(down.axis.taps), range(across.axis.taps)))
    steps = pl.cdiv(pooled.outputs, LEAST)

    def fetch(step: Array | int) -> Any:
        output = step * LEAST + count(LEAST)
        is_output = _below(output, pooled.outputs, LEAST)
        start = ((image * pooled.rows + i) * pooled.columns + j) * pooled.outputs
        gradients = {}
        for v, u in product(down.reached, across.reached):
            is_place = (image < pooled.n) & _within(i + v, pooled.rows)
            is_place &= _within(j + u, pooled.columns)
            exists = is_place[:, None] & is_output[None, :]
            at = (v * pooled.columns + u) * pooled.outputs + output
            gradients[v, u] = tuple(load(table, start, at, exists) for table in (g, is_largest))
        exists = is_channel[:, None] & is_output[None, :]
        rows = ((tap * inputs + channel) * pooled.outputs for tap in range(len(taps)))
        return gradients, [load(w, row, output, exists) for row in rows]

    def add(step: Array, carry: Any) -> Any:
        totals, (gradients, weights) = carry
        shares: dict[tuple[int, int], list[Array]] = {}  # each when it is needed: registers are few
        for weight, (tap_down, tap_across) in zip(weights, taps, strict=True):
            for pixel, (a, b) in enumerate(product(PAIR, PAIR)):
                (v, row), (u, column) = down.place(a, tap_down), across.place(b, tap_across)
                if (v, u) not in shares:
                    gradient, bits = gradients[v, u]
                    shares[v, u] = share(gradient, bits.astype(jnp.int32))
                totals[pixel] += multiply(weight, shares[v, u][2 * row + column].T)
        return totals, fetch(jnp.minimum(step + 1, steps - 1))

    totals = [jnp.zeros((len(channel), BLOCKS), jnp.float32)] * 4
    totals, _ = jax.lax.fori_loop(0, steps, add, (totals, fetch(0)))
    height, width = down.axis.pixels, across.axis.pixels
    for total, (a, b) in zip(totals, product(PAIR, PAIR), strict=True):
        y, x = 2 * i + down.first + a, 2 * j + across.first + b
        is_pixel = (image < pooled.n) & _within(y, height) & _within(x, width)
        exists = is_pixel[:, None] & is_channel[None, :]
        # Pallas' interpreter writes back what is masked: beyond the end, not over another pixel.
        pixel = jnp.where(is_pixel, (image * height + y) * width + x, pooled.n * height * width)
        store(out, pixel * inputs, channel, exists, total.T)


def _sum_kernel(
    geometry: Geometry, pooled: Pooled, inputs: int, wide: int, steps: int, *tables: Any
) -> None:
    """Sum products of pixels and gradients over a part of all places, and gradients alone."""
    x, g, is_largest, out = tables
    part, output_blocks = pl.program_id(1), pl.cdiv(pooled.outputs, wide)
    input_block, output_block = divide(pl.program_id(2), output_blocks)
    channel = input_block * LEAST + count(LEAST)
    output = output_block * wide + count(wide)
    is_channel = _below(channel, inputs, LEAST)
    is_output = _below(output, pooled.outputs, wide)
    height, width = (axis.pixels for axis in geometry)
    patch = list(product(*(range(axis.taps + 1) for axis in geometry)))
    taps = list(product(*(range(axis.taps) for axis in geometry)))

    def fetch(step: Array | int) -> Any:
        place = (part * steps + step) * LEAST + count(LEAST)
        image, inside = divide(place, pooled.rows * pooled.columns)
        i, j = divide(inside, pooled.columns)
        top, left = (2 * at + axis.offset for at, axis in zip((i, j), geometry, strict=True))
        start = ((image * height + top) * width + left) * inputs
        exists = (image < pooled.n)[:, None] & is_output[None, :]
        gradient, bits = (load(a, place * pooled.outputs, output, exists) for a in (g, is_largest))
        pixels = []
        for row, column in patch:
            is_pixel = image < pooled.n
            for axis, at in zip(geometry, (top + row, left + column), strict=True):
                is_pixel = is_pixel if axis.is_inside else is_pixel & _within(at, axis.pixels)
            exists = is_pixel[:, None] & is_channel[None, :]
            pixels.append(load(x, start, (row * width + column) * inputs + channel, exists))
        return gradient, bits, pixels

    def add(step: Array, carry: Any) -> Any:
        (sums, of_bias), (gradient, bits, pixels) = carry
        ahead = fetch(step + 1)
        of_bias += jnp.where(bits > 0, gradient, 0).astype(jnp.float32)
        shares = share(gradient, bits.astype(jnp.int32))
        for pixel, (row, column) in zip(pixels, patch, strict=True):
            for each, (a, b) in zip(shares, product(PAIR, PAIR), strict=True):
                if (row - a, column - b) in taps:
                    sums[taps.index((row - a, column - b))] += multiply(pixel.T, each)
        return (sums, of_bias), ahead

    sums = (
        [jnp.zeros((LEAST, wide), jnp.float32)] * len(taps),
        jnp.zeros((LEAST, wide), jnp.float32),
    )
    (sums, of_bias), _ = jax.lax.fori_loop(0, steps, add, (sums, fetch(0)))
    rows = len(taps) * inputs + 1
    exists = is_channel[:, None] & is_output[None, :]
    for tap, total in enumerate(sums):
        row = part * rows + tap * inputs + channel
        store(out, row * pooled.outputs, output, exists, total)
    at = (part * rows + rows - 1) * pooled.outputs + output
    triton.store(out.at[at], of_bias.sum(0), mask=is_output & (input_block == 0))


def _below(at: Array, size: int, held: int) -> Array:
    """Tell which numbers are below a size; without comparing where programs hold it whole."""
    return jnp.ones_like(at, bool) if size % held == 0 else at < size


def _within(at: Array, size: int) -> Array:
    return (at >= 0) & (at < size)
