"""How products of windows are divided between programs."""

import pytest

from maxfl.models.gpu.sizes import MOST_CHANNELS
from maxfl.models.gpu.tiles import Size, Tile, pooled_tile, product_tile, sum_tile

SMALLEST_CHIP = 99 * 1024
"""Bytes on the chip for a program, on GPUs with the least that have TF32."""


def test_sizes_are_counted():
    size = Size(places=500, inputs=32, taps=9, outputs=100)

    assert (size.window, size.wide, size.tiles) == (288, 64, 2)


def test_forward_programs_are_large_where_there_are_enough_of_them():
    few, many = (product_tile(Size(1280, 64, 9, 64), clients) for clients in (26, 27))

    assert (few.places, many.places) == (128, 256)  # 5 programs a client, of 132


@pytest.mark.parametrize(("outputs", "places"), [(16, 256), (32, 128)])
def test_programs_of_image_gradients_are_large_where_outputs_are_few(outputs, places):
    assert product_tile(Size(20_480, 16, 9, outputs, inputs_last=True), 100).places == places


def test_sums_have_a_warp_or_two_and_four_where_pooled():
    def warps(size, rows, is_pooled=False):
        return sum_tile(size, rows, is_pooled).warps

    assert warps(Size(20_480, 16, 9, 16), 144) == warps(Size(5120, 32, 9, 32), 288) == 1
    assert warps(Size(1280, 64, 9, 64), 576) == warps(Size(3380, 1, 9, 32), 10, True) == 2
    assert warps(Size(500, 32, 9, 64), 289, True) == 4


@pytest.mark.parametrize("clients", [1, 1000])
def test_tiles_fit_on_small_chips(clients):
    size = Size(10_000, MOST_CHANNELS, 25, MOST_CHANNELS)
    products = [product_tile(size._replace(inputs_last=last), clients) for last in (False, True)]
    sums = sum_tile(size, size.window, is_pooled=False)

    for tile in (*products, pooled_tile(size)):
        assert bytes_of(tile, tile.depth * size.wide) <= SMALLEST_CHIP
    assert bytes_of(sums, sums.places * size.wide) <= SMALLEST_CHIP


def bytes_of(tile: Tile, other: int) -> int:
    """Return what windows and the other factor, of so many numbers, take in float32."""
    return 4 * tile.stages * (tile.places * tile.depth + other)
