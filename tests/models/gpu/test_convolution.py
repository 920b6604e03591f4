"""Convolutions by kernels against plain loops and against the same in JAX."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maxfl.models import convolution as layers
from maxfl.models import windows
from maxfl.models.gpu import convolution as convolution_module
from maxfl.models.gpu.convolution import convolution
from maxfl.models.gpu.places import window_geometry
from maxfl.models.gpu.sizes import LONG_WINDOW
from maxfl.models.layers import Layer
from support.plain_convolution import convolved

RNG = np.random.default_rng(0)


def integers(*shape):
    """Draw small whole numbers: their products and sums are exact in TF32 and float32."""
    return RNG.integers(-2, 3, shape).astype(np.float32)


@pytest.fixture
def by_kernels(monkeypatch):
    """Compute by kernels, as on a GPU."""
    for module in (layers, windows):
        monkeypatch.setattr(module, "takes_convolution", lambda *_, **__: True)


@pytest.mark.usefixtures("by_kernels")
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("padding", ["same", "valid"])
def test_a_convolution_by_plain_loops(stride, padding):
    x, weight = integers(2, 7, 6, 3), integers(3, 2, 3, 5)
    found = layers.convolve(x, weight, stride, padding)
    np.testing.assert_array_equal(found, convolved(x, weight, stride, padding))


CASES = {
    "strides and zeros": ((3, 9, 8, 4), (3, 3, 4, 6), (2, 2), ((0, 1), (1, 1)), (1, 1)),
    "dilation": ((2, 11, 9, 2), (2, 2, 2, 3), (1, 2), ((0, 0), (0, 0)), (2, 1)),
    "cut off": ((2, 8, 8, 3), (3, 3, 3, 4), (1, 1), ((-1, -1), (0, -2)), (1, 1)),
    "several programs": ((3, 13, 11, 3), (3, 3, 3, 5), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    "wider than a tile": ((1, 5, 5, 70), (3, 3, 70, 66), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    "long windows": ((2, 5, 6, 30), (3, 3, 30, 5), (2, 1), ((1, 0), (1, 1)), (1, 1)),
}

QUICK = "strides and zeros", "several programs", "long windows"


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=name, marks=[pytest.mark.slow] * (name not in QUICK))
        for name, case in CASES.items()
    ],
)
def test_values_and_gradients_are_those_of_windows_in_memory(monkeypatch, case):
    image, kernel, *how = case
    x, weight = integers(*image), integers(*kernel)

    def value_and_gradients(by_kernels):
        monkeypatch.setattr(windows, "takes_convolution", lambda *_, **__: by_kernels)
        value, back = jax.vjp(lambda *a: windows.convolve_windows(*a, *how), x, weight)
        return value, *back(np.round(np.cos(np.arange(value.size)) * 3).reshape(value.shape))

    for found, expected in zip(value_and_gradients(True), value_and_gradients(False), strict=True):
        np.testing.assert_array_equal(found, expected)


def layer_and_gradients(monkeypatch, by_kernels, arguments, mapped=None):
    """Return a layer's value and gradients; ``mapped`` says which arguments clients have."""
    monkeypatch.setattr(layers, "takes_convolution", lambda *_, **__: by_kernels)
    monkeypatch.setattr(windows, "takes_convolution", lambda *_, **__: False)

    def layer(x, weight, bias):
        return layers.convolution_layer(Layer(weight, bias), x, "valid")

    value, back = jax.vjp(jax.vmap(layer, mapped) if mapped else layer, *arguments)
    g = jnp.round(jnp.cos(jnp.arange(value.size)) * 3).reshape(value.shape)
    return value, *back(g.astype(value.dtype))


@pytest.mark.parametrize(
    "mapped",
    [
        (0, 0, 0),
        *(pytest.param(m, marks=pytest.mark.slow) for m in (None, (None, 0, 0), (0, None, 0))),
    ],
)
def test_a_pooled_layer_with_equals_is_that_of_jax(monkeypatch, mapped):
    arguments = [integers(3, 17, 12, 2), integers(3, 3, 2, 7), integers(7)]  # two programs
    if mapped:
        pairs = zip(arguments, mapped, strict=True)
        arguments = [a if axis is None else np.stack([a, a + 1]) for a, axis in pairs]
    found = layer_and_gradients(monkeypatch, True, arguments, mapped)
    expected = layer_and_gradients(monkeypatch, False, arguments, mapped)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-4)


def test_few_channels_of_a_large_patch_are_multiplied_as_they_are(monkeypatch):
    """Three channels and 5 × 5 taps: longer than a patch may be, and too few for half precision."""
    arguments = integers(2, 8, 9, 3), integers(5, 5, 3, 4), integers(4)
    arguments[0][0, 0, 0, 0] = 2**20  # beyond float16
    found = layer_and_gradients(monkeypatch, True, arguments)
    expected = layer_and_gradients(monkeypatch, False, arguments)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-4)
    layer = convolution_module.pooled_convolution
    geometry = window_geometry((8, 9), (5, 5), (1, 1), ((0, 0), (0, 0)), (1, 1))
    for channels, is_half in ((3, False), (15, False), (16, True)):
        shapes = (2, 8, 9, channels), (5, 5, channels, 4), (4,)
        program = jax.make_jaxpr(layer(geometry, channels, None))(*map(jnp.ones, shapes))
        assert ("f16[" in str(program)) == is_half


MANY = integers(2, 2, 7, 6, 16), integers(2, 3, 3, 16, 5), integers(2, 5)  # a row is left over
"""Images, weights and biases of two clients."""


