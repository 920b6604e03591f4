"""Which computations are for the kernels."""

import jax
import jax.numpy as jnp
import pytest

from maxfl.models.gpu import products, support
from maxfl.models.gpu.support import takes_convolution, takes_group_norm

IMAGES, WEIGHTS = jnp.zeros((2, 32, 32, 16)), jnp.zeros((3, 3, 16, 64))


@pytest.fixture
def gpu(monkeypatch):
    """Pretend that there is a GPU for which kernels can be compiled."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(support, "_compiles", lambda _: True)


def test_nothing_on_a_cpu():
    assert not takes_convolution(IMAGES, WEIGHTS)
    assert not takes_group_norm(IMAGES)


@pytest.mark.usefixtures("gpu")
def test_what_they_were_made_for_on_a_gpu():
    assert takes_convolution(IMAGES, WEIGHTS)
    assert takes_convolution(IMAGES, WEIGHTS, precision=None, preferred_element_type=jnp.float32)
    assert takes_group_norm(IMAGES)


@pytest.mark.usefixtures("gpu")
def test_the_rest_is_left_to_jax():
    assert not takes_convolution(IMAGES, jnp.zeros((3, 3, 16, 65)))
    assert not takes_convolution(IMAGES, WEIGHTS.astype(jnp.bfloat16))
    assert not takes_convolution(IMAGES, WEIGHTS, precision=jax.lax.Precision.HIGHEST)
    assert not takes_convolution(IMAGES, WEIGHTS, preferred_element_type=jnp.float64)
    assert not takes_convolution(IMAGES[:0], WEIGHTS)
    assert not takes_group_norm(jnp.zeros((1, 64, 64, 16)))
    assert not takes_group_norm(jnp.zeros((1, 64, 64, 1)))  # as much as 16 channels
    with jax.default_device(jax.devices("cpu")[0]):
        assert not takes_convolution(IMAGES, WEIGHTS)
    many = jax.ShapeDtypeStruct((2**17, 32, 32, 16), jnp.float32)
    assert not takes_convolution(many, jnp.zeros((3, 3, 16, 16)))  # more than addresses reach
    assert not takes_group_norm(many)
    with jax.default_matmul_precision("float32"):
        assert not takes_convolution(IMAGES, WEIGHTS)


def test_a_gpu_for_which_they_cannot_be_compiled_is_named(monkeypatch):
    def refuse(*_):
        raise RuntimeError("no such GPU")

    monkeypatch.setattr(products, "pooled_products", refuse)
    support._compiles.cache_clear()
    with pytest.warns(UserWarning, match=r"can't be compiled here.*RuntimeError: no such GPU"):
        assert not support._compiles("float32")
    support._compiles.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_they_can_be_compiled_where_the_interpreter_stands_for_a_gpu(dtype):
    support._compiles.cache_clear()
    assert support._compiles(dtype)
