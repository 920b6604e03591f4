"""Models of Flax's NNX API."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from maxfl.core.losses import Loss, cross_entropy
from maxfl.core.metrics import Metric
from maxfl.core.model import Model, Params, Variables
from maxfl.models.libraries.carried_state import carry, need, restore, takes


def from_nnx(
    make: Callable[[Any], Any] | Any,
    *,
    loss: Loss = cross_entropy,
    metrics: Mapping[str, Metric] | None = None,
    keep_local: bool = False,
    tokens: bool = False,
) -> Model:
    """Return the model of a ``flax.nnx.Module``.

    Parameters are its ``nnx.Param``; its other variables, as BatchNorm's statistics, are the
    model's state. Training mode is ``module.train()``, with random streams that start from the
    key. Two calls give two models, each with its own compiled programs: make it once.

    Args:
        make: ``make(rngs) -> module``, as ``lambda rngs: CNN(rngs=rngs)``. Or a module, as one that
            is trained already: then ``init`` returns its parameters, whatever the key.
        loss: As in ``maxfl.Model``, like ``metrics``, ``keep_local`` and ``tokens``.
        metrics: See there.
        keep_local: See there.
        tokens: See there.
    """
    need("flax", "from_nnx")
    from flax import nnx

    is_made = isinstance(make, nnx.Module)
    module = make if is_made else nnx.eval_shape(lambda: make(nnx.Rngs(0)))
    like = _split(module)

    def init(key: Array) -> Params:
        drawn = like if is_made else _split(make(nnx.Rngs(key)))
        params, state = (nnx.to_pure_dict(part) for part in (drawn.params, drawn.state))
        return Variables(params, carry(state)) if state else params

    def apply(params: Params, x: Array, key: Array | None = None) -> Any:
        has_state = isinstance(params, Variables)
        trained, state = params if has_state else (params, {})
        seed = jax.random.key(0) if key is None else key
        module = nnx.merge(
            like.graph,
            _put(trained, like.params),
            _start_streams(seed, like.streams),
            restore(_put(state, like.state), like.state),
        )
        module.eval() if key is None else module.train()
        given = {"rngs": nnx.Rngs(seed)} if takes(module.__call__, "rngs") else {}
        outputs = module(x, **given)
        if key is None or not has_state:
            return outputs
        return outputs, carry(nnx.to_pure_dict(_split(module).state))

    name = type(module).__name__
    return Model(init, apply, loss, metrics, keep_local=keep_local, tokens=tokens, name=name)


class _Parts(NamedTuple):
    """A module's structure, and its variables by what becomes of them."""

    graph: Any
    params: Any
    streams: Any
    state: Any


def _split(module: Any) -> _Parts:
    from flax import nnx

    kinds = nnx.Param, nnx.RngState, nnx.Intermediate, ...
    graph, *states = nnx.split(module, *kinds)
    params, streams, _, state = states
    return _Parts(graph, params, streams, state)


def _put(arrays: Any, like: Any) -> Any:
    """Return arrays of nested dicts as NNX's variables; both are in the order of their names."""
    return jax.tree.unflatten(jax.tree.structure(like), jax.tree.leaves(arrays))


def _start_streams(seed: Array, like: Any) -> Any:
    """Return random streams with keys drawn from a seed, and their counts at 0."""
    leaves, structure = jax.tree.flatten(like)

    def start(i: int, leaf: Any) -> Array:
        if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return jnp.zeros(leaf.shape, leaf.dtype)
        key = jax.random.fold_in(seed, i)
        return jax.random.split(key, leaf.shape) if leaf.shape else key

    return jax.tree.unflatten(structure, [start(i, leaf) for i, leaf in enumerate(leaves)])
