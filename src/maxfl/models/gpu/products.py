"""Products of windows that are never written to memory.

Every program looks up the pixels that it multiplies (an implicit product, Chetlur et al., "cuDNN:
Efficient Primitives for Deep Learning", 2014). Factors of float32 are rounded to TF32, as those of
JAX's products are on such a card by default; those of half precision are multiplied as they are.
Sums are in float32.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton
from jax.typing import DTypeLike

from maxfl.models.gpu.factors import Factor
from maxfl.models.gpu.launch import launch, over_clients
from maxfl.models.gpu.places import Geometries, Geometry
from maxfl.models.gpu.pooling import pool, share
from maxfl.models.gpu.program import count, divide, load, multiply, store
from maxfl.models.gpu.tiles import Size, Tile, pooled_tile, product_tile, sum_tile

FEW_PARTS = 8
"""Up to so many parts of a sum are added term by term."""
PARTS_BYTES = 2**19
"""Bytes that all parts of a client's sum take at most."""


def window_products(
    geometry: Geometry, x: Factor, w: Factor, dtype: DTypeLike, inputs_last: bool = False
) -> Array:
    """Multiply windows by weights, to [n, rows, columns, outputs].

    Args:
        geometry: Where windows lie.
        x: Images, [n, height, width, inputs].
        w: [taps down, taps across, inputs, outputs].
        dtype: Of the result.
        inputs_last: Whether w is [..., outputs, inputs] instead. Turned in memory, XLA would keep
            weights that way, and turn them before and after every step.
    """
    products = functools.partial(_products, (geometry,), jnp.dtype(dtype), inputs_last)
    return over_clients(products, x.numbers, w.numbers, x.unit, w.unit)[0]


def pooled_products(
    geometries: Geometries, x: Factor, w: Factor, bias: Array
) -> tuple[Array, Array]:
    """Take the largest of several products, add a bias, and let what is positive pass.

    Returns:
        [n, rows, columns, outputs] in the type of the bias, and which products were the largest,
        uint8 of the same shape with a bit for each; none where nothing passes.
    """
    products = functools.partial(_products, geometries, bias.dtype, False)
    value, is_largest = over_clients(products, x.numbers, w.numbers, x.unit, w.unit, bias)
    return value, is_largest


def window_sums(geometries: Geometries, x: Factor, g: Factor, *is_largest: Array) -> Array:
    """Sum products of windows and gradients over all places, [window, outputs].

    Args:
        geometries: One, or those of the products that were pooled.
        x: Images, [n, height, width, inputs].
        g: Gradient at places, [n, rows, columns, outputs].
        is_largest: Of what was pooled, which products were the largest, which share it; then both
            factors are exact.

    Returns:
        Of what was pooled with one row more, the gradient of the bias: windows end with a 1.
    """
    (found,) = over_clients(functools.partial(_sums, geometries), x.numbers, g.numbers, *is_largest)
    return found if is_largest else found * x.unit * g.unit


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _products(
    geometries: Geometries,
    dtype: jnp.dtype[Any],
    inputs_last: bool,
    x: Array,
    w: Array,
    unit_of_x: Array,
    unit_of_w: Array,
    *bias: Array,
) -> tuple[Array, ...]:
    clients, n, *_, inputs = x.shape
    outputs = w.shape[3 if inputs_last else 4]
    size = Size(n * geometries[0].places, inputs, geometries[0].taps, outputs, inputs_last)
    tile = pooled_tile(size) if bias else product_tile(size, clients, x.dtype)
    shape = clients, size.places * size.outputs
    results = [jax.ShapeDtypeStruct(shape, dtype), jax.ShapeDtypeStruct(shape, jnp.uint8)]
    found = launch(
        functools.partial(_pooling_kernel if bias else _product_kernel, geometries, size, tile),
        (x, w, unit_of_x, unit_of_w, *bias),
        results if bias else results[:1],
        (clients, pl.cdiv(size.places, tile.places), size.programs),
        warps=tile.warps,
        stages=tile.stages,
    )
    places = (axis.places for axis in geometries[0])
    whole = clients, n, *places, size.outputs
    return tuple(a.reshape(whole) for a in found)


