"""Many local steps of a perceptron by a kernel against NumPy and against JAX's."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from maxfl.core.federation import InputScaling
from maxfl.core.model import CompiledScaling
from maxfl.models.gpu import perceptron
from maxfl.models.gpu.perceptron import (
    Batches,
    Features,
    Form,
    features_of,
    local_steps,
    take_steps,
)

INPUTS, RNG = 6, np.random.default_rng(0)
FORM = Form(widths=(5, 3, 4), survivors=160, steps=6, batch=7)
"""No power of two; before the last step there are 35 samples, in three tiles."""


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Multiply few earlier samples at once, so that there are several tiles."""
    monkeypatch.setattr(perceptron, "TILE", 16)


def drawn(form, clients):
    """Draw features, minibatches and parameters of clients."""
    shape = clients, form.steps, form.batch
    x = RNG.normal(size=(clients, form.samples, INPUTS))
    labels = RNG.integers(form.widths[-1], size=shape).astype(np.int32)
    decisions = RNG.integers(256, size=(*shape, form.widths[0])).astype(np.uint8)
    coefficients = -RNG.uniform(0.05, 0.1, size=(clients, form.batch))
    parameters = []
    for inputs, outputs in zip((INPUTS, *form.widths), form.widths, strict=False):
        weight, bias = (clients, inputs, outputs), (clients, outputs)
        parameters += [RNG.normal(size=weight) / np.sqrt(inputs), RNG.normal(size=bias)]
    return (
        x.astype(np.float32),
        Batches(labels, decisions, coefficients.astype(np.float32)),
        *(a.astype(np.float32) for a in parameters),
    )


@partial(jax.jit, static_argnums=0)
def by_kernel(form, *arguments):
    """Take steps of all clients at once."""

    def of_one(x, *others):
        return take_steps(form, Features(x), *others)

    return jax.vmap(of_one)(*arguments)


def by_numpy(form, x, batches, *parameters):
    """Take steps of each client, sample by sample, with numbers of 64 bits."""
    each = []
    for k in range(len(x)):
        client = [np.float64(a[k]) for a in parameters]
        for r in range(form.steps):
            change = [np.zeros_like(a) for a in client]
            for i in range(form.batch):
                passes = batches.decisions[k, r, i] < form.survivors
                gradient = of_sample(
                    client, np.float64(x[k, r * form.batch + i]), batches.labels[k, r, i],
                    lambda a, passes=passes: np.where(passes, a, 0) * 256 / form.survivors,
                )  # fmt: skip
                for total, part in zip(change, gradient, strict=True):
                    total += batches.coefficients[k, i] * part
            client = [a + b for a, b in zip(client, change, strict=True)]
        each.append(client)
    return [np.stack(a) for a in zip(*each, strict=True)]


def of_sample(parameters, x, label, dropped):
    """Return gradients of the cross-entropy of a sample: of W and b of each layer."""
    weights, biases = parameters[::2], parameters[1::2]
    values, sums = [x], []
    for w, b in zip(weights, biases, strict=True):
        sums.append(values[-1] @ w + b)
        h = np.maximum(sums[-1], 0)
        values.append(dropped(h) if len(sums) == 1 else h)
    powers = np.exp(sums[-1] - sums[-1].max())
    d = powers / powers.sum() - np.eye(len(powers))[label]
    gradients = []
    for depth in reversed(range(len(weights))):
        gradients[:0] = [np.outer(values[depth], d), d]
        d = weights[depth] @ d
        d = dropped(d) if depth == 1 else d
        d = np.where(sums[depth - 1] > 0, d, 0) if depth else d
    return gradients


def assert_equal(found, expected):
    """Compare all parameters, and where they are no numbers."""
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_two_steps_by_hand():
    """A feature, two outputs, η = 1, all parameters 0.

    x = 1 of class 0: shares ½, d = (½, −½), so W = b = (½, −½). Then x = −1 of class 1: outputs are
    −W + b = 0, so shares are ½ again, d = (−½, ½), W = (1, −1) and b = 0.
    """
    form = Form((2,), survivors=256, steps=2, batch=1)
    x, labels = jnp.asarray([[1.0], [-1.0]]), jnp.asarray([[0], [1]])
    batches = Batches(labels, jnp.zeros(2, jnp.uint8), jnp.asarray([-1.0]))
    features = Features(x)
    weight, bias = take_steps(form, features, batches, jnp.zeros((1, 2)), jnp.zeros(2))
    np.testing.assert_allclose(weight, [[1, -1]], atol=1e-6)
    np.testing.assert_allclose(bias, [0, 0], atol=1e-6)


