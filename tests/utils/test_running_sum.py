"""Sums that lose nothing to rounding, against float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maxfl.utils.running_sum import add, start_sum, value_of


def summed(values):
    return value_of(jax.lax.scan(lambda s, v: (add(s, v), None), start_sum(), values)[0])


def test_by_hand():
    """2²⁴ + 1 is no float32: a plain sum stays at 2²⁴ however many ones follow."""
    values = jnp.array([2.0**24, 1, 1, 1], jnp.float32)
    assert float(jnp.cumsum(values)[-1]) != 2**24 + 3
    assert float(summed(values)) == np.float32(2**24 + 3)


def test_many_values():
    values = np.random.default_rng(0).exponential(size=300_000).astype(np.float32)
    assert float(summed(values)) == pytest.approx(values.sum(dtype=np.float64), rel=1e-7)


@pytest.mark.parametrize("strange", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_shows(strange):
    np.testing.assert_equal(float(summed(jnp.array([1.0, strange, 2.0]))), strange)
