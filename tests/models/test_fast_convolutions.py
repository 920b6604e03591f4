"""Models with convolutions of their own, computed by windows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import maxfl
from maxfl.core.checks.convolutions import uses_convolutions

X = jax.random.normal(jax.random.key(0), (2, 9, 8, 3))


def init(key):
    return jax.random.normal(key, (3, 2, 3, 4))


@jax.jit
def apply(kernel, x, key=None):
    """Strided, dilated and padded; dropout in training mode."""
    h = jax.lax.conv_general_dilated(
        x, kernel, (2, 1), "SAME", rhs_dilation=(1, 2), dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    h = h if key is None else h * jax.random.bernoulli(key, shape=h.shape)
    return h.mean((1, 2))


SLOW = maxfl.Model(init, apply)


def test_the_model_stays_the_same_without_convolutions():
    fast, key = maxfl.fast_convolutions(SLOW), jax.random.key(2)
    assert uses_convolutions(SLOW, X)
    assert not uses_convolutions(fast, X)

    def loss(kernel, model):
        return (model.training_outputs(kernel, X, key)[0] ** 2).sum()

    kernel = init(jax.random.key(1))
    both = jax.jit(lambda kernel: [jax.value_and_grad(loss)(kernel, m) for m in (SLOW, fast)])
    wanted, found = both(kernel)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), wanted, found)


@pytest.mark.parametrize("layout", [("NCHW", "OIHW", "NCHW"), ("HWNC", "IHWO", "CWHN")])
def test_any_layout_is_followed(layout):
    def places(spec, names):
        return tuple(names.index(letter) for letter in spec)

    def laid_out(kernel, x, _key=None):
        x = jnp.transpose(x, places(layout[0], "NHWC"))
        kernel = jnp.transpose(kernel, places(layout[1], "HWIO"))
        return jax.lax.conv_general_dilated(x, kernel, (1, 2), "VALID", dimension_numbers=layout)

    model = maxfl.Model(init, laid_out)
    kernel = init(jax.random.key(1))
    wanted, found = (jax.jit(m.apply)(kernel, X) for m in (model, maxfl.fast_convolutions(model)))
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_each_client_has_its_own_kernel():
    fast = maxfl.fast_convolutions(SLOW)
    kernels = jax.vmap(init)(jax.random.split(jax.random.key(1), 3))
    per_client = jax.make_jaxpr(jax.vmap(lambda kernel: fast.outputs(kernel, X)))(kernels)
    assert "conv_general_dilated" not in str(per_client)


def test_equal_models_stay_equal():
    assert maxfl.fast_convolutions(SLOW) == maxfl.fast_convolutions(SLOW)
