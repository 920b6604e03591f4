"""Convolutions are found wherever a model has them."""

import jax
import pytest
from jax import lax

import maxfl
from maxfl.core.checks.convolutions import uses_convolutions

X = jax.ShapeDtypeStruct((2, 8, 8, 4), "float32")
LAYOUT = ("NHWC", "HWIO", "NHWC")


def convolution(**options):
    """A model that is one convolution, inside of a loop in a compiled function."""
    grouped = 4 // options.get("feature_group_count", 1)

    def init(key):
        return jax.random.normal(key, (3, 3, grouped, 4))

    given = {"window_strides": (1, 1), "padding": "SAME", "dimension_numbers": LAYOUT, **options}

    @jax.jit
    def apply(kernel, x, _key=None):
        def step(x, _):
            return lax.conv_general_dilated(x, kernel, **given), None

        return lax.scan(step, x, length=2)[0]

    return maxfl.Model(init, apply)


def test_a_convolution_is_found_in_a_loop():
    assert uses_convolutions(convolution(), X)


TRANSPOSED = {"lhs_dilation": (2, 2), "window_strides": (2, 2), "padding": [(1, 1), (1, 1)]}


@pytest.mark.parametrize("options", [{"feature_group_count": 4}, TRANSPOSED])
def test_convolutions_without_a_fast_way_do_not_count(options):
    assert not uses_convolutions(convolution(**options), X)


def test_a_perceptron_does_not_convolve():
    assert not uses_convolutions(maxfl.mlp(256, (8,), 3), X)