@pytest.mark.parametrize(
    "form",
    [FORM, FORM._replace(widths=(5, 4), survivors=256), FORM._replace(widths=(3,))],
    ids=["two hidden layers", "all units survive", "no hidden layer"],
)
def test_steps_are_those_of_numpy(form):
    """Of three clients at once, with parameters of their own."""
    arguments = drawn(form, 3)
    found, expected = by_kernel(form, *arguments), by_numpy(form, *arguments)
    assert_equal(found, expected)
    for after, before in zip(found, arguments[2:], strict=True):
        assert (abs(after - before).max((1, *range(2, after.ndim))) > 1e-2).all()


SCALINGS = [(0, 1 / 255), (73.2, 1 / 90), (-40, 1 / 90), (900, 1 / 700)]
"""Shifts within bytes and beyond."""


@pytest.mark.parametrize("scaling", SCALINGS)
def test_steps_on_bytes_are_those_of_numpy(scaling):
    """With numbers that are compiled in and that are inputs."""
    _, batches, *parameters = drawn(FORM, 3)
    x = RNG.integers(256, size=(3, FORM.steps, FORM.batch, INPUTS), dtype=np.uint8)
    shift, scale = np.float32(scaling)
    scaled = ((x - np.float64(shift)) * scale).reshape(3, -1, INPUTS)
    expected = by_numpy(FORM, scaled, batches, *parameters)
    for kind in (CompiledScaling, InputScaling):
        steps = jax.jit(jax.vmap(on_bytes(kind(shift, scale))))
        assert_equal(steps(x, *batches, *parameters), expected)


def on_bytes(scaling):
    """Return the function that takes steps of one client on bytes."""
    take = local_steps(FORM, lambda *_: None)
    return lambda x, *others: take(x, scaling, *others)


@pytest.mark.parametrize("stored", [np.uint8, np.float32])
def test_each_channel_may_have_a_scaling_of_its_own(stored):
    """Of images of two pixels and three channels."""
    _, batches, *parameters = drawn(FORM, 3)
    x = RNG.integers(256, size=(3, FORM.steps, FORM.batch, 2, 3)).astype(stored)
    shift, scale = np.float32([100, 130, 150]), np.float32([1 / 60, 1 / 70, 1 / 80])
    scaled = ((x - np.float64(shift)) * scale).reshape(3, -1, INPUTS)
    steps = jax.jit(jax.vmap(on_bytes(InputScaling(shift, scale))))
    assert_equal(steps(x, *batches, *parameters), by_numpy(FORM, scaled, batches, *parameters))


@pytest.mark.parametrize(("least", "most"), [(0, 256), (200, 211), (254, 256)])
def test_inner_products_of_bytes_are_exact(least, most):
    """Of standardised images, bright ones without contrast too; float32 sums lose 1e-6 of n."""
    bytes_ = np.random.default_rng(1).integers(least, most, (20, 3072), np.uint8)
    shift, scale = np.float32(bytes_.mean()), np.float32(1 / bytes_.std())
    exact = (bytes_ - np.float64(shift)) * np.float64(scale)
    features = features_of(jnp.asarray(bytes_)[None], CompiledScaling(shift, scale))
    assert features.stored.dtype == jnp.bfloat16
    np.testing.assert_allclose(features.inner_products(), exact @ exact.T, atol=2e-6 * 3072)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_features_of_bytes_make_the_same_inputs(scaling):
    bytes_ = np.arange(256, dtype=np.uint8)[None]
    batch = jnp.asarray(bytes_)[None]
    found = features_of(batch, CompiledScaling(*np.float32(scaling))).inputs()
    expected = (bytes_ - np.float64(np.float32(scaling[0]))) * np.float32(scaling[1])
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_samples_with_a_coefficient_of_0_do_not_count():
    """Of seven samples the first four: as if the minibatches had no others."""
    x, batches, *parameters = drawn(FORM, 3)
    batches.coefficients[:, 4:] = 0
    found = by_kernel(FORM, x, batches, *parameters)
    fewer = Batches(
        batches.labels[:, :, :4], batches.decisions[:, :, :4], batches.coefficients[:, :4]
    )
    few = x.reshape(3, FORM.steps, FORM.batch, INPUTS)[:, :, :4].reshape(3, -1, INPUTS)
    assert_equal(found, by_numpy(FORM._replace(batch=4), few, fewer, *parameters))


