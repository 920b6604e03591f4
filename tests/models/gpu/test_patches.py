"""Pooled convolutions by patches, by hand and against products of windows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maxfl.models.gpu import patches, products
from maxfl.models.gpu.factors import exact
from maxfl.models.gpu.places import pooled_geometries, window_geometry
from maxfl.models.gpu.tiles import Size

RNG = np.random.default_rng(0)
INSIDE = (9, 8), (3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1)
CASES = {
    "inside": (*INSIDE, 1),
    "beyond edges": ((8, 11), (3, 2), (1, 2), ((1, 1), (0, 1)), (2, 1), 1),
    "three channels": ((9, 8), (2, 3), (2, 1), ((1, 1), (1, 1)), (1, 1), 3),
}


def integers(*shape):
    """Draw small integers, whose products and sums are exact."""
    return RNG.integers(-3, 4, shape).astype(np.float32)


def test_the_patch_of_four_windows():
    """Windows of 3 × 3 from place to place: 4 × 4 pixels, from the margin on."""
    geometry = window_geometry((8, 8), (3, 3), (1, 1), ((1, 1), (0, 0)), (1, 1))

    assert patches.patch_of(pooled_geometries(geometry), 2) == (-1, 0, 4, 4, 2)


@pytest.mark.parametrize(
    ("kernel", "inputs", "found"),
    [((3, 3), 1, (True, False)), ((5, 5), 1, (True, True)), ((3, 3), 8, (False, False))],
)
def test_where_patches_are_used(kernel, inputs, found):
    """Products up to 64 numbers, 4 × 4 × 4; sums from windows of more than 16 on."""
    geometry = window_geometry((28, 28), kernel, (1, 1), ((0, 0), (0, 0)), (1, 1))
    geometries = pooled_geometries(geometry)

    assert (
        patches.suits_products(geometries, inputs),
        patches.suits_sums(geometries, inputs),
    ) == found


@pytest.fixture
def no_other_programs():
    """Compile what is patched, and leave none of it to other tests."""
    clear_programs()
    yield
    clear_programs()


def clear_programs():
    patches._products.clear_cache()
    patches._sums.clear_cache()


@pytest.mark.parametrize(("programs", "divided"), [(1, (4, 1)), (12, (2, 2)), (1200, (1, 4))])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.usefixtures("no_other_programs")
def test_as_products_of_windows(monkeypatch, programs, divided, case):
    """Of three clients, whose places are four times those at once, and more outputs than that."""
    for name, number in (("PROGRAMS", programs), ("PLACES", 16), ("SUMMED", 16)):
        monkeypatch.setattr(patches, name, number)
    *where, inputs = case
    geometries = pooled_geometries(window_geometry(*where))
    assert patches.suits_products(geometries, inputs)
    (image, kernel, *_), outputs = where, 70
    size = Size(7 * geometries[0].places, inputs, geometries[0].taps, outputs)
    assert patches._divided(size, 3, 16) == divided
    x, w = integers(3, 7, *image, inputs), integers(3, *kernel, inputs, outputs)

    def computed(pooled_products, pooled_sums):
        bias = jnp.arange(-3.0, 3 * outputs - 3).reshape(3, outputs) % 5 - 2
        value, bits = jax.vmap(lambda *a: pooled_products(geometries, *a))(x, w, bias)
        g = 12 * jnp.round(3 * jnp.cos(jnp.arange(value.size))).reshape(value.shape)
        return value, bits, jax.vmap(lambda *a: pooled_sums(geometries, *a))(x, g, bits)

    found = computed(patches.pooled_products, patches.pooled_sums)
    expected = computed(by_windows, sums_by_windows)
    for a, b in zip(found, expected, strict=True):
        assert len(np.unique(b)) > 5
        np.testing.assert_array_equal(a, b)


def by_windows(geometries, x, w, bias):
    """Return products of windows, pooled."""
    return products.pooled_products(geometries, exact(x), exact(w), bias)


def sums_by_windows(geometries, x, g, is_largest):
    """Return sums of their gradients, with that of the bias."""
    return products.window_sums(geometries, exact(x), exact(g), is_largest)


def test_a_nan_stays_where_it_is():
    geometries = pooled_geometries(window_geometry(*INSIDE))
    x = integers(2, 9, 8, 1)
    x[1, 0, 0] = np.nan
    arguments = geometries, x, integers(3, 3, 1, 5), integers(5)
    found = patches.pooled_products(*arguments)
    expected = by_windows(*arguments)
    assert np.isnan(expected[0]).sum() == 5
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
