"""Gradients of layer normalisation in one pass over memory, with what passes beside it.

    ĥ = (h − mean) / deviation,   y = scale · ĥ + shift
    dh = dx + (d − mean(d) − ĥ · mean(d · ĥ)) / deviation,   d = scale · dy

with means over features (Ba, Kiros, Hinton, 2016), x = h and dx its gradient. XLA computes y in one
pass, too, but its gradients in five.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from maxfl.models.gpu.fused import fused
from maxfl.models.gpu.launch import launch, over_clients
from maxfl.models.gpu.program import count, load, store
from maxfl.models.gpu.sizes import power_of_two

HELD = 4096
"""Numbers that a program holds: some rows of features."""

Pair = tuple[Array, Array]


def layer_norm_beside(epsilon: float, plain: Callable[..., Pair]) -> Callable[..., Pair]:
    """Return the function of scale, shift [features] and h [..., features] that gives h and y.

    Args:
        epsilon: What is added to the variance.
        plain: The same function in JAX.
    """

    def forward(*arguments: Array) -> tuple[Pair, tuple[()]]:
        return plain(*arguments), ()

    def backward(arguments: tuple[Array, ...], _: tuple[()], g: Pair) -> tuple[Array, ...]:
        scale, shift, h = arguments
        of_scale, of_shift, change = gradients(epsilon, scale, h, *g)
        return of_scale.astype(scale.dtype), of_shift.astype(shift.dtype), change

    return fused(plain, forward, backward)


def gradients(
    epsilon: float, scale: Array, h: Array, passed: Array, g: Array
) -> tuple[Array, Array, Array]:
    """Compute the gradients of scale, shift and h from those of x and y."""
    differentiate = functools.partial(_differentiate, epsilon)
    parts, change = over_clients(differentiate, scale, h, passed, g)
    of_scale, of_shift = parts.sum(0)
    return of_scale, of_shift, change


@functools.partial(jax.jit, static_argnums=0)
def _differentiate(epsilon: float, *arrays: Array) -> tuple[Array, ...]:
    h = arrays[1]
    clients, features = len(h), h.shape[-1]
    rows = h.size // (clients * features)
    at_once = max(HELD // power_of_two(features), 1)
    parts = pl.cdiv(rows, at_once)
    results = [
        jax.ShapeDtypeStruct((clients, parts * 2 * features), jnp.float32),
        jax.ShapeDtypeStruct((clients, rows * features), h.dtype),
    ]
    kernel = functools.partial(_gradient_kernel, epsilon, rows, features, at_once)
    sums, change = launch(kernel, arrays, results, (clients, parts))
    return sums.reshape(clients, parts, 2, features), change.reshape(h.shape)


def _gradient_kernel(
    epsilon: float,
    rows: int,
    features: int,
    at_once: int,
    scale: Any,
    h: Any,
    passed: Any,
    g: Any,
    sums: Any,
    change: Any,
) -> None:
    """Compute the gradients of some rows, and their part of those of scale and shift."""
    part = pl.program_id(1)
    row, feature = part * at_once + count(at_once), count(power_of_two(features))
    is_feature = feature < features
    exists = (row < rows)[:, None] & is_feature[None, :]
    at = row * features, feature, exists

    def mean(values: Array) -> Array:
        return (values.sum(1) / features)[:, None]

    values = load(h, *at).astype(jnp.float32)
    centred = jnp.where(exists, values - mean(values), 0.0)
    deviation = jnp.sqrt(mean(centred * centred) + epsilon)
    normal = centred / deviation
    gradient = load(g, *at).astype(jnp.float32)
    scales = triton.load(scale.at[feature], mask=is_feature, other=0.0).astype(jnp.float32)
    scaled = gradient * scales[None, :]
    inner = (scaled - mean(scaled) - normal * mean(scaled * normal)) / deviation
    store(change, *at, load(passed, *at).astype(jnp.float32) + inner)
    of_scale = part * 2 * features + feature
    triton.store(sums.at[of_scale], (gradient * normal).sum(0), mask=is_feature)
    triton.store(sums.at[of_scale + features], gradient.sum(0), mask=is_feature)
