"""Many local steps of a multi-layer perceptron at once.

    h_0 = x,   h_l = relu(h_{l−1} W_l + b_l),   outputs = h_{L−1} W_L + b_L
    d_L = c (softmax(outputs) − y),   d_l = d_{l+1} W_{l+1}ᵀ where h_l > 0
    W_l ← W_l + h_{l−1}ᵀ d_l,   b_l ← b_l + Σ d_l

with c = −η/b for each sample of a minibatch, and units of h_1 dropped. The first layer has nearly
all weights, but its products at step r follow from the weights before the first step,

    x_r W_1^(r) = x_r W_1^(0) + Σ_{s<r} (x_r x_sᵀ) d_s,   W_1 ← W_1^(0) + Σ_s x_sᵀ d_s

so that three large products, x W_1, x xᵀ and xᵀ d of all minibatches, take the place of two small
ones a step. What is left runs in one launch, a program for each client, whose later layers stay in
registers meanwhile.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from maxfl.core.model import CompiledScaling, Scaling, scale_inputs
from maxfl.models.gpu.fused import fused
from maxfl.models.gpu.launch import launch, over_clients
from maxfl.models.gpu.program import count, load, multiply, store, wait
from maxfl.models.gpu.sizes import power_of_two
from maxfl.models.layers import Layer

TILE, WARPS = 64, 4
"""Earlier samples that are multiplied at once, and a program's warps; measured on an H200."""


class Form(NamedTuple):
    """Sizes of a perceptron and of its steps.

    Attributes:
        widths: Units of each hidden layer, and outputs.
        survivors: Of 256 units of the first hidden layer, in training.
        steps: Number of minibatches.
        batch: Samples of each.
    """

    widths: tuple[int, ...]
    survivors: int
    steps: int
    batch: int

    @property
    def scale(self) -> float:
        """Factor of units that are not dropped, so that the mean stays."""
        return 256 / self.survivors

    @property
    def held(self) -> int:
        """Samples that a program holds: a power of two, as all sizes within one must be."""
        return power_of_two(self.batch)

    @property
    def samples(self) -> int:
        """Samples of all minibatches."""
        return self.steps * self.batch


class Features(NamedTuple):
    """Features of all samples of a client's minibatches.

    Attributes:
        stored: [samples, inputs]. Of bytes their difference from a whole number, as bfloat16: that
            is exact, takes half the memory of inputs, and XLA's products scale it on the way.
        scaling: What makes inputs of them; None where they are inputs.
    """

    stored: Array
    scaling: CompiledScaling | None = None

    def inputs(self) -> Array:
        """Return x, float32[samples, inputs]."""
        return self.stored if self.scaling is None else scale_inputs(self.scaling, self.stored)

    def inner_products(self) -> Array:
        """Return x xᵀ, float32[samples, samples].

        Products of bytes are exact in bfloat16, which takes less time than TF32. A shift c, here at
        most ½, comes after them; digits of sums would be lost by a larger one.

            Σ (s − c)(t − c) = Σ s t − c (Σ s + Σ t) + n c²
        """
        stored, scaling = self
        if scaling is None or abs(scaling.shift) > 0.5:
            x = self.inputs()
            return x @ x.T
        found = multiply(stored, stored.T)
        if scaling.shift:
            sums = stored.astype(jnp.float32).sum(1)
            constant = stored.shape[1] * scaling.shift**2
            found += constant - scaling.shift * (sums[:, None] + sums[None, :])
        return found * scaling.scale**2


def features_of(stored: Array, scaling: Scaling) -> Features:
    """Return features as products take them best.

    Scaled here, before they are flat, unless a product can do it: others may differ by channel.

    Args:
        stored: [steps, batch, ...].
        scaling: From these to inputs.
    """
    samples = stored.shape[0] * stored.shape[1]
    if not isinstance(scaling, CompiledScaling) or stored.dtype != jnp.uint8:
        return Features(scale_inputs(scaling, stored).reshape(samples, -1))
    whole = np.float32(np.clip(np.round(scaling.shift), 0, 255))
    near = (stored.reshape(samples, -1).astype(jnp.float32) - whole).astype(jnp.bfloat16)
    return Features(near, CompiledScaling(scaling.shift - whole, scaling.scale))


class Batches(NamedTuple):
    """Minibatches of a client, beside their features.

    Attributes:
        labels: int32[steps, batch].
        decisions: Over units of the first hidden layer, uint8[steps, batch, units]: those below
            ``survivors`` pass. Anything where all do.
        coefficients: c, float32[batch].
    """

    labels: Array
    decisions: Array
    coefficients: Array


