"""Gradients of pooled convolutions of many channels, by hand and against plain loops."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maxfl.models.gpu import pooled_gradients
from maxfl.models.gpu.places import window_geometry

RNG = np.random.default_rng(0)


def geometry_of(image, kernel, before=0, after=None):
    """Place windows side by side, with zeros before and after images, as many unless said."""
    margin = before, before if after is None else after
    return window_geometry(image, kernel, (1, 1), (margin, margin), (1, 1))


def integers(*shape):
    """Draw small integers, whose products and sums are exact in float32 and in TF32."""
    return RNG.integers(-3, 4, shape).astype(np.float32)


def by_loops(geometry, x, g, is_largest, w):
    """Return the gradients of one client's images, weights and bias, pixel by pixel."""
    of_images, of_weights, of_bias = np.zeros_like(x), np.zeros_like(w), np.zeros(w.shape[3])
    n, rows, columns, _ = g.shape
    for image, i, j, a, b in product(range(n), range(rows), range(columns), (0, 1), (0, 1)):
        bits = is_largest[image, i, j]
        passes = bits >> (2 * a + b) & 1
        each = np.where(passes, g[image, i, j] / np.maximum(np.bitwise_count(bits), 1), 0)
        of_bias += each
        for tap in product(*map(range, w.shape[:2])):
            y, z = 2 * i + a + tap[0], 2 * j + b + tap[1]
            y, z = y + geometry.rows.offset, z + geometry.columns.offset
            if 0 <= y < x.shape[1] and 0 <= z < x.shape[2]:
                of_images[image, y, z] += w[tap] @ each
                of_weights[tap] += np.outer(x[image, y, z], each)
    return of_images, of_weights, of_bias


def test_gradients_by_hand():
    """Places 1 0 / 1 0 of windows of 2 × 2 are the largest of their four, and share 6."""
    geometry = geometry_of((3, 3), (2, 2))
    x = jnp.arange(9.0).reshape(1, 3, 3, 1)
    w = jnp.asarray([[1.0, 2.0], [3.0, 4.0]]).reshape(2, 2, 1, 1)
    g, bits = jnp.full((1, 1, 1, 1), 6.0), jnp.full((1, 1, 1, 1), 0b0101, jnp.uint8)

    of_images = pooled_gradients.image_gradient(geometry, g, bits, w)
    sums = pooled_gradients.pooled_sums(geometry, x, g, bits)

    np.testing.assert_array_equal(of_images[0, ..., 0], [[3, 6, 0], [9 + 3, 12 + 6, 0], [9, 12, 0]])
    by_tap = [0 + 3, 1 + 4, 3 + 6, 4 + 7]
    np.testing.assert_array_equal(sums[:, 0], [3 * pixels for pixels in by_tap] + [6])


