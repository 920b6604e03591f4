"""Dropout, and samples in chunks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maxfl.models.layers import (
    CHUNK,
    drop,
    drop_by,
    dropout_decisions,
    in_chunks,
    survivors,
)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("shape", [(64,), (6,), (1,), (3, 7)])
def test_dropout_drops_its_share_and_keeps_the_mean(rate, shape):
    h = drop(jax.random.key(1), jnp.ones((40_000 // np.prod(shape), *shape)), rate)
    assert (h == 0).mean() == pytest.approx(rate, abs=0.012)
    assert h.mean() == pytest.approx(1, abs=0.06)
    assert len(np.unique(h)) == 2


def test_nothing_is_dropped_without_a_key():
    assert drop(None, jnp.ones((2, 3)), 0.5).all()


def test_a_rate_below_half_a_step_drops_nothing():
    h = jnp.ones((4000, 3))
    assert drop(jax.random.key(1), h, 0.0019).all()
    assert (drop(jax.random.key(1), h, 0.00196) == 0).mean() == pytest.approx(1 / 256, rel=0.3)


def test_a_byte_decides_over_a_unit():
    """Of 256 units 64 survive: those with a byte below 64, four times as large."""
    assert [survivors(rate) for rate in (0.0, 0.75, 0.999)] == [256, 64, 1]
    decisions = jnp.asarray([[0, 63, 64], [255, 100, 1]], jnp.uint8)
    dropped = drop_by(decisions, jnp.asarray([[1.0, 2, 3], [jnp.nan, 5, 6]]), 0.75)
    np.testing.assert_array_equal(dropped, [[4, 8, 0], [0, 0, 24]])


@pytest.mark.parametrize("shape", [(5, 8), (3, 7), (2, 3, 5)])
def test_decisions_may_be_drawn_before(shape):
    key, h = jax.random.key(2), jnp.arange(1.0, 1 + np.prod(shape)).reshape(shape)
    decisions = dropout_decisions(key, shape)
    assert (decisions.shape, decisions.dtype) == (shape, jnp.uint8)
    np.testing.assert_array_equal(drop_by(decisions, h, 0.3), drop(key, h, 0.3))


@pytest.mark.parametrize("samples", [3, CHUNK, 2 * CHUNK, 2 * CHUNK + 5])
def test_chunks_give_what_all_samples_at_once_give(samples):
    x = jnp.arange(2.0 * samples).reshape(samples, 2)
    np.testing.assert_array_equal(in_chunks(lambda part: part**2, x), x**2)