@pytest.mark.parametrize(
    "mapped",
    [
        (0, 0, 0),
        *(pytest.param(m, marks=pytest.mark.slow) for m in ((None, 0, 0), (0, None, None))),
    ],
)
def test_a_pooled_layer_of_many_channels_is_that_of_jax(monkeypatch, mapped):
    pairs = zip(MANY, mapped, strict=True)
    arguments = [a[0] if axis is None else a for a, axis in pairs]
    found = layer_and_gradients(monkeypatch, True, arguments, mapped)
    expected = layer_and_gradients(monkeypatch, False, arguments, mapped)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-4)


@pytest.mark.slow
def test_a_pooled_layer_in_bfloat16_is_that_of_jax(monkeypatch):
    arguments = [jnp.asarray(a[0], jnp.bfloat16) for a in MANY]
    found = layer_and_gradients(monkeypatch, True, arguments)
    expected = layer_and_gradients(monkeypatch, False, arguments)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype == jnp.bfloat16
        np.testing.assert_allclose(*(np.asarray(c, np.float32) for c in (a, b)), rtol=0.03, atol=2)


@pytest.mark.parametrize("spoilt", [np.nan, np.inf])
def test_what_is_no_number_stays_in_its_sample(monkeypatch, spoilt):
    """Of many channels: values of other samples are as they were."""
    x, *rest = (a[0] for a in MANY)
    x = x.copy()
    x[1, 3, 3, 2] = spoilt
    value, *_ = layer_and_gradients(monkeypatch, True, [x, *rest])
    expected, *_ = layer_and_gradients(monkeypatch, False, [x, *rest])
    np.testing.assert_array_equal(np.isfinite(value), np.isfinite(expected))
    np.testing.assert_array_equal(value[0], expected[0])


def test_long_windows_are_rounded_as_in_tf32_and_others_are_not():
    """They are multiplied in half precision; sums of hundreds of products stay in float32."""
    geometry = window_geometry((4, 4), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))

    def difference(channels):
        x = RNG.normal(size=(3, 4, 4, channels)).astype(np.float32)
        w = RNG.normal(size=(3, 3, channels, 8)).astype(np.float32)
        plain = functools.partial(convolved, stride=1, padding="same")
        found = convolution(geometry, plain)(x, w)
        return np.linalg.norm(found - plain(x, w)) / np.linalg.norm(found)

    assert difference(LONG_WINDOW // 9) < 1e-6
    assert 1e-5 < difference(LONG_WINDOW // 9 + 1) < 2.0**-11


def test_gradients_in_half_precision_keep_what_is_small():
    """Gradients of 1e-12, which float16 has not."""
    geometry = window_geometry((4, 4), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))
    x, w = integers(2, 4, 4, 32), integers(3, 3, 32, 4)
    layer = convolution(geometry, layers.convolve)
    g = integers(2, 4, 4, 4)
    whole, small = (jax.vjp(layer, x, w)[1](jnp.asarray(g * size)) for size in (1.0, 2.0**-40))
    for a, b in zip(whole, small, strict=True):
        np.testing.assert_array_equal(a, b * 2.0**40)


def test_a_nan_stays_one_and_has_no_gradient(monkeypatch):
    """In one of the four places that are pooled, and alone."""
    x = integers(2, 6, 6, 1)
    x[0, 1, 1], x[1] = np.nan, np.nan
    arguments = x, integers(3, 3, 1, 2), integers(2)
    value, _, _, bias = layer_and_gradients(monkeypatch, True, arguments)
    expected, _, _, plain_bias = layer_and_gradients(monkeypatch, False, arguments)
    np.testing.assert_array_equal(value, expected)
    assert np.isnan(value[0, 0, 0]).all()
    assert np.isfinite(value[0, 1, 1]).all()
    np.testing.assert_array_equal(bias, plain_bias)


def test_pooling_has_no_maximum_that_would_lose_a_nan_on_a_gpu(monkeypatch):
    monkeypatch.setattr(layers, "takes_convolution", lambda *_, **__: True)
    layer = Layer(integers(3, 3, 1, 2), integers(2))
    program = jax.make_jaxpr(lambda x: layers.convolution_layer(layer, x, "same"))
    text = str(program(integers(2, 6, 6, 1)))
    assert "pallas_call" in text
    assert " max " not in text


@pytest.mark.slow
@pytest.mark.parametrize(("channels", "copies", "rtol"), [(2, 1, 1e-5), (30, 10, 1e-3)])
def test_second_derivatives_are_those_of_jax(monkeypatch, channels, copies, rtol):
    """Of many channels, what is derived twice was rounded."""
    arguments = integers(2, 5, 5, channels), integers(3, 3, channels, 3), integers(3)

    def second(by_kernels):
        monkeypatch.setattr(layers, "takes_convolution", lambda *_, **__: by_kernels)
        monkeypatch.setattr(windows, "takes_convolution", lambda *_, **__: by_kernels)

        def loss(x, weight, bias):
            pooled = layers.convolution_layer(Layer(weight, bias), x, "same")
            pooled = jnp.concatenate([pooled] * copies, -1)
            again = weight[:, :, :1].repeat(3 * copies, 2)
            return jnp.square(layers.convolve(pooled, again)).sum()

        def length(*arguments):
            return sum(jnp.square(g).sum() for g in jax.grad(loss, (0, 1, 2))(*arguments))

        return jax.grad(length, (0, 1, 2))(*arguments)

    for found, expected in zip(second(True), second(False), strict=True):
        size = np.abs(expected).max()
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * size)