@functools.partial(jax.jit, static_argnums=0)
def _sums(geometries: Geometries, x: Array, g: Array, *is_largest: Array) -> tuple[Array]:
    clients, n, *_, inputs = x.shape
    size = Size(n * geometries[0].places, inputs, geometries[0].taps, g.shape[4])
    rows = size.window + len(is_largest)
    tile, most = sum_tile(size, rows, x.dtype, is_pooled=len(is_largest) > 0)
    programs = pl.cdiv(rows, tile.depth) * size.programs
    steps = pl.cdiv(size.places, tile.places)
    most_parts = max(PARTS_BYTES // (4 * rows * size.outputs), 1)
    steps = pl.cdiv(steps, min(steps, pl.cdiv(most, clients * programs), most_parts))
    parts = pl.cdiv(size.places, steps * tile.places)
    (found,) = launch(
        functools.partial(_sum_kernel, geometries, size, tile, rows, steps),
        (x, g, *is_largest),
        [jax.ShapeDtypeStruct((clients, parts * rows * size.outputs), jnp.float32)],
        (clients, parts, programs),
        warps=tile.warps,
        stages=tile.stages,
    )
    return (_sum_of_parts(found.reshape(clients, parts, rows, size.outputs)),)


def _sum_of_parts(parts: Array) -> Array:
    """Sum over the second axis; of few parts term by term, which XLA merges with what follows."""
    if parts.shape[1] > FEW_PARTS:
        return parts.sum(1)
    return functools.reduce(jnp.add, (parts[:, i] for i in range(parts.shape[1])))


def _product_kernel(
    geometries: Geometries, size: Size, tile: Tile, x: Any, w: Any, *rest: Any
) -> None:
    """Multiply windows at some places by the weights of some outputs."""
    *units, out = rest
    place, output = _places_and_outputs(size, tile)
    (total,) = _totals(geometries, size, tile.depth, x, w, place, output)
    # One after another: both may be far from 1.
    total = functools.reduce(jnp.multiply, _load_units(*units), total)
    _store(out, size, place, output, total)


def _pooling_kernel(
    geometries: Geometries, size: Size, tile: Tile, x: Any, w: Any, *rest: Any
) -> None:
    """Do so for all geometries, and pool."""
    *units, bias, value, is_largest = rest
    place, output = _places_and_outputs(size, tile)
    totals = _totals(geometries, size, tile.depth, x, w, place, output)
    added = triton.load(bias.at[output], mask=output < size.outputs, other=0.0)
    pooled = pool(totals, added, *_load_units(*units))
    for table, values in zip((value, is_largest), pooled, strict=True):
        _store(table, size, place, output, values)


def _load_units(*units: Any) -> list[Array]:
    """Return what a 1 of each factor stands for, [1]."""
    return [triton.load(unit.at[count(1)]) for unit in units]


def _places_and_outputs(size: Size, tile: Tile) -> tuple[Array, Array]:
    """Return the places and the outputs of a program."""
    place = pl.program_id(1) * tile.places + count(tile.places)
    return place, pl.program_id(2) * size.wide + count(size.wide)


def _totals(
    geometries: Geometries, size: Size, depth: int, x: Any, w: Any, place: Array, output: Array
) -> tuple[Array, ...]:
    """Compute the products of each geometry, a part of their windows after another."""

    def add(step: Array, totals: tuple[Array, ...]) -> tuple[Array, ...]:
        number = step * depth + count(depth)
        exists = (number < size.window)[:, None] & (output < size.outputs)[None, :]
        weights = load(w, *_weight_addresses(size, number, output), exists)
        return tuple(
            total + multiply(_windows(geometry, size, x, place, number), weights)
            for geometry, total in zip(geometries, totals, strict=True)
        )

    nothing = jnp.zeros((len(place), size.wide), jnp.float32)
    return jax.lax.fori_loop(0, pl.cdiv(size.window, depth), add, (nothing,) * len(geometries))


def _weight_addresses(size: Size, number: Array, output: Array) -> tuple[Array, Array]:
    """Return what to add: of a number within a window, and of an output."""
    if not size.inputs_last:
        return number * size.outputs, output
    tap, channel = divide(number, size.inputs)
    return tap * (size.inputs * size.outputs) + channel, output * size.inputs


def _sum_kernel(
    geometries: Geometries,
    size: Size,
    tile: Tile,
    rows: int,
    steps: int,
    x: Any,
    g: Any,
    *rest: Any,
) -> None:
    """Sum the products of windows and gradients over a part of all places."""
    *is_largest, out = rest
    part = pl.program_id(1)
    down, across = divide(pl.program_id(2), size.programs)
    output = across * size.wide + count(size.wide)
    number = down * tile.depth + count(tile.depth)
    is_one = (number == size.window)[:, None]

    def add(step: Array, total: Array) -> Array:
        place = (part * steps + step) * tile.places + count(tile.places)
        exists = (place < size.places)[:, None] & (output < size.outputs)[None, :]
        gradients = [load(g, place * size.outputs, output, exists)]
        if is_largest:
            bits = load(is_largest[0], place * size.outputs, output, exists)
            gradients = share(gradients[0], bits.astype(jnp.int32))
        for geometry, gradient in zip(geometries, gradients, strict=True):
            windows = _windows(geometry, size, x, place, number, turn=True)
            windows = jnp.where(is_one, jnp.ones((), x.dtype), windows) if is_largest else windows
            total += multiply(windows, gradient)
        return total

    nothing = jnp.zeros((tile.depth, size.wide), jnp.float32)
    total = jax.lax.fori_loop(0, steps, add, nothing)
    exists = (number < rows)[:, None] & (output < size.outputs)[None, :]
    store(out, (part * rows + number) * size.outputs, output, exists, total)


def _store(out: Any, size: Size, place: Array, output: Array, values: Array) -> None:
    exists = (place < size.places)[:, None] & (output < size.outputs)[None, :]
    store(out, place * size.outputs, output, exists, values)


def _windows(
    geometry: Geometry, size: Size, x: Any, place: Array, number: Array, turn: bool = False
) -> Array:
    """Load numbers of windows, [places, numbers] or turned, 0 where there is no pixel.

    An address is a sum of what depends on the place and of what depends on the number: one addition
    for each that is loaded.
    """
    rows, columns = geometry
    image, inside = divide(place, geometry.places)
    down, across = divide(inside, columns.places)
    tap, channel = divide(number, size.inputs)
    tap_down, tap_across = divide(tap, columns.taps)
    top, left = rows.stride * down + rows.offset, columns.stride * across + columns.offset
    lower, further = rows.dilation * tap_down, columns.dilation * tap_across
    start = ((image * rows.pixels + top) * columns.pixels + left) * size.inputs
    offset = (lower * columns.pixels + further) * size.inputs + channel

    def pair(of_place: Array, of_number: Array) -> tuple[Array, Array]:
        if turn:
            return of_number[:, None], of_place[None, :]
        return of_place[:, None], of_number[None, :]

    first, second = pair(place < size.places, number < size.window)
    exists = first & second
    for axis, place_at, tap_at in ((rows, top, lower), (columns, left, further)):
        if not axis.is_inside:
            first, second = pair(place_at, tap_at)
            exists &= (first + second >= 0) & (first + second < axis.pixels)
    first, second = (offset, start) if turn else (start, offset)
    return load(x, first, second, exists)
