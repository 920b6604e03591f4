"""Models of Equinox."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
from jax import Array

from maxfl.core.losses import Loss, cross_entropy
from maxfl.core.metrics import Metric
from maxfl.core.model import Model, Params, Variables
from maxfl.models.libraries.carried_state import carry, need, restore, takes
from maxfl.utils.errors import InputError

BATCH = "batch"
"""Name of the axis of samples, for ``eqx.nn.BatchNorm(..., axis_name="batch")``."""


def from_equinox(
    make: Callable[[Array], Any],
    *,
    loss: Loss = cross_entropy,
    metrics: Mapping[str, Metric] | None = None,
    keep_local: bool = False,
    tokens: bool = False,
) -> Model:
    """Return the model of an ``eqx.Module`` that works on one sample, as Equinox's layers do.

    Parameters are a module of its float arrays, so that ``eqx.combine(params, make(key))`` is a
    trained module. Evaluation is ``eqx.nn.inference_mode``; in training a ``key`` is given where
    the module's call takes one, another for each sample. Two calls give two models, each with its
    own compiled programs: make it once.

    Args:
        make: ``make(key) -> module``; with state ``make(key) -> (module, state)``, as
            ``eqx.nn.make_with_state`` gives.
        loss: As in ``maxfl.Model``, like ``metrics``, ``keep_local`` and ``tokens``.
        metrics: See there.
        keep_local: See there.
        tokens: See there.
    """
    need("equinox", "from_equinox")
    import equinox as eqx

    if isinstance(make, eqx.Module):
        raise InputError(
            f"make = {type(make).__name__}(...): expected a function that makes the module of a "
            f"random key, as lambda key: {type(make).__name__}(..., key=key)"
        )

    def made(key: Array) -> tuple[Any, Any]:
        """Return a module and its state, None without one."""
        found = make(key)
        return found if isinstance(found, tuple) else (found, None)

    module, first_state = made(jax.random.key(0))
    like, static = eqx.partition(module, eqx.is_inexact_array)
    structure, state_structure = jax.tree.structure(like), jax.tree.structure(first_state)
    types = jax.eval_shape(lambda: tuple(jax.tree.leaves(first_state)))
    takes_key = takes(module.__call__, "key")

    def init(key: Array) -> Params:
        module, state = made(key)
        leaves = jax.tree.leaves(eqx.filter(module, eqx.is_inexact_array))
        params = jax.tree.unflatten(structure, leaves)
        return params if state is None else Variables(params, carry(tuple(jax.tree.leaves(state))))

    def apply(params: Params, x: Array, key: Array | None = None) -> Any:
        has_state = isinstance(params, Variables)
        trained, carried = params if has_state else (params, ())
        module = eqx.combine(trained, static)
        module = eqx.nn.inference_mode(module, value=key is None)
        state = jax.tree.unflatten(state_structure, restore(carried, types))
        keys = None if key is None else jax.random.split(key, len(x))

        def one(x: Array, key: Array | None) -> Any:
            given = {"key": key} if takes_key else {}
            return module(x, state, **given) if has_state else module(x, **given)

        out_axes = (0, None) if has_state else 0
        found = jax.vmap(one, (0, None if keys is None else 0), out_axes, axis_name=BATCH)(x, keys)
        if not has_state:
            return found
        outputs, state = found
        return outputs if key is None else (outputs, carry(tuple(jax.tree.leaves(state))))

    name = type(module).__name__
    return Model(init, apply, loss, metrics, keep_local=keep_local, tokens=tokens, name=name)
