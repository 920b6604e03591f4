"""How products of windows are divided between programs."""

import jax.numpy as jnp
import pytest

from maxfl.models.gpu.tiles import Size, pooled_tile, product_tile, sum_tile

FLOAT, HALF = jnp.float32, jnp.float16


def test_sizes_are_counted():
    size = Size(places=500, inputs=32, taps=9, outputs=100)

    assert (size.window, size.wide, size.programs) == (288, 64, 2)


def test_forward_programs_are_large_where_there_are_enough_of_them():
    few, many = (product_tile(Size(1280, 64, 1, 64), clients, FLOAT) for clients in (26, 27))

    assert (few.places, many.places) == (128, 256)  # 5 programs a client, of 132


@pytest.mark.parametrize(("outputs", "places"), [(16, 256), (32, 128)])
def test_programs_of_image_gradients_are_large_where_outputs_are_few(outputs, places):
    size = Size(20_480, 16, 9, outputs, inputs_last=True)

    assert product_tile(size, 100, FLOAT).places == places


@pytest.mark.parametrize(("inputs", "depth"), [(32, 32), (63, 32), (64, 64), (200, 64)])
def test_in_half_precision_a_step_has_many_channels_of_one_tap(inputs, depth):
    tile = product_tile(Size(1280, inputs, 9, 64), 10, HALF)

    assert (tile.places, tile.depth) == (128, depth)


def test_sums_have_a_warp_or_two_and_four_where_much_is_pooled():
    def warps(size, rows, is_pooled=False):
        return sum_tile(size, rows, FLOAT, is_pooled)[0].warps

    assert warps(Size(20_480, 16, 9, 16), 144) == warps(Size(5120, 32, 9, 32), 288) == 1
    assert warps(Size(1280, 64, 9, 64), 576) == warps(Size(3380, 1, 9, 32), 10, True) == 2
    assert warps(Size(500, 3, 25, 64), 76, True) == 4


def test_sums_in_half_precision_are_divided_between_fewer_programs():
    size = Size(500, 32, 9, 64)
    tile, most = sum_tile(size, 289, HALF, is_pooled=False)

    assert (tile.depth, tile.warps) == (64, 4)
    assert most < sum_tile(size, 289, FLOAT, is_pooled=False)[1]


def test_a_short_window_is_one_step():
    size = Size(20_480, 3, 9, 16)

    assert size.window == 27
    assert product_tile(size, 10, FLOAT).depth == pooled_tile(size).depth == 32
    assert product_tile(size._replace(inputs=1), 10, HALF).depth == 16