CASES = {
    "inside, a row left over": ((7, 6), (3, 3), (0, 0), 20, 24),
    "zeros around, several parts": ((9, 8), (3, 3), (1, 1), 16, 16),
    "two by three": ((6, 7), (2, 3), (1, 1), 5, 7),
    "zeros after alone": ((6, 5), (2, 2), (0, 1), 4, 3),
    "wider than a program": ((5, 5), (1, 2), (0, 0), 20, 70),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_gradients_by_plain_loops(monkeypatch, case):
    """Of two clients at once, with equals and places where nothing passes."""
    image, kernel, margins, inputs, outputs = case
    monkeypatch.setattr(pooled_gradients, "STEPS", 2)
    geometry = geometry_of(image, kernel, *margins)
    shape = 2, 3, *(axis.places // 2 for axis in geometry), outputs
    x, w = integers(2, 3, *image, inputs), integers(2, *kernel, inputs, outputs)
    g, bits = 12 * integers(*shape), RNG.integers(0, 16, shape).astype(np.uint8)

    of_images = jax.vmap(lambda *a: pooled_gradients.image_gradient(geometry, *a))(g, bits, w)
    sums = jax.vmap(lambda *a: pooled_gradients.pooled_sums(geometry, *a))(x, g, bits)

    for client in range(2):
        arrays = x[client], g[client], bits[client], w[client]
        image_gradient, weights, bias = by_loops(geometry, *arrays)
        assert len(np.unique(image_gradient)) > 5
        np.testing.assert_array_equal(of_images[client], image_gradient)
        np.testing.assert_array_equal(sums[client, :-1].reshape(w.shape[1:]), weights)
        np.testing.assert_array_equal(sums[client, -1], bias)


def test_where_nothing_passes_a_gradient_is_lost_even_if_it_is_no_number():
    geometry = geometry_of((4, 4), (3, 3))
    g = jnp.asarray([jnp.nan, 4.0]).reshape(1, 1, 1, 2)
    bits = jnp.asarray([0, 1], jnp.uint8).reshape(1, 1, 1, 2)
    sums = pooled_gradients.pooled_sums(geometry, jnp.ones((1, 4, 4, 1)), g, bits)
    np.testing.assert_array_equal(sums, [[0, 4]] * 10)
    of_images = pooled_gradients.image_gradient(geometry, g, bits, jnp.ones((3, 3, 1, 2)))
    np.testing.assert_array_equal(of_images[0, :3, :3, 0], np.full((3, 3), 4))


def test_types_stay_where_jax_has_64_bits():
    geometry = geometry_of((4, 4), (3, 3))
    with jax.enable_x64(True):
        x, g = jnp.ones((1, 4, 4, 1), jnp.float32), jnp.ones((1, 1, 1, 2), jnp.float32)
        sums = pooled_gradients.pooled_sums(geometry, x, g, jnp.ones(g.shape, jnp.uint8))
        w = jnp.ones((3, 3, 1, 2), jnp.float32)
        of_images = pooled_gradients.image_gradient(geometry, g, jnp.ones(g.shape, jnp.uint8), w)
    assert (sums.dtype, of_images.dtype) == (jnp.float32, jnp.float32)
    np.testing.assert_array_equal(sums, np.ones((10, 2)))


def test_half_precision_rounds_what_is_stored_and_sums_in_float32():
    geometry = geometry_of((4, 4), (3, 3))
    half = jnp.bfloat16
    x, w = jnp.full((20, 4, 4, 1), 3, half), jnp.full((3, 3, 1, 1), 3, half)
    g, bits = jnp.ones((20, 1, 1, 1), half), jnp.full((20, 1, 1, 1), 0b1111, jnp.uint8)
    of_images = pooled_gradients.image_gradient(geometry, g, bits, w)
    sums = pooled_gradients.pooled_sums(geometry, x, g, bits)
    assert (of_images.dtype, sums.dtype) == (half, jnp.float32)
    by_pixel = np.outer([1, 2, 2, 1], [1, 2, 2, 1]) * 3 / 4  # windows that a pixel is in
    np.testing.assert_array_equal(of_images[0, ..., 0], by_pixel)
    np.testing.assert_array_equal(sums[:, 0], [3 * 20] * 9 + [20])


@pytest.mark.parametrize(
    ("kernel", "strides", "inputs", "found"),
    [
        ((3, 3), (1, 1), 15, (False, False)),
        ((3, 3), (1, 1), 16, (True, True)),
        ((3, 3), (1, 1), 32, (True, True)),
        ((3, 3), (1, 1), 33, (False, True)),
        ((2, 4), (1, 1), 32, (False, False)),
        ((3, 3), (2, 1), 32, (False, False)),
    ],
)
def test_where_they_are_used(kernel, strides, inputs, found):
    """From 16 channels and up to 3 × 3 taps, side by side; of images up to 32 channels."""
    geometry = window_geometry((28, 28), kernel, strides, ((0, 0), (0, 0)), (1, 1))
    of_images = pooled_gradients.suits_images(geometry, inputs)
    assert (of_images, pooled_gradients.suits_sums(geometry, inputs)) == found
