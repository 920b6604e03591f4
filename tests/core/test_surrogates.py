"""Surrogates of the unmet requirement: their slopes, and the one that trains models."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maxfl.core import appeal
from maxfl.core.surrogates import SIGMOID, SURROGATES


@pytest.mark.parametrize("surrogate", SURROGATES, ids=lambda s: s.name)
def test_slopes_are_the_derivatives(surrogate):
    z = jnp.array([-3.0, -0.5, 0.3, 2.0, 9.0, 40.0])
    derivative = jax.vmap(jax.grad(lambda x: surrogate.value(x)))(z)
    np.testing.assert_allclose(surrogate.slope(z), derivative, rtol=1e-5, atol=1e-7)


def test_the_sigmoid_is_the_one_that_trains_models():
    z = np.linspace(-4, 4, 9)
    np.testing.assert_array_equal(SIGMOID.slope(z), appeal.weight(z, 0.0))
    np.testing.assert_array_equal(SIGMOID.value(z), appeal.objective(z, 0.0))