def local_steps(form: Form, plain: Callable[..., Any]) -> Callable[..., tuple[Array, ...]]:
    """Return the function of stored features, their scaling, ``Batches`` and parameters.

    Args:
        form: Sizes.
        plain: The same function in JAX.
    """
    size = len(Batches._fields)

    def forward(
        stored: Array, scaling: Scaling, *arrays: Array
    ) -> tuple[tuple[Array, ...], tuple[()]]:
        features = features_of(stored, scaling)
        return take_steps(form, features, Batches(*arrays[:size]), *arrays[size:]), ()

    def backward(arguments: tuple[Any, ...], _: tuple[()], g: Any) -> tuple[Any, ...]:
        return jax.vjp(plain, *arguments)[1](g)

    return fused(plain, forward, backward)


def take_steps(
    form: Form, features: Features, batches: Batches, *parameters: Array
) -> tuple[Array, ...]:
    """Take steps on minibatches of a client, one after another; return its parameters.

    Args:
        form: Sizes.
        features: Of all samples.
        batches: What else they have.
        parameters: Weight and bias of each layer.
    """
    weight, *others = parameters
    # Apart: XLA would gather samples anew for each product.
    features = features._replace(stored=jax.lax.optimization_barrier(features.stored))
    products = features.inputs() @ weight
    # Apart: XLA would join the weights and xᵀ, and multiply x by both at once.
    stored, products = jax.lax.optimization_barrier((features.stored, products))
    features = features._replace(stored=stored)
    changes, *others = over_clients(
        functools.partial(_launch_steps, form),
        products,
        features.inner_products(),
        *batches,
        *others,
    )
    return weight + features.inputs().T @ changes, *others


