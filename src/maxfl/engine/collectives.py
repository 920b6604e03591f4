"""Collectives over the client axis: devices share out clients, and gather or sum results.

Between processes every exchange costs milliseconds, however small, so that all leaves of a type
travel together. Within one they don't: packing costs a tenth of a round's time, since weights then
can't have the layout in memory that is best for products.
"""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from maxfl.distributed.processes import is_distributed
from maxfl.engine.layout import CLIENT, Layout

T = TypeVar("T")


def scatter(items: Array, turns: int, width: int) -> Array:
    """Return this device's share of some items, [turns, width], padded with zeros at the end."""
    devices = jax.lax.axis_size(CLIENT)
    padded = jnp.pad(items, (0, devices * turns * width - len(items)))
    return padded.reshape(devices, turns, width)[jax.lax.axis_index(CLIENT)]


def map_chunks(function: Callable[..., Any], items: Any, width: int) -> Any:
    """Map over the leading axis, ``width`` at once. One at once adds no batch axis."""
    if width == 1:
        return jax.lax.map(function, items)
    return jax.lax.map(function, items, batch_size=width)


def map_clients(function: Callable[[Array], T], clients: int, width: int) -> T:
    """Map over clients 0 to ``clients`` − 1, ``width`` at once; devices share the work."""
    turns = -(-clients // (jax.lax.axis_size(CLIENT) * width))
    share = scatter(jnp.arange(clients), turns, width)
    found = map_chunks(function, share.reshape(-1), width)
    each = all_gather(jax.tree.map(lambda a: a.reshape(turns, width, *a.shape[1:]), found))
    return jax.tree.map(lambda a: a[:clients], each)


def map_models(layout: Layout, function: Callable[[Any], T], params: Any) -> T:
    """Map over the models of a portfolio: all at once, unless everything goes one by one."""
    return jax.lax.map(function, params) if layout.is_sequential else jax.vmap(function)(params)


def all_gather(tree: T) -> T:
    """Gather leaves [turns, width, ...] of every device to [devices · turns · width, ...]."""
    if is_distributed():
        return _together(tree, 2, lambda rows: jax.lax.all_gather(rows, CLIENT, tiled=True))
    everyone = jax.lax.all_gather(tree, CLIENT)
    return jax.tree.map(lambda a: a.reshape(math.prod(a.shape[:3]), *a.shape[3:]), everyone)


def all_sum(tree: T) -> T:
    """Sum over the devices, leaf by leaf."""
    if not is_distributed():
        return jax.lax.psum(tree, CLIENT)
    sums = _together(tree, 0, lambda rows: jax.lax.psum(rows, CLIENT))
    return jax.tree.map(lambda leaf: leaf[0], sums)


def _together(tree: Any, lead: int, exchange: Callable[[Array], Array]) -> Any:
    """Exchange leaves as rows: their first ``lead`` axes become one, which may grow by it."""
    leaves, structure = jax.tree.flatten(tree)
    rows = [
        leaf.reshape(math.prod(leaf.shape[:lead]), math.prod(leaf.shape[lead:])) for leaf in leaves
    ]
    for kind in dict.fromkeys(row.dtype for row in rows):  # in the same order everywhere
        same = [i for i, row in enumerate(rows) if row.dtype == kind]
        ends = np.cumsum([rows[i].shape[1] for i in same])[:-1]
        whole = exchange(jnp.concatenate([rows[i] for i in same], axis=1))
        for i, part in zip(same, jnp.split(whole, ends, axis=1), strict=True):
            rows[i] = part
    shaped = (
        row.reshape(len(row), *leaf.shape[lead:]) for row, leaf in zip(rows, leaves, strict=True)
    )
    return jax.tree.unflatten(structure, shaped)
