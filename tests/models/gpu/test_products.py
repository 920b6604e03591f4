"""Products of windows, by hand; kernels run in Pallas' interpreter where there is no GPU."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maxfl.models.gpu import patches, products, tiles
from maxfl.models.gpu.factors import Factor, exact, rounded
from maxfl.models.gpu.places import pooled_geometries, window_geometry
from maxfl.models.gpu.products import pooled_products, window_products, window_sums

PAIRS = window_geometry((1, 4), (1, 2), (1, 1), ((0, 0), (0, 0)), (1, 1))
"""Windows of two pixels in a row of four."""
ROW = jnp.asarray([1.0, 2.0, 4.0, 8.0]).reshape(1, 1, 4, 1)
WEIGHTS = jnp.asarray([[1.0, 10.0], [3.0, 0.0]]).reshape(1, 2, 1, 2)
RNG = np.random.default_rng(0)
FOUR = (
    pooled_geometries(window_geometry((2, 2), (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1))),
    jnp.asarray([[1.0, 3.0], [3.0, 0.0]]).reshape(1, 2, 2, 1),
    jnp.asarray([-1.0, -3.0]),
)
"""Four places that are pooled, their pixels, and biases of two outputs."""
SHARED = [[4 * 3 + 4 * 3, 0], [8, 0]]
"""Sums of weights, then of biases: both places with a 3 have half of a gradient of 8."""


def integers(*shape):
    """Draw small integers, whose products and sums are exact."""
    return RNG.integers(-3, 4, shape).astype(np.float32)


@pytest.fixture(params=[exact, rounded])
def factor(request):
    """Factors as they are, or in half precision."""
    return request.param


def test_products_by_hand(factor):
    found = window_products(PAIRS, factor(ROW), factor(WEIGHTS), jnp.float32)
    np.testing.assert_array_equal(found[0, 0], [[7, 10], [14, 20], [28, 40]])


def test_sums_by_hand(factor):
    g = factor(jnp.asarray([[1.0, 0.0], [1.0, 0.0], [0.0, 5.0]]).reshape(1, 1, 3, 2))
    found = window_sums((PAIRS,), factor(ROW), g)
    np.testing.assert_array_equal(found, [[1 + 2, 20], [2 + 4, 40]])


def test_pooled_products_by_hand(factor):
    """Of two rows and columns of places 1, 3 / 3, 0 the largest is 3, twice."""
    geometries, x, bias = FOUR
    value, is_largest = pooled_products(geometries, factor(x), factor(jnp.ones((1, 1, 1, 2))), bias)
    check_pooled(value, is_largest)
    g = exact(jnp.asarray([8.0, 8.0]).reshape(1, 1, 1, 2))
    sums = window_sums(geometries, exact(x), g, is_largest)
    np.testing.assert_array_equal(sums, SHARED)


def test_products_of_patches_by_hand():
    geometries, x, bias = FOUR
    value, is_largest = patches.pooled_products(geometries, x, jnp.ones((1, 1, 1, 2)), bias)
    check_pooled(value, is_largest)
    g = jnp.asarray([8.0, 8.0]).reshape(1, 1, 1, 2)
    np.testing.assert_array_equal(patches.pooled_sums(geometries, x, g, is_largest), SHARED)


def check_pooled(value, is_largest):
    """Compare 3 - 1 and 3 - 3, of which the second does not pass."""
    np.testing.assert_array_equal(value[0, 0, 0], [2, 0])
    np.testing.assert_array_equal(is_largest[0, 0, 0], [0b0110, 0])


@pytest.mark.parametrize("fewest", [1, 1000])
def test_a_product_is_the_same_in_programs_of_any_size(monkeypatch, factor, fewest):
    monkeypatch.setattr(tiles, "FEWEST", fewest)
    products._products.clear_cache()
    geometry = window_geometry((13, 12), (3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1))
    x, w = integers(3, 13, 12, 5), integers(3, 3, 5, 20)
    expected = sum(
        np.einsum("nijc,co->nijo", x[:, a : a + 11, b : b + 10], w[a, b])
        for a in range(3)
        for b in range(3)
    )
    found = window_products(geometry, factor(x), factor(w), jnp.float32)
    np.testing.assert_array_equal(found, expected)
    products._products.clear_cache()


@pytest.mark.parametrize("programs", [1, 4, 1000])
def test_a_sum_is_the_same_in_any_number_of_parts(monkeypatch, factor, programs):
    monkeypatch.setattr(tiles, "PROGRAMS", programs)
    monkeypatch.setattr(tiles, "FEWEST", programs)
    products._sums.clear_cache()
    geometry = window_geometry((13, 12), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))
    x, g = integers(2, 13, 12, 3), integers(2, 13, 12, 5)
    around = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    expected = [
        np.einsum("nijc,nijo->co", around[:, a : a + 13, b : b + 12], g)
        for a in range(3)
        for b in range(3)
    ]
    found = window_sums((geometry,), factor(x), factor(g))
    np.testing.assert_array_equal(found, np.concatenate(expected))
    products._sums.clear_cache()


def test_parts_of_a_sum_take_so_many_bytes_at_most(monkeypatch):
    """Of two numbers: with 8 bytes a client there is one part, with 24 there are three."""
    geometry = window_geometry((16, 16), (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1))
    x, g = integers(4, 16, 16, 1), integers(4, 16, 16, 2)

    def parts(most):
        monkeypatch.setattr(products, "PARTS_BYTES", most)
        products._sums.clear_cache()
        sums = jax.make_jaxpr(lambda: window_sums((geometry,), exact(x), exact(g)))
        return max(n for n in range(1, 99) if f"f32[1,{2 * n}]" in str(sums()))

    assert [parts(most) for most in (7, 8, 24)] == [1, 1, 3]
    products._sums.clear_cache()


def test_units_of_factors_may_be_far_from_one_another():
    x, w = rounded(ROW * 2.0**-110), rounded(WEIGHTS * 2.0**110)
    found = window_products(PAIRS, x, w, jnp.float32)
    np.testing.assert_array_equal(found[0, 0], [[7, 10], [14, 20], [28, 40]])
    g = rounded(jnp.full((1, 1, 3, 1), 2.0**110))
    np.testing.assert_array_equal(window_sums((PAIRS,), x, g), [[7], [14]])


def test_clients_have_units_of_their_own():
    """Under vmap; numbers of both as far apart as float16 does not reach."""
    x = jnp.stack([ROW, ROW * 2.0**40])
    found = jax.vmap(lambda x: window_products(PAIRS, rounded(x), rounded(WEIGHTS), x.dtype))(x)
    np.testing.assert_array_equal(found[1], found[0] * 2.0**40)
    np.testing.assert_array_equal(found[0, 0, 0], [[7, 10], [14, 20], [28, 40]])


def test_types_stay_where_jax_has_64_bits():
    with jax.enable_x64(True):
        x, w = (rounded(a.astype(jnp.float32)) for a in (ROW, WEIGHTS))
        found = window_products(PAIRS, x, w, jnp.float32)
        sums = window_sums((PAIRS,), x, Factor(found.astype(jnp.float16), w.unit))
    assert (found.dtype, sums.dtype) == (jnp.float32, jnp.float32)
