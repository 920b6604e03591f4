"""A kernel for all clients in one launch, where JAX has one client or maps over many."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_batching import custom_vmap
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from maxfl.models.gpu.program import traced_for
from maxfl.models.gpu.sizes import ADDRESSES


def over_clients(function: Callable[..., tuple[Array, ...]], *arrays: Array) -> tuple[Array, ...]:
    """Apply a function of clients, [clients, ...], to one; under ``vmap`` to all at once."""
    call = custom_vmap(lambda *arrays: _in_launches(function, *arrays))

    @call.def_vmap
    def _(clients: int, mapped: list[bool], *arrays: Array) -> tuple[tuple[Array, ...], Any]:
        of_all = (
            a if is_mapped else jnp.broadcast_to(a, (clients, *a.shape))
            for a, is_mapped in zip(arrays, mapped, strict=True)
        )
        found = call(*(a.reshape(-1, *a.shape[2:]) for a in of_all))
        return tuple(a.reshape(clients, -1, *a.shape[1:]) for a in found), (True,) * len(found)

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
    in_place: int = 0,
) -> list[Array]:
    """Run a kernel whose programs see flat arrays of one client; the grid's first axis counts.

    So many of the last results take the place of the last arrays, ``in_place``: a program has read
    of these what it needs before it stores results.
    """
    flat = [a.reshape(len(a), -1) for a in arrays]
    widths = [a.shape[1] for a in flat] + [a.shape[1] for a in results]
    blocks = [pl.BlockSpec((None, width), lambda client, *_: (client, 0)) for width in widths]

    of_arrays, of_results = len(flat) - in_place, len(results) - in_place
    aliases = {of_arrays + i: of_results + i for i in range(in_place)}

    def run(*flat: Array, interpret: bool) -> list[Array]:
        call = pl.pallas_call(
            kernel,
            out_shape=results,
            grid=grid,
            in_specs=blocks[: len(flat)],
            out_specs=blocks[len(flat) :],
            input_output_aliases=aliases,
            compiler_params=triton.CompilerParams(num_warps=warps, num_stages=stages),
            interpret=interpret,
        )
        with traced_for(interpret=interpret):
            return call(*flat)

    return jax.lax.platform_dependent(
        *flat, cpu=partial(run, interpret=True), default=partial(run, interpret=False)
    )
