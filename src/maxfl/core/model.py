"""A model is a pair of pure functions; ``mlp`` is the one of the paper."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, Protocol, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from maxfl.utils.errors import InputError, check_count, check_number

Params = Any
"""A pytree of float arrays."""


class Apply(Protocol):
    """Logits [n, classes] of inputs [n, ...]; a key means training mode (dropout on)."""

    def __call__(self, params: Params, x: Array, key: Array | None = None) -> Array:  # noqa: D102
        ...


class Model(NamedTuple):
    """Any model: how to draw its parameters, and how to apply them.

    Attributes:
        init: ``init(key) -> params``.
        apply: ``apply(params, x, key=None) -> logits``; with a key, training mode.
    """

    init: Callable[[Array], Params]
    apply: Apply


class Layer(NamedTuple):
    """A dense layer: weight [inputs, outputs], bias [outputs]."""

    weight: Array
    bias: Array


def mlp(inputs: int, hidden: Sequence[int], classes: int, dropout: float = 0.5) -> Model:
    """Return a multi-layer perceptron with ReLU, and dropout after the first hidden layer.

    Weights and biases start uniform in ±1/√inputs, as in the framework that the paper used.
    Cached, so that equal arguments give one model and one compiled program.

    Args:
        inputs: Number of features; inputs of any shape are flattened.
        hidden: Units of the hidden layers, for instance (64, 30).
        classes: Number of logits.
        dropout: Share of the first hidden layer's units dropped in training, at least 0 and
            below 1.
    """
    if np.ndim(dropout) != 0:
        raise InputError(f"dropout = {dropout!r}: expected one number, it is part of the program")
    check_number("dropout", dropout, least=0, below=1)
    if not isinstance(hidden, Sequence):
        raise InputError(
            f"hidden = {hidden!r}: expected the units of each hidden layer, as (64, 30)"
        )
    check_count("inputs", inputs, least=1)
    check_count("classes", classes, least=1)
    for width in hidden:
        check_count("model.hidden", width, least=1)
    return _mlp((inputs, *hidden, classes), float(dropout))


@functools.cache
def _mlp(widths: tuple[int, ...], dropout: float) -> Model:
    """Return the model itself, one for each set of checked arguments."""

    def init(key: Array) -> tuple[Layer, ...]:
        keys = jax.random.split(key, len(widths) - 1)
        return tuple(_dense(k, n, m) for k, n, m in zip(keys, widths, widths[1:], strict=False))

    def apply(params: tuple[Layer, ...], x: Array, key: Array | None = None) -> Array:
        h = x.reshape(len(x), -1)
        for depth, layer in enumerate(params[:-1]):
            h = jax.nn.relu(h @ layer.weight + layer.bias)
            if depth == 0 and key is not None and dropout > 0:
                h = _drop(key, h, dropout)
        return h @ params[-1].weight + params[-1].bias

    return Model(init, apply)


def _dense(key: Array, inputs: int, outputs: int) -> Layer:
    bound = 1 / math.sqrt(inputs)
    draws = jax.random.uniform(key, (inputs + 1, outputs), minval=-bound, maxval=bound)
    return Layer(draws[:-1], draws[-1])


def _drop(key: Array, h: Array, rate: float) -> Array:
    """Zero a fraction of the units and scale the others up, so that the mean stays.

    A byte decides over a unit, four from each drawn word, which costs a quarter of the draws that
    ``jax.random.bernoulli`` makes; so the rate is taken to the nearest 1/256.
    """
    samples, units = h.shape
    words = jax.random.bits(key, (samples, -(-units // 4)), jnp.uint32)
    decisions = jax.lax.bitcast_convert_type(words, jnp.uint8).reshape(samples, -1)[:, :units]
    kept = max(round(256 * (1 - rate)), 1)
    return jnp.where(decisions < kept, h * (256 / kept), 0.0)


Precision = Literal["platform", "float32", "bfloat16"]


def with_precision(model: Model, precision: Precision) -> Model:
    """Return the model with its matrix multiplications in another precision.

    Cached, so that equal arguments give one model and one compiled program.

    Args:
        model: Any model with float32 parameters.
        precision: ``"platform"``: as JAX multiplies float32 by default: on GPUs of NVIDIA with
            TF32, on a CPU in full. ``"float32"``: in full everywhere. ``"bfloat16"``: parameters
            and inputs are rounded to bfloat16 first, and all of the model computes in it.
    """
    if precision not in get_args(Precision):
        raise InputError(
            f"precision = {precision!r}: expected one of {', '.join(get_args(Precision))}"
        )
    return model if precision == "platform" else _with_precision(model, precision)


@functools.cache
def _with_precision(model: Model, precision: Precision) -> Model:
    def apply(params: Params, x: Array, key: Array | None = None) -> Array:
        if precision == "float32":
            with jax.default_matmul_precision("float32"):
                return model.apply(params, x, key)
        low = jax.tree.map(lambda w: w.astype(jnp.bfloat16), params)
        return model.apply(low, x.astype(jnp.bfloat16), key).astype(jnp.float32)

    return Model(model.init, apply)
