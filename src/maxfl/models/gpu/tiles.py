"""How products of windows are divided between programs.

Chosen among divisions that were timed on an H200, with layers of the CNN and the ResNet of 10 and
of 100 clients: for most of these layers they are the fastest.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.typing import DTypeLike

from maxfl.models.gpu.sizes import power_of_two

WIDEST = 64
"""Outputs that a program computes, at most."""
PROGRAMS = 600
"""Programs that keep a large GPU busy: a sum of float32 of few clients is divided into as many, but
for what the parts of a client take."""
FEWEST = 132
"""Programs below which smaller ones are faster: one for each of the GPU's processors. A sum in half
precision is divided into two for each."""


class Size(NamedTuple):
    """Sizes of a product: places of all images of a client, inputs, taps, and outputs.

    ``inputs_last`` says so of weights in memory.
    """

    places: int
    inputs: int
    taps: int
    outputs: int
    inputs_last: bool = False

    @property
    def window(self) -> int:
        """Numbers of a window."""
        return self.taps * self.inputs

    @property
    def wide(self) -> int:
        """Outputs that a program computes: a power of two, as all sizes within one must be."""
        return min(power_of_two(self.outputs), WIDEST)

    @property
    def programs(self) -> int:
        """Programs that compute all outputs of the same places."""
        return pl.cdiv(self.outputs, self.wide)


class Tile(NamedTuple):
    """What a program multiplies at once.

    Attributes:
        places: Number of places, of each geometry.
        depth: Numbers of their windows.
        warps: Warps that do it.
        stages: Tiles that are being loaded or multiplied at the same time.
    """

    places: int
    depth: int
    warps: int
    stages: int


def product_tile(size: Size, clients: int, dtype: DTypeLike) -> Tile:
    """Return the tile of windows times weights.

    Hopper's asynchronous products want weights of float32 whose inputs are last; others are turned
    one by one. Programs of more places do so less often, and of few outputs there is little to
    turn. Half precision is multiplied as it lies in memory: one tile suits all.
    """
    if _is_half(dtype):
        depth = 64 if size.inputs >= 64 else 32
        return Tile(128, min(power_of_two(size.window), depth), warps=4, stages=3)
    programs = clients * pl.cdiv(size.places, 256) * size.programs
    is_large = size.wide == 16 or (not size.inputs_last and programs >= FEWEST)
    if is_large and size.window > 32:  # less is one step of a smaller tile
        return Tile(256, 16, warps=4, stages=3)
    return Tile(128, min(power_of_two(size.window), 32), warps=4, stages=3)


def pooled_tile(size: Size) -> Tile:
    """Return that of four products, of which the largest is taken.

    64 places of each are the fewest that Hopper's asynchronous products take.
    """
    return Tile(64, min(power_of_two(size.window), 32), warps=4, stages=3)


def sum_tile(size: Size, rows: int, dtype: DTypeLike, is_pooled: bool) -> tuple[Tile, int]:
    """Return the tile of a sum over places, some of its rows at some places, and how many programs.

    In memory, both factors are in an order in which Hopper's asynchronous products of four warps
    can't take float32, so that each number would be turned one by one: fewer warps multiply without
    them. Sums of what was pooled may need the registers of four. Half precision is multiplied as it
    lies in memory.
    """
    if _is_half(dtype):
        return Tile(32, min(power_of_two(rows), 64), warps=4, stages=3), 2 * FEWEST
    if is_pooled:
        depth = min(power_of_two(rows), 128)
        return Tile(32, depth, warps=4 if depth * size.wide >= 2048 else 2, stages=2), PROGRAMS
    depth = min(power_of_two(rows), 2 * size.wide, 64)
    return Tile(32, depth, warps=2 if depth * size.wide > 2048 else 1, stages=3), PROGRAMS


def _is_half(dtype: DTypeLike) -> bool:
    return jnp.dtype(dtype).itemsize == 2
