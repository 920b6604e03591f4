"""Which computations are for the kernels."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import pytest

from maxfl.models.gpu import support, trials
from maxfl.models.gpu.places import window_geometry
from maxfl.models.gpu.support import (
    most_perceptron_steps,
    takes_attention,
    takes_group_norm,
    takes_layer_norm,
)

IMAGES, WEIGHTS = jnp.zeros((2, 32, 32, 16)), jnp.zeros((3, 3, 16, 64))
SCALE = jnp.ones(16)
TOKENS = jnp.zeros((2, 80, 3 * 64))


def takes_convolution(x, w, *bias, **product):
    """Tell it of a convolution without margins."""
    geometry = window_geometry(x.shape[1:3], w.shape[:2], (1, 1), [(0, 0), (0, 0)], (1, 1))
    return support.takes_convolution(geometry, x, w, *bias, **product)


def perceptron(*widths, dtype=jnp.float32):
    """Return weight and bias of each layer."""
    return [jnp.zeros(size, dtype) for n, m in pairwise(widths) for size in ((n, m), (m,))]


@pytest.fixture
def gpu(monkeypatch):
    """Pretend that there is a GPU for which kernels can be compiled."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(support, "_compiles", lambda *_: True)


def test_nothing_on_a_cpu():
    assert not takes_convolution(IMAGES, WEIGHTS)
    assert not takes_group_norm(8, IMAGES, SCALE, SCALE)
    assert not takes_layer_norm(SCALE, SCALE, IMAGES)
    assert not takes_attention(TOKENS, 2)
    assert most_perceptron_steps(20, *perceptron(784, 64, 30, 62)) == 0


@pytest.mark.usefixtures("gpu")
def test_what_they_were_made_for_on_a_gpu():
    assert takes_convolution(IMAGES, WEIGHTS)
    assert takes_convolution(IMAGES, WEIGHTS, precision=None, preferred_element_type=jnp.float32)
    assert takes_convolution(IMAGES, WEIGHTS, jnp.zeros(64))
    assert takes_group_norm(8, IMAGES, SCALE, SCALE, IMAGES)
    assert takes_layer_norm(SCALE, SCALE, IMAGES)
    assert takes_attention(TOKENS, 2)


@pytest.mark.usefixtures("gpu")
def test_the_rest_is_left_to_jax():
    assert not takes_convolution(IMAGES, jnp.zeros((3, 3, 16, 65)))
    assert not takes_convolution(IMAGES, WEIGHTS.astype(jnp.bfloat16))
    assert not takes_convolution(IMAGES, WEIGHTS, precision=jax.lax.Precision.HIGHEST)
    assert not takes_convolution(IMAGES, WEIGHTS, preferred_element_type=jnp.float64)
    assert not takes_convolution(IMAGES[:0], WEIGHTS)
    assert not takes_convolution(IMAGES[:, :2], WEIGHTS)  # smaller than the kernel
    assert takes_convolution(IMAGES[:, :3], WEIGHTS)
    assert not takes_convolution(IMAGES[:, :3], WEIGHTS, jnp.zeros(64))  # one row, nothing to pool
    assert not takes_convolution(IMAGES, WEIGHTS, jnp.zeros(64, jnp.bfloat16))
    assert not takes_group_norm(8, jnp.zeros((1, 64, 64, 16)))
    assert not takes_group_norm(1, jnp.zeros((1, 64, 64, 1)))  # as much as 16 channels
    assert not takes_group_norm(8, jnp.zeros((1, 4, 4, 128)))
    assert not takes_group_norm(3, IMAGES)  # does not divide the channels
    assert not takes_group_norm(8, IMAGES, SCALE.astype(jnp.bfloat16))
    assert not takes_layer_norm(jnp.ones(2000), jnp.ones(2000), jnp.zeros((3, 2000)))
    assert not takes_attention(jnp.zeros((2, 129, 3 * 64)), 2)
    assert not takes_attention(TOKENS, 1)
    assert not takes_attention(TOKENS, 5)  # do not divide the width
    assert not takes_attention(TOKENS[:0], 2)
    with jax.default_device(jax.devices("cpu")[0]):
        assert not takes_convolution(IMAGES, WEIGHTS)
    many = jax.ShapeDtypeStruct((2**17, 32, 32, 16), jnp.float32)
    assert not takes_convolution(many, jnp.zeros((3, 3, 16, 16)))  # more than addresses reach
    assert not takes_group_norm(8, many)
    assert not takes_attention(jax.ShapeDtypeStruct((2**20, 128, 192), jnp.float32), 2)
    with jax.default_matmul_precision("float32"):
        assert not takes_convolution(IMAGES, WEIGHTS)
        assert not takes_attention(TOKENS, 2)


def test_a_gpu_for_which_they_cannot_be_compiled_is_named(monkeypatch):
    """Of one kind; the others are tried by themselves."""

    def refuse(*_):
        raise RuntimeError("no such GPU")

    monkeypatch.setattr(trials, "_compile", refuse)
    support._compiles.cache_clear()
    with pytest.warns(
        UserWarning, match=r"group normalisation can't be compiled.*RuntimeError: no such"
    ):
        assert not support._compiles("group normalisation", "float32")
    monkeypatch.setattr(trials, "_compile", lambda *_: None)
    assert support._compiles("attention", "float32")
    support._compiles.cache_clear()


@pytest.mark.usefixtures("gpu")
def test_a_perceptron_takes_steps_of_four_samples_a_unit_at_once():
    layers = perceptron(784, 64, 30, 62)
    assert [most_perceptron_steps(batch, *layers) for batch in (1, 20, 64)] == [256, 12, 4]
    assert most_perceptron_steps(32, *perceptron(784, 64)) == 8
    assert most_perceptron_steps(8, *perceptron(20_000, 2)) == 1, "xxᵀ would take the most time"


@pytest.mark.usefixtures("gpu")
def test_steps_of_other_perceptrons_are_taken_one_by_one():
    layers = perceptron(784, 64, 30, 62)
    assert most_perceptron_steps(65, *layers) == 0
    assert most_perceptron_steps(20, *perceptron(784, 65, 10)) == 0
    assert most_perceptron_steps(20, *perceptron(784, 64, 65)) == 0
    assert most_perceptron_steps(20, *perceptron(784, 64, 10, dtype=jnp.bfloat16)) == 0
    assert most_perceptron_steps(20, *layers[:-1], layers[-1].astype(jnp.bfloat16)) == 0
    assert most_perceptron_steps(20, *perceptron(784, 64, 64, 64, 10)) == 0
    with jax.default_matmul_precision("float32"):
        assert most_perceptron_steps(20, *layers) == 0
    with jax.enable_x64(True):
        assert most_perceptron_steps(20, *layers) == 0
    with jax.default_device(jax.devices("cpu")[0]):
        assert most_perceptron_steps(20, *layers) == 0


@pytest.mark.usefixtures("gpu")
def test_steps_are_taken_one_by_one_where_a_gpu_cannot_compile_them(monkeypatch):
    asked = []
    monkeypatch.setattr(support, "_compiles", lambda *kind: bool(asked.append(kind)))
    assert most_perceptron_steps(20, *perceptron(784, 64, 10)) == 0
    assert asked == [("perceptron", "float32")]
