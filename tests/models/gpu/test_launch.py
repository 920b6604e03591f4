"""Kernels for all clients in one launch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maxfl.models.gpu import launch
from maxfl.models.gpu.launch import over_clients


@pytest.mark.parametrize("addresses", [7, 13, 1000])
def test_clients_beyond_what_addresses_reach_have_further_launches(monkeypatch, addresses):
    """Six numbers of each of five clients: one, two or all of them at once."""
    monkeypatch.setattr(launch, "ADDRESSES", addresses)
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


def test_results_in_the_place_of_arrays_keep_what_no_program_stores():
    """Of three clients; the last of two results is the last of two arrays, but for a number."""

    def kernel(x, y, total, after):
        total[...] = x[...] + y[...]
        after[1] = x[0]

    x, y = jnp.arange(12.0).reshape(3, 2, 2), 10 * jnp.arange(1.0, 13).reshape(3, 4)
    shape = jax.ShapeDtypeStruct((3, 4), jnp.float32)
    total, after = launch.launch(kernel, (x, y), (shape, shape), (3,), in_place=1)
    np.testing.assert_array_equal(total, x.reshape(3, 4) + y)
    np.testing.assert_array_equal(after, y.at[:, 1].set(x[:, 0, 0]))
    assert y[0, 1] == 20
