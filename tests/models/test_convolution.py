"""Convolutions by one product: against plain loops, and their gradients against XLA's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maxfl.models.convolution import convolve, convolved_side, init_convolution, max_pool
from support.plain_convolution import convolved

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "padding"),
    [
        ((7, 6, 2), (3, 2), 1, "same"),
        ((7, 6, 1), (2, 3), 2, "same"),
        ((8, 5, 3), (3, 2), 2, "valid"),
    ],
)
def test_values_and_gradients(shape, kernel, stride, padding):
    x = RNG.normal(size=(2, *shape)).astype(np.float32)
    weight = RNG.normal(size=(*kernel, shape[2], 4)).astype(np.float32)
    expected = convolved(x, weight, stride, padding)
    sides = [convolved_side(s, k, stride, padding) for s, k in zip(shape, kernel, strict=False)]
    assert expected.shape[1:3] == tuple(sides)

    def through_xla(x, weight):
        return jax.lax.conv_general_dilated(
            x, weight, (stride, stride), padding.upper(), dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    back = RNG.normal(size=expected.shape).astype(np.float32)

    @jax.jit
    def both(x, weight, back):
        ours, gradient = jax.vjp(lambda x, w: convolve(x, w, stride, padding), x, weight)
        return ours, gradient(back), jax.vjp(through_xla, x, weight)[1](back)

    values, ours, xlas = both(x, weight, back)
    np.testing.assert_allclose(values, expected, atol=1e-5)
    for a, b in zip(ours, xlas, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)


def test_with_weights_of_their_own_clients_take_products_alone():
    def loss(weight, x):
        return jnp.square(convolve(x, weight)).sum()

    x, weight = jnp.ones((3, 2, 6, 6, 1)), jnp.ones((3, 3, 3, 1, 4))
    program = str(jax.make_jaxpr(jax.vmap(jax.grad(loss, (0, 1))))(weight, x))
    assert "conv_general_dilated" not in program
    assert program.count("dot_general") == 3, "the values, and both gradients"


def test_pooling_takes_the_largest_of_four_and_drops_what_is_left_over():
    h = RNG.normal(size=(2, 5, 4, 3)).astype(np.float32)
    expected = [
        [h[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2].max((1, 2)) for j in (0, 1)] for i in (0, 1)
    ]
    np.testing.assert_array_equal(max_pool(h), np.moveaxis(np.array(expected), 2, 0))


def test_the_start_is_uniform_by_fan_in():
    weight, bias = init_convolution(jax.random.key(0), 5, 8, 32)
    assert weight.shape == (5, 5, 8, 32)
    assert bias.shape == (32,)
    bound = 1 / np.sqrt(200)
    assert abs(weight).max() <= bound
    assert weight.std() == pytest.approx(bound / np.sqrt(3), rel=0.05)


def test_equal_maxima_share_the_gradient_of_a_pool():
    h = jax.random.randint(jax.random.key(0), (3, 5, 6, 2), 0, 3).astype(jnp.float32)

    def plain(h):
        return h[:, :4].reshape(3, 2, 2, 3, 2, 2).max((2, 4))

    weights = jnp.cos(jnp.arange(36.0)).reshape(3, 2, 3, 2)
    found, wanted = (jax.grad(lambda h, f=f: (f(h) * weights).sum())(h) for f in (max_pool, plain))
    np.testing.assert_array_equal(found, wanted)
