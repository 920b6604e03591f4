"""Low-rank adapters: the base stays as it is, and each client trains two thin matrices of each.

LoRA (Hu et al., ICLR 2022, arXiv:2106.09685): W + (α / rank) A B, with A random and B zero at
first, so that training starts from the base model.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from maxfl.core.model import Model, Params, Variables
from maxfl.models.low_rank import RULES, LowRank, Thin
from maxfl.models.rewrite import Rewriter
from maxfl.utils.errors import InputError, check_count, check_number

Where = Callable[[str, Any], bool] | str | None
"""Which parameters get an adapter: ``where(path, array)``, or a regular expression of paths."""


class Adapter(NamedTuple):
    """What is trained for one array [*rows, *columns] of the base.

    Attributes:
        A: [*rows, rank].
        B: [rank, *columns].
    """

    A: Array
    B: Array


def lora(
    model: Model,
    rank: int,
    where: Where = None,
    *,
    params: Params,
    alpha: float | None = None,
) -> Model:
    """Return a model of which only low-rank adapters are trained.

    Its parameters are ``{path: Adapter(A, B)}``; those of the base are ``frozen``: shared by all
    clients and never sent. No client's W + A B is formed: products of x with W become x · W +
    (x · A) · B, so that the base is multiplied once for all clients. That holds for products of any
    axes of W, also transposed, reshaped, cut or converted first, for the rows of an embedding, and
    inside of ``jit``, ``jax.checkpoint``, loops and branches. A W that is used otherwise, as by
    ``jax.lax.conv_general_dilated``, is formed for each client: correct, but it costs the memory of
    W for each. For convolutions give ``maxfl.fast_convolutions(model)``.

    Two calls give two models, each with its own compiled programs: make it once.

    Args:
        model: The base, of any kind; with state (BatchNorm), the state stays the clients'.
        rank: Columns of A and rows of B.
        where: Which parameters get an adapter: a function of the path, as "blocks/0/query", and the
            array, or a regular expression that is searched in the path. By default all arrays of
            two or more axes. One with more than two is cut into rows and columns where both are
            nearest in size.
        params: The base's parameters, as ``model.init`` or training gives them.
        alpha: α; rank by default, for a factor of 1.
    """
    check_count("rank", rank, least=1)
    alpha = float(rank) if alpha is None else alpha
    check_number("alpha", alpha, above=0)
    if model.frozen is not None:
        raise InputError(
            "the model has frozen parameters already: make adapters of its base model, or merge "
            "those that it has with maxfl.merge_lora"
        )
    state = params.state if isinstance(params, Variables) else None
    frozen = params.params if isinstance(params, Variables) else params
    chosen = _choose(frozen, where)

    def init(key: Array) -> Params:
        keys = jax.random.split(key, len(chosen))
        adapters = {
            path: _draw(k, place, rank)
            for k, (path, place) in zip(keys, chosen.items(), strict=True)
        }
        return adapters if state is None else Variables(adapters, state)

    apply = _AdaptedApply(model, chosen, alpha / rank)
    name = f"{model.name or 'model'} with adapters of rank {rank}"
    kept = model.loss, model.metrics, frozen, model.keep_local, model.tokens
    return Model(init, apply, *kept, name=name)


def merge_lora(model: Model, params: Params) -> Params:
    """Return parameters of the base model, with the adapters added: W + (α / rank) A B.

    Args:
        model: As ``maxfl.lora`` made it.
        params: Its trained parameters, of one configuration.
    """
    if not isinstance(model.apply, _AdaptedApply):
        raise InputError("the model has no adapters: give the one that maxfl.lora returned")
    adapters, merge = _adapters(params), model.apply.stand_ins
    expected = jax.eval_shape(lambda key: _adapters(model.init(key)), jax.random.key(0))
    if [a.shape for a in jax.tree.leaves(adapters)] != [a.shape for a in jax.tree.leaves(expected)]:
        raise InputError(
            "params are not those of one model: of a history take a configuration first, "
            "jax.tree.map(lambda a: a[0], history.params)"
        )
    merged = jax.tree.map(
        lambda w: w.formed() if isinstance(w, LowRank) else w,
        merge(adapters, model.frozen),
        is_leaf=lambda w: isinstance(w, LowRank),
    )
    return Variables(merged, params.state) if isinstance(params, Variables) else merged


class _Place(NamedTuple):
    """Where an array is cut into rows and columns."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class _AdaptedApply:
    """Applies the base with low-rank stand-ins for the chosen parameters."""

    model: Model
    chosen: dict[str, _Place]
    factor: float

    def __call__(
        self, params: Params, x: Array, key: Array | None = None, *, frozen: Any = None
    ) -> Any:
        adapted = self.stand_ins(_adapters(params), frozen)
        like = frozen
        if isinstance(params, Variables):
            adapted, like = Variables(adapted, params.state), Variables(frozen, params.state)
        return _BY_RANK(self.model.apply, (like, x, key), (adapted, x, key))

    def stand_ins(self, adapters: dict[str, Adapter], frozen: Any) -> Any:
        """Return the base's parameters with ``LowRank`` in the chosen places."""

        def adapt(path: Any, base: Array) -> Any:
            adapter, place = adapters.get(_name(path)), self.chosen.get(_name(path))
            if adapter is None or place is None:
                return base
            count = len(place.rows)
            up = jnp.moveaxis(adapter.B, 0, -1) * self.factor
            return LowRank(
                base,
                Thin(adapter.A.astype(base.dtype), tuple(range(count))),
                Thin(up.astype(base.dtype), tuple(range(count, base.ndim))),
            )

        return jax.tree_util.tree_map_with_path(adapt, frozen)


_BY_RANK = Rewriter(RULES)


def _adapters(params: Params) -> dict[str, Adapter]:
    return params.params if isinstance(params, Variables) else params


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")


def _choose(params: Any, where: Where) -> dict[str, _Place]:
    leaves = [(_name(p), leaf) for p, leaf in jax.tree_util.tree_leaves_with_path(params)]
    wide = {
        name: leaf
        for name, leaf in leaves
        if leaf.ndim >= 2 and jnp.issubdtype(leaf.dtype, jnp.floating)
    }
    if isinstance(where, str):
        chosen = {name: leaf for name, leaf in wide.items() if re.search(where, name)}
    else:
        chosen = {n: leaf for n, leaf in wide.items() if where is None or where(n, leaf)}
    if not chosen:
        raise InputError(
            f"where = {where!r:.60} chooses none of the model's matrices; there are "
            f"{', '.join(wide) or 'none'}"
        )
    return {name: _cut(leaf.shape) for name, leaf in chosen.items()}


def _cut(shape: tuple[int, ...]) -> _Place:
    """Cut a shape into rows and columns of nearly equal sizes."""
    at = min(
        range(1, len(shape)),
        key=lambda k: abs(math.log(max(math.prod(shape[:k]), 1) / max(math.prod(shape[k:]), 1))),
    )
    return _Place(shape[:at], shape[at:])


def _draw(key: Array, place: _Place, rank: int) -> Adapter:
    """Draw A with variance 1 / rows; B is zero."""
    scale = 1 / math.sqrt(math.prod(place.rows))
    return Adapter(
        scale * jax.random.normal(key, (*place.rows, rank)), jnp.zeros((rank, *place.columns))
    )
