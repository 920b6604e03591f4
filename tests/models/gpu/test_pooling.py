"""Max-pooling of four products, by hand."""

import jax.numpy as jnp
import numpy as np

from maxfl.models.gpu.pooling import pool, share


def test_the_largest_passes_with_its_bias():
    """Of 1, 3, 3, 0 the second and the third; with a bias of −3 nothing passes."""
    totals = [jnp.full((1, 2), total) for total in (1.0, 3.0, 3.0, 0.0)]
    value, is_largest = pool(totals, jnp.asarray([-1.0, -3.0]))
    np.testing.assert_array_equal(value, [[2, 0]])
    np.testing.assert_array_equal(is_largest, [[0b0110, 0]])


def test_products_are_in_units_before_the_bias_is_added():
    totals = [jnp.full((1, 1), total) for total in (1.0, 3.0, 3.0, 0.0)]
    value, is_largest = pool(totals, jnp.asarray([-5.0]), jnp.asarray([0.5]), jnp.asarray([4.0]))
    np.testing.assert_array_equal(value, [[1]])
    np.testing.assert_array_equal(is_largest, [[0b0110]])


def test_a_nan_passes_and_is_no_largest():
    totals = [jnp.asarray([[total]]) for total in (1.0, jnp.nan, 3.0, 0.0)]
    value, is_largest = pool(totals, jnp.zeros(1))
    assert np.isnan(value).all()
    np.testing.assert_array_equal(is_largest, [[0]])


def test_equals_share():
    parts = share(jnp.asarray([6.0, 6.0, 6.0]), jnp.asarray([0b0111, 0b1000, 0]))
    np.testing.assert_array_equal(parts, [[2, 0, 0], [2, 0, 0], [2, 0, 0], [0, 6, 0]])
