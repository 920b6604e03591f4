"""What all kernels share."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maxfl.models.gpu import fused
from maxfl.models.gpu.fused import divide, larger, over_clients


@pytest.mark.parametrize("addresses", [7, 13, 1000])
def test_clients_beyond_what_addresses_reach_have_further_launches(monkeypatch, addresses):
    """Six numbers of each of five clients: one, two or all of them at once."""
    monkeypatch.setattr(fused, "ADDRESSES", addresses)
    launches = []

    def twice(x):
        launches.append(len(x))
        return (2 * x,)

    x = jnp.arange(30.0).reshape(5, 6)
    (found,) = jax.vmap(lambda row: over_clients(twice, row))(x)
    np.testing.assert_array_equal(found, 2 * x)
    assert set(launches) >= {7: {1}, 13: {2, 1}, 1000: {5}}[addresses]


def test_clients_of_configurations_are_one_launch():
    seen = []

    def add(x, y):
        seen.append(x.shape)
        return (x + y,)

    x, y = jnp.ones((2, 3, 4)), jnp.arange(4.0)
    both = jax.vmap(jax.vmap(lambda x: over_clients(add, x, y)))
    np.testing.assert_array_equal(both(x)[0], x + y)
    assert seen[-1] == (6, 4)


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
