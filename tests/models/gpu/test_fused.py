"""Derivatives of what kernels compute, with functions of JAX in their place."""

import jax
import jax.numpy as jnp
import numpy as np

from maxfl.models.gpu.fused import fused


def test_first_derivatives_are_those_given_and_second_those_of_jax():
    """x³ y, whose gradient is said to be ten times what it is, so that it shows which is used."""

    def plain(x, y):
        return x**3 * y

    cube = fused(
        plain,
        forward=lambda x, y: (x**3 * y, x**2),
        backward=lambda a, square, g: (30 * square * a[1] * g, 10 * square * a[0] * g),
    )
    x, y = jnp.float32(2), jnp.float32(5)
    assert cube(x, y) == 40
    np.testing.assert_allclose(jax.grad(cube, (0, 1))(x, y), (600, 80))
    np.testing.assert_allclose(jax.grad(jax.grad(cube))(x, y), 6 * 2 * 5)