def spoilt():
    """Draw minibatches of three clients, with a NaN in a feature in the third of the second."""
    x, *others = drawn(FORM, 3)
    x[1, 2 * FORM.batch + 3, 0] = np.nan
    return x, *others


def test_a_nan_spoils_its_own_client_alone():
    arguments = spoilt()
    found, expected = by_kernel(FORM, *arguments), by_numpy(FORM, *arguments)
    assert_equal((a[::2] for a in found), (a[::2] for a in expected))
    assert not any(np.isnan(a[::2]).any() for a in found)
    assert np.isnan(found[2][1]).all()
    assert np.isnan(found[5][1]).all()


def test_a_nan_spoils_those_parameters_that_it_spoils_in_numpy():
    arguments = spoilt()
    assert_equal(by_kernel(FORM, *arguments), by_numpy(FORM, *arguments))


def test_a_nan_in_a_unit_that_is_dropped_does_not_spread():
    x, batches, *parameters = drawn(FORM, 3)
    parameters[1][:, 2], batches.decisions[..., 2] = np.nan, 255
    found = by_kernel(FORM, x, batches, *parameters)
    assert_equal(found, by_numpy(FORM, x, batches, *parameters))
    assert sum(np.isnan(a).sum() for a in found) == 3


def test_derivatives_are_those_of_jax():
    """By features, coefficients and parameters: how they come through, as JAX computes them."""
    form = Form((5, 3), survivors=128, steps=3, batch=2)
    x, batches, *parameters = jax.tree.map(lambda a: jnp.asarray(a[0]), drawn(form, 1))
    x = x.reshape(3, 2, INPUTS)

    def plain(x, labels, decisions, coefficients, *parameters):
        def loss(parameters, r):
            w, b, v, c = parameters
            passes = decisions[r] < form.survivors
            outputs = jnp.where(passes, jax.nn.relu(x[r] @ w + b), 0) * 2 @ v + c
            logs = jax.nn.log_softmax(outputs)
            return -(coefficients * logs[jnp.arange(2), labels[r]]).sum()

        for r in range(3):
            change = jax.grad(loss)(parameters, r)
            parameters = jax.tree.map(jnp.add, parameters, change)
        return parameters

    def gradients(steps):
        def total(x, coefficients, *parameters):
            after = steps(x, *batches._replace(coefficients=coefficients), *parameters)
            return sum((jnp.arange(a.size) * jnp.sin(a).ravel()).sum() for a in after)

        return jax.jit(jax.grad(total, range(6)))(x, batches.coefficients, *parameters)

    def scaled(x, scaling, *others):
        return plain((x - scaling.shift) * scaling.scale, *others)

    scaling = InputScaling(np.float32(0.25), np.float32(0.5))

    def by_steps(x, *others):
        return local_steps(form, scaled)(x, scaling, *others)

    assert_equal(gradients(by_steps), gradients(lambda x, *others: scaled(x, scaling, *others)))


def test_warps_wait_for_each_other_on_a_gpu_alone():
    """What one warp has stored of a step, others read in the next."""
    x, batches, *parameters = jax.tree.map(lambda a: jnp.asarray(a[0]), drawn(FORM, 1))
    features = Features(x)
    traced = jax.make_jaxpr(partial(take_steps, FORM, features, batches))(*parameters)
    waits = {
        kernel.params["interpret"]: "debug_barrier" in str(kernel.params["jaxpr"])
        for kernel in launches(traced.jaxpr)
    }
    assert waits == {True: False, False: True}


def launches(jaxpr):
    """Kernels that a traced program launches, in calls and branches too."""
    for equation in jaxpr.eqns:
        if equation.primitive.name == "pallas_call":
            yield equation
            continue
        for value in jax.tree.leaves(list(equation.params.values())):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                yield from launches(inner)
