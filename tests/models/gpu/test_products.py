"""Products of windows, by hand; kernels run in Pallas' interpreter where there is no GPU."""

import jax.numpy as jnp
import numpy as np
import pytest

from maxfl.models.gpu import patches, products, tiles
from maxfl.models.gpu.places import pooled_geometries, window_geometry
from maxfl.models.gpu.products import pooled_products, window_products, window_sums

PAIRS = window_geometry((1, 4), (1, 2), (1, 1), ((0, 0), (0, 0)), (1, 1))
"""Windows of two pixels in a row of four."""
ROW = jnp.asarray([1.0, 2.0, 4.0, 8.0]).reshape(1, 1, 4, 1)
WEIGHTS = jnp.asarray([[1.0, 10.0], [3.0, 0.0]]).reshape(1, 2, 1, 2)
RNG = np.random.default_rng(0)


def integers(*shape):
    """Draw small integers, whose products and sums are exact."""
    return RNG.integers(-3, 4, shape).astype(np.float32)


def test_products_by_hand():
    found = window_products(PAIRS, ROW, WEIGHTS)
    np.testing.assert_array_equal(found[0, 0], [[7, 10], [14, 20], [28, 40]])


def test_sums_by_hand():
    g = jnp.asarray([[1.0, 0.0], [1.0, 0.0], [0.0, 5.0]]).reshape(1, 1, 3, 2)
    np.testing.assert_array_equal(window_sums((PAIRS,), ROW, g), [[1 + 2, 20], [2 + 4, 40]])


@pytest.mark.parametrize(
    ("products_of", "sums_of"),
    [(pooled_products, window_sums), (patches.pooled_products, patches.pooled_sums)],
    ids=["windows", "patches"],
)
def test_pooled_products_by_hand(products_of, sums_of):
    """Of two rows and columns of places 1, 3 / 3, 0 the largest is 3, twice."""
    geometry = window_geometry((2, 2), (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1))
    geometries, x = pooled_geometries(geometry), jnp.asarray([[1.0, 3.0], [3.0, 0.0]])
    x, bias = x.reshape(1, 2, 2, 1), jnp.asarray([-1.0, -3.0])
    value, is_largest = products_of(geometries, x, jnp.ones((1, 1, 1, 2)), bias)
    np.testing.assert_array_equal(value[0, 0, 0], [2, 0])
    np.testing.assert_array_equal(is_largest[0, 0, 0], [0b0110, 0])  # 3 - 3 does not pass
    sums = sums_of(geometries, x, jnp.asarray([8.0, 8.0]).reshape(1, 1, 1, 2), is_largest)
    np.testing.assert_array_equal(sums, [[4 * 3 + 4 * 3, 0], [8, 0]])  # weight, then bias


@pytest.mark.parametrize("fewest", [1, 1000])
def test_a_product_is_the_same_in_programs_of_any_size(monkeypatch, fewest):
    monkeypatch.setattr(tiles, "FEWEST", fewest)
    products._products.clear_cache()
    geometry = window_geometry((13, 12), (3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1))
    x, w = integers(3, 13, 12, 5), integers(3, 3, 5, 20)
    expected = sum(
        np.einsum("nijc,co->nijo", x[:, a : a + 11, b : b + 10], w[a, b])
        for a in range(3)
        for b in range(3)
    )
    np.testing.assert_array_equal(window_products(geometry, x, w), expected)
    products._products.clear_cache()


@pytest.mark.parametrize("programs", [1, 4, 1000])
def test_a_sum_is_the_same_in_any_number_of_parts(monkeypatch, programs):
    monkeypatch.setattr(products, "PROGRAMS", programs)
    products._sums.clear_cache()
    geometry = window_geometry((13, 12), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))
    x, g = integers(2, 13, 12, 3), integers(2, 13, 12, 5)
    around = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    expected = [
        np.einsum("nijc,nijo->co", around[:, a : a + 13, b : b + 12], g)
        for a in range(3)
        for b in range(3)
    ]
    np.testing.assert_array_equal(window_sums((geometry,), x, g), np.concatenate(expected))
