"""Gradients before pooling, by hand and against plain loops."""

from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maxfl.models.gpu import factors, spreading
from maxfl.models.gpu.spreading import spread

RNG = np.random.default_rng(0)


def test_by_hand():
    """Of four places the second and the third were the largest; of the other output, none."""
    g, bits = jnp.asarray([6.0, 7.0]), jnp.asarray([0b0110, 0], jnp.uint8)
    factor, of_bias = spread(g.reshape(1, 1, 1, 2), bits.reshape(1, 1, 1, 2))
    found = factor.numbers.astype(jnp.float32) * factor.unit
    np.testing.assert_array_equal(found[0, ..., 0], [[0, 3], [3, 0]])
    np.testing.assert_array_equal(found[0, ..., 1], np.zeros((2, 2)))
    np.testing.assert_array_equal(of_bias, [6, 0])
    assert factor.unit == 2.0**-12  # 6 is below 2**3


@pytest.mark.parametrize("most", [1, 2, 99])
def test_by_plain_loops(monkeypatch, most):
    """Of two clients, in several programs and steps; outputs are no power of two."""
    monkeypatch.setattr(factors, "PARTS", most)
    spreading._spread.clear_cache()
    shape = 2, 5, 4, 6, 17
    g = 12 * RNG.integers(-3, 4, shape).astype(np.float32)
    bits = RNG.integers(0, 16, shape).astype(np.uint8)
    factor, of_bias = jax.vmap(spread)(g, bits)

    expected = np.zeros((2, 5, 8, 12, 17))
    for place in product(*map(range, shape)):
        client, image, i, j, output = place
        for which in range(4):
            if bits[place] >> which & 1:
                at = client, image, 2 * i + which // 2, 2 * j + which % 2, output
                expected[at] = g[place] / bits[place].bit_count()
    found = np.asarray(factor.numbers, np.float32) * factor.unit[:, None, None, None, None]
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(of_bias, expected.sum((1, 2, 3)))
    assert factor.numbers.dtype == jnp.float16
    spreading._spread.clear_cache()


def test_where_nothing_passes_what_is_no_number_is_lost():
    g, bits = jnp.asarray([jnp.nan, jnp.inf, 4.0]), jnp.asarray([0, 0, 1], jnp.uint8)
    factor, of_bias = spread(g.reshape(1, 1, 1, 3), bits.reshape(1, 1, 1, 3))
    np.testing.assert_array_equal(factor.numbers[0, 0, 0] * factor.unit, [0, 0, 4])
    np.testing.assert_array_equal(of_bias, [0, 0, 4])


def test_bfloat16_is_shared_as_it_is():
    g, bits = jnp.full((3, 1, 1, 1), 1e6, jnp.bfloat16), jnp.full((3, 1, 1, 1), 0b1111, jnp.uint8)
    factor, of_bias = spread(g, bits)
    assert (factor.numbers.dtype, factor.unit) == (jnp.bfloat16, 1)
    np.testing.assert_array_equal(factor.numbers, np.broadcast_to(g / 4, (3, 2, 2, 1)))
    assert of_bias.dtype == jnp.float32
