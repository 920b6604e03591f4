"""State in the types that the engine carries and libraries want."""

import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from maxfl.models.libraries import carried_state
from maxfl.models.libraries.carried_state import carry, restore


def test_flags_and_counters_come_back_in_their_types():
    state = {"flag": jnp.array([True, False]), "count": jnp.array(7), "mean": jnp.array(0.5)}
    carried = carry(state)
    assert {leaf.dtype for leaf in carried.values()} == {jnp.dtype("float32")}
    back = restore(carried, state)
    for name, leaf in state.items():
        np.testing.assert_array_equal(back[name], leaf)
        assert back[name].dtype == leaf.dtype


def test_an_average_of_counters_becomes_the_nearest():
    assert restore(jnp.array([6.4, 6.6]), jnp.array([0, 0])).tolist() == [6, 7]
    assert restore(jnp.array([0.4, 0.6]), jnp.array([True, True])).tolist() == [False, True]


@pytest.mark.parametrize(
    ("adapter", "package"), [(maxfl.from_nnx, "flax"), (maxfl.from_equinox, "equinox")]
)
def test_a_package_that_is_not_there_is_named(adapter, package, monkeypatch):
    monkeypatch.setattr(carried_state, "find_spec", lambda _: None)
    with pytest.raises(maxfl.InputError, match=f"needs {package}: pip install {package}"):
        adapter(lambda key: key)
