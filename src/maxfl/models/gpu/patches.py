"""Pooled convolutions of images of few channels, a patch of pixels for four places at once.

A window of nine numbers, 3 × 3 pixels of one channel, is shorter than what a tensor core
multiplies. The windows of the four places that are pooled together lie in a patch of 4 × 4 pixels:
that is loaded once, and multiplied by the weights of each place, with zeros around them. (An
infinite pixel makes NaN of those beside it; features are finite.)
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from maxfl.models.gpu.launch import launch, over_clients
from maxfl.models.gpu.places import Geometries, Geometry
from maxfl.models.gpu.pooling import pool, share
from maxfl.models.gpu.program import count, divide, load, multiply, store
from maxfl.models.gpu.sizes import LEAST, LONGEST_PATCH, power_of_two
from maxfl.models.gpu.tiles import Size

PLACES, SUMMED, WARPS = 64, 32, 4
"""Places whose patches a program multiplies at once, those that it sums over, and its warps."""
PROGRAMS = 1200
"""Programs that keep a large GPU busy. These numbers were chosen by measurements on an H200."""


class Patch(NamedTuple):
    """Pixels that the windows of places that are pooled together lie in.

    Attributes:
        top: Of the first row, from the first pixel of a place.
        left: Of the first column.
        rows: Number of rows.
        columns: Number of columns.
        inputs: Channels of a pixel.
    """

    top: int
    left: int
    rows: int
    columns: int
    inputs: int

    @property
    def length(self) -> int:
        """Numbers of a patch."""
        return self.rows * self.columns * self.inputs

    @property
    def held(self) -> int:
        """Numbers that a program holds: a power of two, as all sizes within one must be."""
        return power_of_two(self.length)


def patch_of(geometries: Geometries, inputs: int) -> Patch:
    """Return the patch of places that are pooled together."""
    axes = tuple(zip(*geometries, strict=True))
    top, left = (min(axis.offset for axis in each) for each in axes)
    below, right = (
        max(axis.offset + axis.dilation * (axis.taps - 1) + 1 for axis in each) for each in axes
    )
    return Patch(top, left, below - top, right - left, inputs)


def suits_products(geometries: Geometries, inputs: int) -> bool:
    """Tell whether products are computed by patches: where a program holds one."""
    return patch_of(geometries, inputs).length <= LONGEST_PATCH


def suits_sums(geometries: Geometries, inputs: int) -> bool:
    """Tell whether sums are computed by patches: not where a tensor core holds a whole window."""
    return suits_products(geometries, inputs) and geometries[0].taps * inputs > LEAST


def pooled_products(geometries: Geometries, x: Array, w: Array, bias: Array) -> tuple[Array, Array]:
    """Return what ``products.pooled_products`` does."""
    value, is_largest = over_clients(functools.partial(_products, geometries), x, w, bias)
    return value, is_largest


def pooled_sums(geometries: Geometries, x: Array, g: Array, is_largest: Array) -> Array:
    """Return what ``products.window_sums`` does of what was pooled."""
    return over_clients(functools.partial(_sums, geometries), x, g, is_largest)[0]


@functools.partial(jax.jit, static_argnums=0)
def _products(geometries: Geometries, x: Array, w: Array, bias: Array) -> tuple[Array, ...]:
    size = _size(geometries, x, w.shape[4])
    steps, parts = _divided(size, len(x), PLACES)
    shape = len(x), size.places * size.outputs
    found = launch(
        functools.partial(_patch_pooling_kernel, geometries, size, steps),
        (x, w, bias),
        [jax.ShapeDtypeStruct(shape, x.dtype), jax.ShapeDtypeStruct(shape, jnp.uint8)],
        (len(x), parts, size.programs),
        warps=WARPS,
    )
    places = (axis.places for axis in geometries[0])
    whole = *x.shape[:2], *places, size.outputs
    return tuple(a.reshape(whole) for a in found)


@functools.partial(jax.jit, static_argnums=0)
def _sums(geometries: Geometries, x: Array, g: Array, is_largest: Array) -> tuple[Array]:
    clients, *_, inputs = x.shape
    size, patch = _size(geometries, x, g.shape[4]), patch_of(geometries, inputs)
    steps, parts = _divided(size, clients, SUMMED)
    rows = len(geometries) * patch.length
    shapes = (clients, parts * rows * size.outputs), (clients, parts * size.outputs)
    of_patches, of_bias = launch(
        functools.partial(_patch_sum_kernel, geometries, size, steps),
        (x, g, is_largest),
        [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes],
        (clients, parts, size.programs),
        warps=WARPS,
    )
    whole = of_patches.reshape(clients, parts, len(geometries), *patch[2:], size.outputs).sum(1)
    each = [_taps(patch, geometry, whole[:, i]) for i, geometry in enumerate(geometries)]
    taps = functools.reduce(jnp.add, each)
    last = of_bias.reshape(clients, parts, size.outputs).sum(1)
    return (jnp.concatenate([taps.reshape(clients, -1, size.outputs), last[:, None]], 1),)


def _size(geometries: Geometries, x: Array, outputs: int) -> Size:
    return Size(x.shape[1] * geometries[0].places, x.shape[4], geometries[0].taps, outputs)


def _divided(size: Size, clients: int, places: int) -> tuple[int, int]:
    """Return how many times a program computes so many places, and programs for all of them."""
    whole = pl.cdiv(size.places, places)
    steps = min(max(whole * clients * size.programs // PROGRAMS, 1), whole)
    return steps, pl.cdiv(whole, steps)


def _taps(patch: Patch, geometry: Geometry, sums: Array) -> Array:
    """Return sums of the taps of one place [clients, rows, columns, inputs, outputs]."""
    cuts = [
        slice(axis.offset - first, axis.offset - first + axis.dilation * axis.taps, axis.dilation)
        for axis, first in zip(geometry, patch[:2], strict=True)
    ]
    return sums[:, *cuts]


def _patch_pooling_kernel(
    geometries: Geometries, size: Size, steps: int, x: Any, w: Any, bias: Any, *results: Any
) -> None:
    """Multiply patches by weights, and pool, at a part of all places."""
    patch, output, part = patch_of(geometries, size.inputs), _outputs(size), pl.program_id(1)
    weights = [_load_weights(patch, geometry, size, w, output) for geometry in geometries]
    added = triton.load(bias.at[output], mask=output < size.outputs, other=0.0)

    def step(number: Array, _: tuple[()]) -> tuple[()]:
        place = (part * steps + number) * PLACES + count(PLACES)
        pixels = _load_patches(patch, geometries[0], size, x, place)
        totals = [multiply(pixels, weight) for weight in weights]
        exists = (place < size.places)[:, None] & (output < size.outputs)[None, :]
        for table, values in zip(results, pool(totals, added), strict=True):
            store(table, place * size.outputs, output, exists, values)
        return ()

    jax.lax.fori_loop(0, steps, step, ())


def _patch_sum_kernel(
    geometries: Geometries, size: Size, steps: int, x: Any, g: Any, is_largest: Any, *results: Any
) -> None:
    """Sum products of patches and gradients over a part of all places, and gradients alone."""
    patch, output, part = patch_of(geometries, size.inputs), _outputs(size), pl.program_id(1)

    def add(number: Array, sums: tuple[Array, ...]) -> tuple[Array, ...]:
        *of_patches, of_bias = sums
        place = (part * steps + number) * SUMMED + count(SUMMED)
        pixels = _load_patches(patch, geometries[0], size, x, place).T
        exists = (place < size.places)[:, None] & (output < size.outputs)[None, :]
        gradient, bits = (load(a, place * size.outputs, output, exists) for a in (g, is_largest))
        shares = share(gradient, bits.astype(jnp.int32))
        for i, each in enumerate(shares):
            of_patches[i] += multiply(pixels, each)
            of_bias += each.astype(jnp.float32)
        return *of_patches, of_bias

    nothing = [jnp.zeros((patch.held, size.wide), jnp.float32)] * len(geometries)
    sums = (*nothing, jnp.zeros((SUMMED, size.wide), jnp.float32))
    *of_patches, of_bias = jax.lax.fori_loop(0, steps, add, sums)
    row = count(patch.held)
    exists = (row < patch.length)[:, None] & (output < size.outputs)[None, :]
    for i, total in enumerate(of_patches):
        at = (part * len(geometries) + i) * patch.length + row
        store(results[0], at * size.outputs, output, exists, total)
    at = part * size.outputs + output
    triton.store(results[1].at[at], of_bias.sum(0), mask=output < size.outputs)


def _outputs(size: Size) -> Array:
    """Return the outputs of a program."""
    return pl.program_id(2) * size.wide + count(size.wide)


def _load_weights(patch: Patch, geometry: Geometry, size: Size, w: Any, output: Array) -> Array:
    """Load the weights of one place, with zeros around them: [numbers of a patch, outputs]."""
    number = count(patch.held)
    pixel, channel = divide(number, patch.inputs)
    tap, is_tap = jnp.zeros_like(number), number < patch.length
    for axis, first, at in zip(geometry, patch[:2], divide(pixel, patch.columns), strict=True):
        step, rest = divide(at + first - axis.offset, axis.dilation)
        tap = tap * axis.taps + step
        is_tap &= (rest == 0) & (step >= 0) & (at + first >= axis.offset) & (step < axis.taps)
    exists = is_tap[:, None] & (output < size.outputs)[None, :]
    return load(w, (tap * patch.inputs + channel) * size.outputs, output, exists)


def _load_patches(patch: Patch, geometry: Geometry, size: Size, x: Any, place: Array) -> Array:
    """Load patches, [places, numbers of a patch], 0 where there is no pixel."""
    rows, columns = geometry
    image, inside = divide(place, geometry.places)
    pixel, channel = divide(count(patch.held), patch.inputs)
    exists = (place < size.places)[:, None] & (pixel < patch.rows * patch.columns)[None, :]
    at = image[:, None]
    for axis, first, of_place, of_pixel in zip(
        (rows, columns),
        patch[:2],
        divide(inside, columns.places),
        divide(pixel, patch.columns),
        strict=True,
    ):
        there = (axis.stride * of_place)[:, None] + (first + of_pixel)[None, :]
        exists &= (there >= 0) & (there < axis.pixels)
        at = at * axis.pixels + there
    at = at * patch.inputs + channel[None, :]
    return triton.load(x.at[at], mask=exists, other=jnp.zeros((), x.dtype))
