"""How much memory a run will take, predicted before it starts, so that what runs at once fits."""

import os
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from maxfl.algorithms.contract import Algorithm
from maxfl.federation import Federation
from maxfl.layout import Rows
from maxfl.local import batch_gradient, decode, sample_losses
from maxfl.model import Model
from maxfl.spec import Evaluation, Personal

ROOM = 0.7
"""Share of the free memory that predictions may fill: compilers keep more than they must."""


class Footprint(NamedTuple):
    """Predicted bytes on a device.

    Attributes:
        data: The federation's arrays, once.
        configuration: A configuration, without clients at work.
        client: A client at work.
    """

    data: int
    configuration: int
    client: int


class Fits(NamedTuple):
    """How many configurations, and clients of each, fit on a device at once."""

    configurations: int
    clients: int


def footprint(
    federation: Federation,
    model: Model,
    algorithm: Algorithm,
    batch_size: int,
    evaluations: int,
    rows: Rows,
) -> Footprint:
    """Predict from the shapes of everything that is computed; nothing is computed."""
    key = jax.eval_shape(lambda: jax.random.key(0))
    params = jax.eval_shape(model.init, key)
    memory = jax.eval_shape(algorithm.memory, params)
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), federation.train)
    number = jax.ShapeDtypeStruct((), jnp.int32)

    def gradient(train: Any, client: Any, key: Any, w: Any, draw: Any) -> Any:
        one = partial(batch_gradient, model, federation.decoding, train, client, batch_size)
        return one(key, w, draw)

    step = _intermediates(gradient, shapes, number, key, params, number)
    state = _bytes(params) + federation.seen * _bytes(memory)
    shown = len(Evaluation._fields) + len(Personal._fields)
    return Footprint(
        data=_bytes(federation[:2]),
        configuration=4 * state
        + _losses(federation, model, params, rows.everyone)
        + 4 * shown * evaluations * federation.clients,
        client=step + _losses(federation, model, params, rows.client) + 6 * _bytes(params),
    )


def fits(own: Footprint, cohort: int, free: int) -> Fits:
    """How much fits into so many bytes; at least one of each."""
    room = ROOM * free - own.data
    clients = max(1, min(cohort, int((room - own.configuration) // own.client)))
    return Fits(max(1, int(room // (own.configuration + clients * own.client))), clients)


def free_bytes(device: Any) -> int:
    """Memory that is free on a device; for a CPU, all that the machine has."""
    stats = device.memory_stats() if device.platform != "cpu" else None
    if stats:
        return int(stats["bytes_limit"] - stats["bytes_in_use"])
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _losses(federation: Federation, model: Model, params: Any, samples: int) -> int:
    """Bytes of everything on the way to the losses of so many samples."""
    features = federation.train.x.shape[1:]
    x = jax.ShapeDtypeStruct((samples, *features), federation.train.x.dtype)
    y = jax.ShapeDtypeStruct((samples,), jnp.int32)

    def losses(w: Any, x: Any, y: Any) -> Any:
        return sample_losses(model, w, decode(federation.decoding, x), y)

    return _intermediates(losses, params, x, y)


def _intermediates(function: Any, *args: Any) -> int:
    """Bytes of all values that a function computes, as if none were freed: an upper bound."""
    return _values(jax.make_jaxpr(function)(*args).jaxpr)


def _values(jaxpr: Any) -> int:
    """Bytes of a program's values, those of the functions it calls included."""
    total = 0
    for equation in jaxpr.eqns:
        called = [p for p in _flat(equation.params.values()) if hasattr(p, "eqns")]
        total += sum(_size(v.aval) for v in equation.outvars) + sum(map(_values, called))
    return total


def _flat(params: Iterable[Any]) -> list[Any]:
    """Parameters of an operation, those in tuples too, closed programs opened."""
    flat = []
    for p in params:
        flat += _flat(p) if isinstance(p, tuple | list) else [getattr(p, "jaxpr", p)]
    return flat


def _bytes(tree: Any) -> int:
    return sum(_size(leaf) for leaf in jax.tree.leaves(tree))


def _size(a: Any) -> int:
    """Bytes of an array or its shape; random keys are small enough to count as nothing."""
    itemsize = getattr(a.dtype, "itemsize", 0) if hasattr(a, "dtype") else 0
    return int(a.size) * itemsize
