"""Factors in half precision, by hand and against TF32."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maxfl.models.gpu import factors
from maxfl.models.gpu.factors import exact, rounded

RNG = np.random.default_rng(0)


def value(factor):
    """Return the numbers for which a factor stands, in float64."""
    return np.asarray(factor.numbers, np.float64) * np.asarray(factor.unit, np.float64)


def to_tf32(x):
    """Round float32 to 10 bits after the first, ties to even."""
    bits = x.view(np.uint32).astype(np.uint64)
    bits += 0xFFF + ((bits >> 13) & 1)
    return (bits & 0xFFFFE000).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize("size", [1e-12, 1.0, 3e9])
def test_digits_are_those_of_tf32(size):
    """To 2**-28 of the largest number; there float16 begins to lose them."""
    x = (RNG.normal(size=4000) * size * 2.0 ** RNG.uniform(-22, 0, 4000)).astype(np.float32)
    x = x[np.abs(x) >= np.abs(x).max() * 2.0**-28]
    np.testing.assert_array_equal(value(rounded(x)), to_tf32(x))


def test_the_largest_is_near_the_end_of_the_range():
    factor = rounded(jnp.asarray([3.0, -5.0, 0.0]))
    assert factor.unit == 2.0**-12  # 5 is below 2**3, and 2**15 * 2**-12 is that
    np.testing.assert_array_equal(factor.numbers, [3 * 4096, -5 * 4096, 0])


def test_what_is_far_below_the_largest_is_rounded_to_steps_of_the_same_size():
    step = 2.0**-24 * 2.0**-14  # float16's smallest number, and the unit of numbers below 2
    found = value(rounded(jnp.asarray([1.0, 1.4 * step, 0.4 * step])))
    np.testing.assert_array_equal(found, [1, step, 0])


@pytest.mark.parametrize("spoilt", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_stays_so_and_does_not_change_others(spoilt):
    found = value(rounded(jnp.asarray([spoilt, 1e-9, 7e-9])))
    np.testing.assert_array_equal(found[0], spoilt)
    np.testing.assert_array_equal(found[1:], to_tf32(np.asarray([1e-9, 7e-9], np.float32)))


def test_zeros_have_a_unit():
    factor = rounded(jnp.zeros(3))
    np.testing.assert_array_equal(value(factor), [0, 0, 0])
    assert factor.unit > 0


@pytest.mark.parametrize("power", [-116, -100, 100, 127])
def test_all_of_float32_can_be_scaled(power):
    x = np.asarray([1.5, -1.0, 2.0**-10], np.float32) * np.float32(2.0**power)
    np.testing.assert_array_equal(value(rounded(x)), x)


def test_the_largest_of_several_parts_counts(monkeypatch):
    """Of programs, and of the steps that one takes; the last are not whole."""
    monkeypatch.setattr(factors, "BLOCK", 16)
    monkeypatch.setattr(factors, "PARTS", 2)
    factors._rounded.clear_cache()
    x = np.ones((5, 7), np.float32)
    for place in range(x.size):
        x.flat[place] = 8
        factor = rounded(x)
        assert factor.unit == 2.0**-11
        np.testing.assert_array_equal(value(factor), x)
        x.flat[place] = 1
    factors._rounded.clear_cache()


def test_each_client_has_its_unit():
    units = jax.vmap(rounded)(jnp.asarray([[1.0, 0.5], [64.0, 0.0]])).unit
    np.testing.assert_array_equal(units, [2.0**-14, 2.0**-8])


def test_other_types_are_left_as_they_are():
    x = jnp.asarray([1e5], jnp.bfloat16)
    for factor in (rounded(x), exact(x)):
        assert factor.numbers is x
        assert factor.unit == 1
    assert exact(jnp.ones(1)).numbers.dtype == jnp.float32
