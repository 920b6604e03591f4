"""What a program of a kernel does."""

import jax.numpy as jnp
import numpy as np
import pytest

from maxfl.models.gpu.program import divide, larger


@pytest.mark.parametrize("size", [1, 3])
def test_quotient_and_remainder(size):
    number = jnp.arange(7)
    quotient, rest = divide(number, size)
    np.testing.assert_array_equal(quotient, np.arange(7) // size)
    np.testing.assert_array_equal(rest, np.arange(7) % size)


def test_the_larger_of_two_keeps_nan():
    nan = jnp.nan
    a, b = jnp.asarray([1.0, 2.0, nan, 1.0, nan]), jnp.asarray([2.0, 1.0, 1.0, nan, nan])
    np.testing.assert_array_equal(larger(a, b), [2, 2, nan, nan, nan])
