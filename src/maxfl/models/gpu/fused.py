"""Functions of one client that are computed by kernels, for all clients in one launch."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_batching import custom_vmap
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from maxfl.models.gpu.sizes import ADDRESSES


def fused(
    plain: Callable[..., Array],
    forward: Callable[..., tuple[Array, Any]],
    backward: Callable[..., tuple[Array, ...]],
) -> Callable[..., Array]:
    """Return a function that kernels compute, with its gradient.

    Args:
        plain: The function itself, in JAX, by which its second derivatives are computed.
        forward: Returns its value, and what ``backward`` needs beside the arguments.
        backward: Returns the gradients of a tuple of arguments, from them, that, and the gradient
            of the value.
    """

    @jax.custom_vjp
    def gradients(arguments: tuple[Array, ...], more: Any, g: Array) -> tuple[Array, ...]:
        return backward(arguments, more, g)

    def second(saved: Any, change: tuple[Array, ...]) -> tuple[Any, None, Array]:
        arguments, g = saved
        _, back = jax.vjp(lambda arguments, g: jax.vjp(plain, *arguments)[1](g), arguments, g)
        of_arguments, of_g = back(change)
        return of_arguments, None, of_g

    # What is saved calls the function itself, not its kernel: that is differentiated too.
    gradients.defvjp(lambda a, more, g: (gradients(a, more, g), (a, g)), second)

    @jax.custom_vjp
    def function(*arguments: Array) -> tuple[Array, Any]:
        return forward(*arguments)

    def save(*arguments: Array) -> tuple[tuple[Array, Any], Any]:
        found = function(*arguments)
        return found, (arguments, found[1])

    function.defvjp(save, lambda saved, change: gradients(*saved, change[0]))
    return lambda *arguments: function(*arguments)[0]


def over_clients(function: Callable[..., tuple[Array, ...]], *arrays: Array) -> tuple[Array, ...]:
    """Apply a function of clients, [clients, ...], to one; under ``vmap`` to all at once."""
    call = custom_vmap(lambda *arrays: _in_launches(function, *arrays))

    @call.def_vmap
    def _(count: int, mapped: list[bool], *arrays: Array) -> tuple[tuple[Array, ...], Any]:
        of_all = (
            a if is_mapped else jnp.broadcast_to(a, (count, *a.shape))
            for a, is_mapped in zip(arrays, mapped, strict=True)
        )
        found = call(*(a.reshape(-1, *a.shape[2:]) for a in of_all))
        return tuple(a.reshape(count, -1, *a.shape[1:]) for a in found), (True,) * len(found)

    found = call(*(a.reshape(1, *a.shape) for a in arrays))
    return tuple(a.reshape(a.shape[1:]) for a in found)


def _in_launches(function: Callable[..., tuple[Array, ...]], *arrays: Array) -> tuple[Array, ...]:
    """Apply the function to as many clients at once as addresses reach; they do reach one."""
    clients = len(arrays[0])
    largest = max(a.size // clients for a in (*arrays, *jax.eval_shape(function, *arrays)))
    most = max((ADDRESSES - 1) // largest, 1)
    if clients <= most:
        return function(*arrays)
    parts = [
        function(*(a[start : start + most] for a in arrays)) for start in range(0, clients, most)
    ]
    return tuple(jnp.concatenate(each) for each in zip(*parts, strict=True))


def launch(
    kernel: Callable[..., None],
    arrays: Sequence[Array],
    results: Sequence[jax.ShapeDtypeStruct],
    grid: tuple[int, ...],
    warps: int = 4,
    stages: int = 1,
) -> list[Array]:
    """Run a kernel whose programs see flat arrays of one client; the grid's first axis counts."""
    flat = [a.reshape(len(a), -1) for a in arrays]
    widths = [a.shape[1] for a in flat] + [a.shape[1] for a in results]
    blocks = [pl.BlockSpec((None, width), lambda client, *_: (client, 0)) for width in widths]

    def run(*flat: Array, interpret: bool) -> list[Array]:
        return pl.pallas_call(
            kernel,
            out_shape=results,
            grid=grid,
            in_specs=blocks[: len(flat)],
            out_specs=blocks[len(flat) :],
            compiler_params=triton.CompilerParams(num_warps=warps, num_stages=stages),
            interpret=interpret,
        )(*flat)

    return jax.lax.platform_dependent(
        *flat, cpu=partial(run, interpret=True), default=partial(run, interpret=False)
    )


def load(table: Any, row: Array, column: Array, exists: Array) -> Array:
    """Load a flat table at row + column, [rows, columns]; 0 where there is nothing."""
    index = row[:, None] + column[None, :]
    return triton.load(table.at[index], mask=exists, other=jnp.zeros((), table.dtype))


def store(table: Any, row: Array, column: Array, exists: Array, values: Array) -> None:
    """Store values in a flat table at row + column, where there is something."""
    index = row[:, None] + column[None, :]
    triton.store(table.at[index], values.astype(table.dtype), mask=exists)


def multiply(a: Array, b: Array) -> Array:
    """Multiply matrices, with sums in float32."""
    return jnp.dot(a, b, preferred_element_type=jnp.float32)


def count(size: int) -> Array:
    """Return 0, 1, 2, ... in the type of addresses."""
    return jnp.arange(size, dtype=jnp.int32)


def larger(a: Array, b: Array) -> Array:
    """Return the larger of two, NaN where one is; ``jnp.maximum`` loses it in a Triton kernel."""
    return jnp.where((a > b) | (a != a), a, b)


def divide(number: Array, size: int) -> tuple[Array, Array]:
    """Return quotient and remainder; ``//`` and ``%`` would round down, which takes longer."""
    if size == 1:
        return number, jnp.zeros_like(number)
    return jax.lax.div(number, jnp.int32(size)), jax.lax.rem(number, jnp.int32(size))
