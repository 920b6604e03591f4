"""How products of windows are divided between programs.

Of the divisions that were timed on an H200, with layers of the CNN and the ResNet of 10 and of 100
clients, these were the fastest, or nearly so, for all.
"""

from typing import NamedTuple

from jax.experimental import pallas as pl

from maxfl.models.gpu.sizes import power_of_two

WIDEST = 64
"""Outputs that a program computes, at most."""
PROGRAMS = 600
"""Programs that keep a large GPU busy: a sum of few clients is divided into this many."""
FEWEST = 132
"""Programs below which smaller ones are faster: one for each of the GPU's processors."""


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
    def tiles(self) -> int:
        """Number of programs that compute all outputs."""
        return pl.cdiv(self.outputs, self.wide)


class Tile(NamedTuple):
    """What a program multiplies at once.

    Attributes:
        places: Number of places.
        depth: Numbers of their windows.
        warps: Warps that do it.
        stages: Tiles that are in the chip's memory, being loaded or multiplied.
    """

    places: int
    depth: int
    warps: int
    stages: int


def product_tile(size: Size, clients: int) -> Tile:
    """Return the tile of windows times weights.

    Weights whose inputs are last are loaded four numbers at a time, others one by one. Programs of
    more places load them less often, and few outputs need few of them.
    """
    programs = clients * pl.cdiv(size.places, 256) * size.tiles
    if size.wide == 16 or (not size.inputs_last and programs >= FEWEST):
        return Tile(256, 16, warps=4, stages=3)
    return Tile(128, min(power_of_two(size.window), 32), warps=4, stages=3)


def pooled_tile(size: Size) -> Tile:
    """Return that of four products, of which the largest is taken.

    64 places of each are the fewest that Hopper's asynchronous products take. With three stages it
    would be faster on an H200, and too large for GPUs with 100 kB for a program.
    """
    return Tile(256, min(power_of_two(size.window), 32), warps=4, stages=2)


def sum_tile(size: Size, rows: int, is_pooled: bool) -> Tile:
    """Return the tile of a sum over places: some of its rows, at some places.

    Both factors are in memory in the order that Hopper's asynchronous products of four warps can't
    take, so that each number would be turned one by one: fewer warps multiply without them. Sums of
    what was pooled need the registers of four.
    """
    if is_pooled:
        depth = min(power_of_two(rows), 128)
        return Tile(32, depth, warps=4 if depth * size.wide >= 2048 else 2, stages=2)
    depth = min(power_of_two(rows), 2 * size.wide, 64)
    return Tile(32, depth, warps=2 if depth * size.wide > 2048 else 1, stages=3)
