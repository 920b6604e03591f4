"""What devices exchange: packed, as between processes, or leaf by leaf, it is the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

from maxfl.engine import collectives
from maxfl.engine.layout import CLIENT


def on_two_devices(function):
    """Return what both devices have after a function of their number, 0 or 1; it must agree."""

    def on_one(number):
        return jax.tree.map(lambda a: a[None], function(number[0]))

    mesh, each = Mesh(np.array(jax.devices()[:2]), (CLIENT,)), PartitionSpec(CLIENT)
    spread = jax.shard_map(on_one, mesh=mesh, in_specs=each, out_specs=each, check_vma=False)
    found = jax.tree.map(np.asarray, jax.jit(spread)(jnp.arange(2)))
    for leaf in jax.tree.leaves(found):
        np.testing.assert_array_equal(*leaf)
    return jax.tree.map(lambda leaf: leaf[0], found)


@pytest.fixture(params=[False, True], ids=["leaf by leaf", "packed"])
def exchange(request, monkeypatch):
    monkeypatch.setattr(collectives, "is_distributed", lambda: request.param)


@pytest.mark.usefixtures("exchange")
def test_sums_by_hand():
    def of_device(number):
        first = jnp.float32(number)
        return collectives.all_sum((first, jnp.array([[1.5, 2.0]]) * first, number + 2**30, ()))

    one, two, large, nothing = on_two_devices(of_device)
    assert one == 1
    np.testing.assert_array_equal(two, [[1.5, 2.0]])
    assert large == 2**31 - 2**32 + 1, "integers stay integers, to the last bit"
    assert nothing == ()


@pytest.mark.usefixtures("exchange")
def test_gathered_by_hand():
    def of_device(number):
        turns = jnp.arange(6).reshape(3, 2) + 6 * number  # three turns of two clients
        return collectives.all_gather(
            {"client": turns, "odd": turns % 2 == 1, "row": turns[..., None] + jnp.zeros(4),
             "none": jnp.zeros((3, 2, 0))}
        )  # fmt: skip

    found = on_two_devices(of_device)
    np.testing.assert_array_equal(found["client"], np.arange(12))
    np.testing.assert_array_equal(found["odd"], np.arange(12) % 2 == 1)
    np.testing.assert_array_equal(found["row"], np.repeat(np.arange(12.0), 4).reshape(12, 4))
    assert found["odd"].dtype == bool
    assert found["none"].shape == (12, 0)
