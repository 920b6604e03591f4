"""The product of all windows is the convolution."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maxfl.models.convolution import max_pool
from maxfl.models.windows import Grid, convolve_windows, join, look_up


@pytest.mark.parametrize(
    ("strides", "margins", "dilation"),
    [
        ((1, 1), [(1, 1), (0, 1)], (1, 1)),
        ((2, 3), [(0, 0), (0, 0)], (1, 1)),
        ((2, 1), [(1, 1), (0, 1)], (2, 1)),
        ((1, 2), [(2, 0), (-1, 3)], (1, 2)),
    ],
)
def test_the_product_is_the_convolution(strides, margins, dilation):
    keys = jax.random.split(jax.random.key(0))
    x, kernel = jax.random.normal(keys[0], (2, 9, 8, 3)), jax.random.normal(keys[1], (3, 2, 3, 4))

    def conv(x, kernel):
        return jax.lax.conv_general_dilated(
            x, kernel, strides, margins, rhs_dilation=dilation,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )  # fmt: skip

    def windows(x, kernel):
        return convolve_windows(x, kernel, strides, margins, dilation)

    def value_and_gradients(function):
        value, back = jax.vjp(function, x, kernel)
        return value, *back(jnp.cos(jnp.arange(value.size)).reshape(value.shape))

    wanted, found = jax.jit(lambda: [value_and_gradients(f) for f in (conv, windows)])()
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=2e-5)


def test_windows_are_the_same_on_every_platform():
    x = jax.random.normal(jax.random.key(0), (2, 9, 8, 3))
    grid = Grid((9, 8, 3), range(0, 3, 2), range(2), down=2, right=3)
    np.testing.assert_array_equal(look_up(grid, x), join(grid, x))


def test_images_may_be_none_or_too_small():
    kernel = jnp.ones((3, 3, 2, 4))
    assert convolve_windows(jnp.ones((0, 8, 8, 2)), kernel).shape == (0, 6, 6, 4)
    assert convolve_windows(jnp.ones((2, 2, 8, 2)), kernel).shape == (2, 0, 6, 4)


def test_derivatives_go_forward_too():
    x, kernel = jax.random.normal(jax.random.key(0), (1, 4, 4, 2)), jnp.ones((3, 3, 2, 4))
    _, change = jax.jvp(lambda x: max_pool(convolve_windows(x, kernel)), (x,), (x,))
    np.testing.assert_allclose(change, max_pool(convolve_windows(x, kernel)), rtol=1e-5)