@functools.partial(jax.jit, static_argnums=0)
def _launch_steps(form: Form, *arrays: Array) -> tuple[Array, ...]:
    """Return d_1 of all samples, b_1 and the later layers, from h_0 W_1 and h_0 h_0ᵀ."""
    products, others = arrays[0], arrays[2 + len(Batches._fields) :]
    wanted = products, *others
    results = [jax.ShapeDtypeStruct((len(a), a.size // len(a)), a.dtype) for a in wanted]
    kernel = functools.partial(_kernel, form)
    found = launch(kernel, arrays, results, (len(products),), WARPS, in_place=len(others))
    return tuple(a.reshape(b.shape) for a, b in zip(found, wanted, strict=True))


def _kernel(form: Form, products: Any, gram: Any, *references: Any) -> None:
    """Take all steps of a client."""
    batches, rest = Batches(*references[:3]), references[3:]
    before, (changes, *after) = rest[: len(rest) // 2], rest[len(rest) // 2 :]

    def step(r: Array, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
        at = _samples(form, r)
        product = load(products, *at) + _of_earlier_steps(form, gram, changes, r)
        change, layers = _later_layers(form, batches, r, product, layers)
        store(changes, *at, change)
        wait()
        return layers

    layers = jax.lax.fori_loop(0, form.steps, step, _load_layers(form, before))
    _store_layers(form, after, layers)


def _of_earlier_steps(form: Form, gram: Any, changes: Any, r: Array) -> Array:
    """Return Σ_{s<r} (x_r x_sᵀ) d_s."""
    sample, unit = count(form.held), count(power_of_two(form.widths[0]))

    def add(tile: Array, total: Array) -> Array:
        other = tile * TILE + count(TILE)
        is_earlier = other < r * form.batch
        exists = (sample < form.batch)[:, None] & is_earlier[None, :]
        inner = load(gram, (r * form.batch + sample) * form.samples, other, exists)
        is_unit = unit < form.widths[0]
        change = load(changes, other * form.widths[0], unit, is_earlier[:, None] & is_unit[None, :])
        return total + multiply(inner, change)

    nothing = jnp.zeros((form.held, len(unit)), jnp.float32)
    return jax.lax.fori_loop(0, pl.cdiv(r * form.batch, TILE), add, nothing)


def _samples(form: Form, r: Array) -> tuple[Array, Array, Array]:
    """Return where a minibatch's units of h_1 lie: rows, columns, and whether both exist."""
    units = form.widths[0]
    sample, unit = count(form.held), count(power_of_two(units))
    exists = (sample < form.batch)[:, None] & (unit < units)[None, :]
    return (r * form.batch + sample) * units, unit, exists


def _later_layers(
    form: Form, batches: Batches, r: Array, product: Array, layers: tuple[Layer, ...]
) -> tuple[Array, tuple[Layer, ...]]:
    """Return d_1 of a minibatch, and the layers after its step.

    Args:
        form: Sizes.
        batches: Labels, decisions and coefficients.
        r: The minibatch's number.
        product: h_0 W_1.
        layers: Of which the first has its bias alone.
    """
    hidden: list[Array] = []
    outputs = product + layers[0].bias[None, :]
    is_sample = (count(form.held) < form.batch)[:, None]
    for layer in layers[1:]:
        # Not by ``jnp.maximum``, which loses NaN in a Triton kernel.
        # Where there is no sample, NaN of a bias would go on to weights.
        h = jnp.where((outputs <= 0) | ~is_sample, 0.0, outputs)
        hidden.append(h if hidden else _drop(form, batches, r, h))
        outputs = multiply(hidden[-1], layer.weight) + layer.bias[None, :]
    change, found = _output_change(form, batches, r, outputs), []
    for layer, h in zip(reversed(layers[1:]), reversed(hidden), strict=True):
        weight = layer.weight + multiply(h.T, change)
        found.append(Layer(weight, layer.bias + change.sum(0)))
        change = jnp.where(h > 0, multiply(change, layer.weight.T), 0.0)
    change *= form.scale if hidden else 1.0
    found.append(Layer(layers[0].weight, layers[0].bias + change.sum(0)))
    return change, tuple(reversed(found))


def _drop(form: Form, batches: Batches, r: Array, h: Array) -> Array:
    """Zero the units over which bytes have decided so, and scale the others up."""
    if form.survivors == 256:
        return h
    decisions = load(batches.decisions, *_samples(form, r)).astype(jnp.int32)
    return jnp.where(decisions < form.survivors, h, 0.0) * form.scale


def _output_change(form: Form, batches: Batches, r: Array, outputs: Array) -> Array:
    """Return d_L; 0 where there is no sample or no output."""
    sample, output = count(form.held), count(outputs.shape[1])
    is_sample, is_output = sample < form.batch, output < form.widths[-1]
    at = r * form.batch + sample
    labels: Any = batches.labels
    coefficients: Any = batches.coefficients
    label = triton.load(labels.at[at], mask=is_sample, other=jnp.int32(0))
    c = triton.load(coefficients.at[sample], mask=is_sample, other=0.0)
    outputs = jnp.where(is_output[None, :], outputs, -jnp.inf)
    # A maximum without NaN does no harm: the difference from it is NaN again.
    powers = jnp.exp(outputs - outputs.max(1)[:, None])
    share = powers / powers.sum(1)[:, None]
    is_label = label[:, None] == output[None, :]
    change = c[:, None] * (share - is_label.astype(jnp.float32))
    return jnp.where(is_sample[:, None] & is_output[None, :], change, 0.0)


def _load_layers(form: Form, references: Sequence[Any]) -> tuple[Layer, ...]:
    """Load what stays in registers, of W_1 nothing; 0 where there are no units."""
    found = []
    for (inputs, outputs), weight, bias in _each_layer(form, references):
        output = count(power_of_two(outputs))
        b = triton.load(bias.at[output], mask=output < outputs, other=0.0)
        w: Any = () if weight is None else load(weight, *_place(inputs, outputs))
        found.append(Layer(w, b))
    return tuple(found)


def _store_layers(form: Form, references: Sequence[Any], layers: tuple[Layer, ...]) -> None:
    """Store layers."""
    each = zip(_each_layer(form, references), layers, strict=True)
    for ((inputs, outputs), weight, bias), layer in each:
        output = count(power_of_two(outputs))
        triton.store(bias.at[output], layer.bias, mask=output < outputs)
        if weight is not None:
            store(weight, *_place(inputs, outputs), layer.weight)


def _each_layer(
    form: Form, references: Sequence[Any]
) -> Iterator[tuple[tuple[int, int], Any, Any]]:
    """Give each layer's sizes, and where its weight and bias are; of W_1 nothing."""
    sizes = zip((0, *form.widths), form.widths, strict=False)
    yield from zip(sizes, (None, *references[1::2]), references[::2], strict=True)


def _place(inputs: int, outputs: int) -> tuple[Array, Array, Array]:
    """Return where a weight lies: rows, columns, and whether both exist."""
    i, j = count(power_of_two(inputs)), count(power_of_two(outputs))
    return i * outputs, j, (i < inputs)[:, None] & (j < outputs)[None, :]
