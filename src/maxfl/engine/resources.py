"""How much memory a run will take, predicted before it starts, so that what runs at once fits."""

from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from maxfl.core.algorithm import Algorithm
from maxfl.core.federation import Federation
from maxfl.core.model import Model
from maxfl.engine.layout import Rows
from maxfl.engine.local import batch_gradient, decode, sample_losses
from maxfl.engine.spec import Evaluation, Personal

ROOM = 0.7
"""Share of the free memory that predictions may fill: compilers keep more than they must."""


SORTED = 6
"""Copies of a gathered update that a robust rule makes at most: cleaned, in order, with weights."""


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
    gathered: int,
) -> Footprint:
    """Predict from the shapes of everything that is computed; nothing is computed.

    ``gathered`` is the number of updates that a robust rule holds at a time.
    """
    key = jax.eval_shape(lambda: jax.random.key(0))
    params = jax.eval_shape(model.init, key)
    memory = jax.eval_shape(algorithm.memory, params)
    shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), federation.train)
    number = jax.ShapeDtypeStruct((), jnp.int32)

    def gradient(client: Any, key: Any, w: Any, draw: Any, train: Any) -> Any:
        one = partial(batch_gradient, model, federation.decoding, train, client, batch_size)
        return one(key, w, draw)

    # Clients draw different rows: nothing but the data is shared by them.
    step = _intermediates(gradient, (number, key, params, number, shapes), own=4)
    state = _bytes(params) + federation.seen * _bytes(memory)
    shown = len(Evaluation._fields) + len(Personal._fields)
    return Footprint(
        data=_bytes(federation[:2]),
        configuration=4 * state
        + SORTED * gathered * (_bytes(params) + _bytes(memory))
        + _losses(federation, model, params, rows.everyone, own=1)
        + 4 * shown * evaluations * federation.clients,
        client=step + _losses(federation, model, params, rows.client, own=3) + 6 * _bytes(params),
    )


def fits(own: Footprint, cohort: int, free: int) -> Fits:
    """How much fits into so many bytes; at least one of each."""
    room = ROOM * free - own.data
    clients = max(1, min(cohort, int((room - own.configuration) // own.client)))
    return Fits(max(1, int(room // (own.configuration + clients * own.client))), clients)


def _losses(federation: Federation, model: Model, params: Any, samples: int, own: int) -> int:
    """Bytes on the way to the losses of so many samples; ``own`` of (w, x, y) are a model's own."""
    features = federation.train.x.shape[1:]
    x = jax.ShapeDtypeStruct((samples, *features), federation.train.x.dtype)
    y = jax.ShapeDtypeStruct((samples,), jnp.int32)

    def losses(w: Any, x: Any, y: Any) -> Any:
        return sample_losses(model, w, decode(federation.decoding, x), y)

    return _intermediates(losses, (params, x, y), own)


def _intermediates(function: Any, args: tuple[Any, ...], own: int) -> int:
    """Most bytes of a function's values at a time, freed after their last use.

    Values that do not depend on the first ``own`` arguments are computed once for all, and don't
    count. What the compiler fuses never reaches memory: an upper bound.
    """
    jaxpr = jax.make_jaxpr(function)(*args).jaxpr
    counted = sum(len(jax.tree.leaves(a)) for a in args[:own])
    return _peak(jaxpr, [i < counted for i in range(len(jaxpr.invars))])


def _peak(jaxpr: Any, own: list[bool]) -> int:
    """Most bytes alive at a time in a program, and in those that it calls, given whose inputs."""
    mine = {v for v, is_own in zip(jaxpr.invars, own, strict=True) if is_own}
    last = {v: i for i, e in enumerate(jaxpr.eqns) for v in e.invars if not _is_literal(v)}
    last |= dict.fromkeys((v for v in jaxpr.outvars if not _is_literal(v)), len(jaxpr.eqns))
    alive: dict[Any, int] = {}
    most = 0
    for i, equation in enumerate(jaxpr.eqns):
        given = [not _is_literal(v) and v in mine for v in equation.invars]
        if not any(given):
            continue
        mine.update(equation.outvars)
        alive |= {v: _size(v.aval) for v in equation.outvars}
        called = [p for p in _flat(equation.params.values()) if hasattr(p, "eqns")]
        inner = max((_peak(c, _passed(given, c)) for c in called), default=0)
        most = max(most, sum(alive.values()) + inner)
        alive = {v: size for v, size in alive.items() if last.get(v, i) > i}
    return most


def _passed(given: list[bool], called: Any) -> list[bool]:
    """Whose the inputs of a called program are; all the caller's, where they do not match."""
    return given if len(given) == len(called.invars) else [True] * len(called.invars)


def _is_literal(value: Any) -> bool:
    return hasattr(value, "val")


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
