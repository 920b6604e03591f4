"""Group normalisation and ReLU, an image at a time: one pass over memory forward, one backward.

    ĥ = (h − mean) / deviation,   y = relu(scale · ĥ + shift + shortcut)
    dh = (d − mean(d) − ĥ · mean(d · ĥ)) / deviation,   d = scale · dy where y > 0

with means over the pixels and channels of a group (Wu, He, ECCV 2018).
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from maxfl.models.gpu.fused import fused
from maxfl.models.gpu.launch import launch, over_clients
from maxfl.models.gpu.program import count, load, store
from maxfl.models.gpu.sizes import power_of_two


class Image(NamedTuple):
    """Sizes of an image, and what is added to its variance."""

    pixels: int
    channels: int
    groups: int
    epsilon: float

    @property
    def held(self) -> int:
        """Numbers that a program holds of it: its sizes, each up to a power of two."""
        return power_of_two(self.pixels) * power_of_two(self.channels)


def group_norm_relu(image: Image, plain: Callable[..., Array]) -> Callable[..., Array]:
    """Return the function of scale, shift [channels], h [n, ..., channels] and perhaps a shortcut.

    Args:
        image: Of which h consists, and a shortcut.
        plain: The same function in JAX.
    """

    def forward(*arguments: Array) -> tuple[Array, tuple[Array, ...]]:
        value = normalised(image, *arguments)
        has_shortcut = len(arguments) > 3
        # Without one, y is computed anew from h backward, which takes less time than reading it.
        return value, (value,) if has_shortcut else ()

    def backward(
        arguments: tuple[Array, ...], value: tuple[Array, ...], g: Array
    ) -> tuple[Array, ...]:
        scale, shift, h = arguments[:3]
        of_scale, of_shift, *others = gradients(image, scale, shift, h, g, *value)
        return of_scale.astype(scale.dtype), of_shift.astype(shift.dtype), *others

    return fused(plain, forward, backward)


def normalised(image: Image, *arguments: Array) -> Array:
    """Compute y of scale, shift, h and perhaps a shortcut."""
    return over_clients(functools.partial(_normalise, image), *arguments)[0]


def gradients(
    image: Image, scale: Array, shift: Array, h: Array, g: Array, *value: Array
) -> tuple[Array, ...]:
    """Compute the gradients of scale, shift and h; with y also what passes to a shortcut."""
    differentiate = functools.partial(_differentiate, image)
    of_scale, of_shift, *others = over_clients(differentiate, scale, shift, h, g, *value)
    return of_scale.sum(0), of_shift.sum(0), *others


@functools.partial(jax.jit, static_argnums=0)
def _normalise(image: Image, *arrays: Array) -> tuple[Array]:
    h = arrays[2]
    (found,) = _launch(image, _normalising_kernel, arrays, [_flat(h)], h.shape[:2])
    return (found.reshape(h.shape),)


@functools.partial(jax.jit, static_argnums=0)
def _differentiate(image: Image, *arrays: Array) -> tuple[Array, ...]:
    _, _, h, _, *value = arrays
    clients, n = h.shape[:2]
    sums = [jax.ShapeDtypeStruct((clients, n * image.channels), jnp.float32)] * 2
    results = [*sums, _flat(h), *(_flat(h) for _ in value)]
    kernel = _shortcut_gradient_kernel if value else _gradient_kernel
    of_scale, of_shift, *found = _launch(image, kernel, arrays, results, (clients, n))
    parts = (a.reshape(clients, n, image.channels) for a in (of_scale, of_shift))
    return *parts, *(a.reshape(h.shape) for a in found)


def _flat(h: Array) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((len(h), h.size // len(h)), h.dtype)


def _launch(image: Image, kernel: Any, arrays: Any, results: Any, grid: Any) -> list[Array]:
    warps = 8 if image.held > 4096 else 4
    return launch(functools.partial(kernel, image), arrays, results, grid, warps)


def _normalising_kernel(image: Image, scale: Any, shift: Any, h: Any, *rest: Any) -> None:
    """Normalise one image."""
    *shortcut, out = rest
    at, channel = _places(image)
    normal, _ = _normal(image, h, at)
    value = normal * _load(image, scale, channel) + _load(image, shift, channel)
    for each in shortcut:
        value += load(each, *at).astype(jnp.float32)
    store(out, *at, jnp.where(value <= 0, 0.0, value))


def _gradient_kernel(image: Image, scale: Any, shift: Any, h: Any, g: Any, *results: Any) -> None:
    """Compute the gradients of one image, and its part of those of scale and shift."""
    at, channel = _places(image)
    normal = _normal(image, h, at)
    value = normal[0] * _load(image, scale, channel) + _load(image, shift, channel)
    gradient = jnp.where(value > 0, load(g, *at).astype(jnp.float32), 0.0)
    _store_gradients(image, scale, normal, gradient, *results)


def _shortcut_gradient_kernel(
    image: Image, scale: Any, _shift: Any, h: Any, g: Any, value: Any, *results: Any
) -> None:
    """Compute them where a shortcut was added, from y, and the gradient that passes to it."""
    at, _ = _places(image)
    normal = _normal(image, h, at)
    gradient = jnp.where(load(value, *at) > 0, load(g, *at).astype(jnp.float32), 0.0)
    *others, passed = results
    store(passed, *at, gradient)
    _store_gradients(image, scale, normal, gradient, *others)


def _store_gradients(
    image: Image,
    scale: Any,
    normalised: tuple[Array, Array],
    gradient: Array,
    of_scale: Any,
    of_shift: Any,
    change: Any,
) -> None:
    """Store what follows from ĥ, the deviation, and the gradient before the ReLU."""
    (normal, deviation), (at, channel) = normalised, _places(image)
    scaled = gradient * _load(image, scale, channel)
    along = _group_mean(image, scaled * normal)
    store(change, *at, (scaled - _group_mean(image, scaled) - normal * along) / deviation)
    mine = pl.program_id(1) * image.channels + channel
    exists = channel < image.channels
    triton.store(of_scale.at[mine], (gradient * normal).sum(0), mask=exists)
    triton.store(of_shift.at[mine], gradient.sum(0), mask=exists)


def _places(image: Image) -> tuple[tuple[Array, Array, Array], Array]:
    """Return where a program's image lies: rows, columns, whether both exist; and its channels."""
    pixel = count(power_of_two(image.pixels))
    channel = count(power_of_two(image.channels))
    exists = (pixel < image.pixels)[:, None] & (channel < image.channels)[None, :]
    row = (pl.program_id(1) * image.pixels + pixel) * image.channels
    return (row, channel, exists), channel


def _normal(image: Image, h: Any, at: tuple[Array, Array, Array]) -> tuple[Array, Array]:
    """Return ĥ, 0 where there is nothing, and the deviation."""
    values = load(h, *at).astype(jnp.float32)
    centred = jnp.where(at[2], values - _group_mean(image, values), 0.0)
    deviation = jnp.sqrt(_group_mean(image, centred * centred) + image.epsilon)
    return centred / deviation, deviation


def _group_mean(image: Image, values: Array) -> Array:
    """Return the mean of each channel's group, [1, channels]."""
    each = image.channels // image.groups
    group = jax.lax.div(count(values.shape[1]), jnp.int32(each))
    is_same = group[:, None] == group[None, :]
    sums = jnp.where(is_same, values.sum(0)[:, None], 0.0).sum(0)  # as a product, NaN would spread
    return (sums / (image.pixels * each))[None, :]


def _load(image: Image, vector: Any, channel: Array) -> Array:
    found = triton.load(vector.at[channel], mask=channel < image.channels, other=0.0)
    return found.astype(jnp.float32)[None, :]
