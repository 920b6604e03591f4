"""Layers that models share: dense, embedding, and dropout."""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

CHUNK = 64
"""Samples that go through a model at once on a CPU, where what they become would leave its cache;
16 to 128 take the same time, 256 twice as long a sample."""


class Layer(NamedTuple):
    """A dense layer: weight [inputs, outputs], bias [outputs]."""

    weight: Array
    bias: Array


def init_dense(key: Array, inputs: int, outputs: int) -> Layer:
    """Draw weights and biases uniform in ±1/√inputs, as the framework that the paper used."""
    bound = 1 / math.sqrt(inputs)
    # Flat, as ``drop`` does: the same numbers, but short rows would be compiled at great length.
    draws = jax.random.uniform(key, ((inputs + 1) * outputs,), minval=-bound, maxval=bound)
    draws = draws.reshape(inputs + 1, outputs)
    return Layer(draws[:-1], draws[-1])


def dense(layer: Layer, h: Array) -> Array:
    """Map h [..., inputs] to [..., outputs]."""
    return h @ layer.weight + layer.bias


def init_embedding(key: Array, rows: int, width: int) -> Array:
    """Draw a table [rows, width] from a normal distribution of standard deviation 1/√width."""
    return jax.random.normal(key, (rows, width)) / math.sqrt(width)


def drop(key: Array | None, h: Array, rate: float) -> Array:
    """Zero a fraction of the units and scale the others up, so that the mean stays.

    Without a key, in evaluation mode, nothing is dropped.

    A byte decides over a unit, four from each drawn word, which costs a quarter of the draws that
    ``jax.random.bernoulli`` makes; so the rate is taken to the nearest 1/256.
    """
    if key is None or survivors(rate) == 256:
        return h
    return drop_by(dropout_decisions(key, h.shape), h, rate)


def survivors(rate: float) -> int:
    """Return how many of 256 units are not dropped."""
    return max(round(256 * (1 - rate)), 1)


def dropout_decisions(key: Array, shape: tuple[int, ...]) -> Array:
    """Draw a byte for each unit, uint8[shape]; it survives if that is less than ``survivors``."""
    samples, units = shape[0], math.prod(shape[1:])
    words = jax.random.bits(key, (samples * -(-units // 4),), jnp.uint32)
    decisions = jax.lax.bitcast_convert_type(words, jnp.uint8).reshape(samples, -1)[:, :units]
    return decisions.reshape(shape)


def drop_by(decisions: Array, h: Array, rate: float) -> Array:
    """Zero the units over which bytes have decided so, and scale the others up."""
    # Scaled last: backward, XLA would write gradients before and after that.
    return jnp.where(decisions < survivors(rate), h, 0.0) * (256 / survivors(rate))


def gelu(h: Array) -> Array:
    """Apply the Gaussian error linear unit, by tanh (Hendrycks, Gimpel, 2016).

    An accelerator computes it anew backward, which takes less time than to write and read it.
    """
    return jax.nn.gelu(h) if jax.default_backend() == "cpu" else jax.checkpoint(jax.nn.gelu)(h)


def in_chunks(function: Callable[[Array], Array], x: Array) -> Array:
    """Apply a function of samples [n, ...], on a CPU to ``CHUNK`` of them after another."""
    whole = len(x) // CHUNK * CHUNK

    def chunked(x: Array) -> Array:
        parts = jax.lax.map(function, x[:whole].reshape(-1, CHUNK, *x.shape[1:]))
        outputs = parts.reshape(whole, *parts.shape[2:])
        return outputs if whole == len(x) else jnp.concatenate([outputs, function(x[whole:])])

    if len(x) <= CHUNK:
        return function(x)
    return jax.lax.platform_dependent(x, cpu=chunked, default=function)
