"""How convolutions are best divided between a GPU's programs: microseconds of each division.

    python benchmarks/tiles.py FILE.json [LAYER ...]

Layers of the CNN and the ResNet of benchmarks/models.py that are products of windows, of 10 and 100
clients, 20 samples each: forward, the gradient of images, and that of weights, from numbers in the
precision in which they are multiplied. The first division of each is the one that is used
(src/maxfl/models/gpu/tiles.py); sums of others are divided between as many programs as of float32.
Needs what benchmarks/models.py does.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import jax
import jax.numpy as jnp
from jax import Array
from kernels import repeating, timed
from origin import origin

from maxfl.models.gpu import products
from maxfl.models.gpu.factors import exact
from maxfl.models.gpu.places import Geometry, even, pooled_geometries, transposed, window_geometry
from maxfl.models.gpu.tiles import PROGRAMS, Tile

COHORTS, SAMPLES, KERNEL = (10, 100), 20, 3
FLOAT, HALF = jnp.float32, jnp.float16


class Layer(NamedTuple):
    """A function of a client's arrays, and which function chooses its tile."""

    name: str
    function: Callable[..., Any]
    arrays: tuple[jax.ShapeDtypeStruct, ...]
    chooser: str
    is_pooled: bool = False


def layers() -> Iterator[Layer]:
    """List those of the CNN, and of the ResNet those that do not change size."""
    first, second = geometry_of(28, 0), geometry_of(13, 0)
    x, g, bits = images(28, 1), images(13, 32), images(13, 32, jnp.uint8)

    def of_first_weights(x: Array, g: Array, bits: Array) -> Any:
        return products.window_sums(pooled_geometries(first), exact(x), exact(g), bits)

    def second_forward(x: Array, w: Array, bias: Array) -> Any:
        return products.pooled_products(pooled_geometries(second), exact(x), exact(w), bias)

    yield Layer("cnn 1-32 weights", of_first_weights, (x, g, bits), "sum_tile", True)
    x, w = images(13, 32, HALF), shape(KERNEL, KERNEL, 32, 64, dtype=HALF)
    yield Layer("cnn 32-64 forward", second_forward, (x, w, shape(64)), "pooled_tile", True)
    g = images(10, 64, HALF)
    yield of_weights("cnn 32-64 weights", even(second), x, g)
    yield of_images("cnn 32-64 images", even(second), g, w)
    for side, channels, dtype in ((32, 16, FLOAT), (16, 32, HALF), (8, 64, HALF)):
        geometry = geometry_of(side, 1)
        x, w = images(side, channels, dtype), shape(KERNEL, KERNEL, channels, channels, dtype=dtype)
        name = f"resnet {channels}"

        def forward_alone(x: Array, w: Array, geometry: Geometry = geometry) -> Any:
            return products.window_products(geometry, exact(x), exact(w), FLOAT)

        yield Layer(f"{name} forward", forward_alone, (x, w), "product_tile")
        yield of_weights(f"{name} weights", geometry, x, x)
        yield of_images(f"{name} images", geometry, x, w)


def of_weights(name: str, geometry: Geometry, x: Any, g: Any) -> Layer:
    """Return the gradient of weights."""

    def function(x: Array, g: Array) -> Any:
        return products.window_sums((geometry,), exact(x), exact(g))

    return Layer(name, function, (x, g), "sum_tile")


def of_images(name: str, geometry: Geometry, g: Any, w: Any) -> Layer:
    """Return the gradient of images."""

    def function(g: Array, w: Array) -> Any:
        back = transposed(geometry)
        return products.window_products(back, exact(g), exact(w), FLOAT, inputs_last=True)

    return Layer(name, function, (g, w), "product_tile")


def tiles(layer: Layer) -> list[Tile]:
    """List divisions to try."""
    if layer.chooser == "sum_tile":
        tried = product((32, 64), (32, 64, 128), (1, 2, 4), (2,) if layer.is_pooled else (3,))
    else:
        places = (32, 64) if layer.is_pooled else (64, 128, 256)
        tried = product(places, (16, 32, 64), (4,), (2, 3, 4))
    return [Tile(*sizes) for sizes in tried]


def main() -> None:
    """Compile all at the same time, then measure one after another, print and write."""
    known = {layer.name: layer for layer in layers()}
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("layers", nargs="*", choices=[*known, []], metavar="LAYER")
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in given.layers or known:
        layer = known[name]
        for clients in COHORTS:
            tried: list[Tile | None] = [None, *tiles(layer)]
            programs = [lowered(layer, clients, tile) for tile in tried]
            with ThreadPoolExecutor() as pool:
                compiled = list(pool.map(compiled_or_none, programs))
            arrays = [drawn((clients, *a.shape), a.dtype) for a in layer.arrays]
            us = {
                json.dumps(tile): timed(run, arrays)
                for tile, run in zip(tried, compiled, strict=True)
                if run is not None
            }
            rows.append({"layer": name, "clients": clients, "us": us})
            best = {tile: round(us[tile], 1) for tile in sorted(us, key=us.__getitem__)[:4]}
            print(name, clients, f"used: {us['null']:.1f}", best, flush=True)
            found = {"device": jax.devices()[0].device_kind, "jax": jax.__version__} | origin()
            given.file.write_text(json.dumps(found | {"layers": rows}, indent=1) + "\n")


def lowered(layer: Layer, clients: int, tile: Tile | None) -> Any:
    """Return a program that computes a layer many times with this tile, or the one that is used."""
    run = repeating(jax.vmap(layer.function))
    shapes = [jax.ShapeDtypeStruct((clients, *a.shape), a.dtype) for a in layer.arrays]
    jax.clear_caches()
    if tile is None:
        return jax.jit(run).lower(*shapes)
    found = (tile, PROGRAMS) if layer.chooser == "sum_tile" else tile
    with patch.object(products, layer.chooser, lambda *_, **__: found):
        return jax.jit(run).lower(*shapes)


def compiled_or_none(program: Any) -> Any:
    """Compile what was lowered, unless a tile does not fit on the chip."""
    try:
        return program.compile()
    except Exception:  # whatever compilers say of it
        return None


def geometry_of(side: int, margin: int) -> Geometry:
    """Return where windows of 3 × 3 lie."""
    margins = ((margin, margin),) * 2
    return window_geometry((side, side), (KERNEL, KERNEL), (1, 1), margins, (1, 1))


def images(side: int, channels: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    """Return the shape of a client's images."""
    return jax.ShapeDtypeStruct((SAMPLES, side, side, channels), dtype)


def shape(*sizes: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    """Return the shape of numbers."""
    return jax.ShapeDtypeStruct(sizes, dtype)


def drawn(shape: tuple[int, ...], dtype: Any) -> Array:
    """Draw numbers; of four products the first is the largest."""
    if dtype == jnp.uint8:
        return jnp.ones(shape, dtype)
    return jax.random.normal(jax.random.key(0), shape, dtype)


if __name__ == "__main__":
    main()
