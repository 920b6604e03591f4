"""The product of all windows is the convolution."""

import jax
import numpy as np
import pytest

from maxfl.models.windows import convolve_windows


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

    def both(x, kernel):
        wanted = jax.lax.conv_general_dilated(
            x, kernel, strides, margins, rhs_dilation=dilation,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )  # fmt: skip
        return wanted, convolve_windows(x, kernel, strides, margins, dilation)

    wanted, found = jax.jit(both)(x, kernel)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
