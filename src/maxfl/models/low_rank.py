"""A matrix that is the sum of a shared one and a product of two thin ones, never formed.

    W = base + down · up        base: [*rows, *columns], down: [*rows, rank], up: [*columns, rank]

    x · W = x · base + (x · down) · upᵀ

The rules here compute with the three arrays what is computed with W: its product with anything, a
row of it (an embedding), its transpose, its parts, another shape or type of it.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax
from jax.extend.core import JaxprEqn, Primitive
from jax.extend.core.primitives import (
    broadcast_in_dim_p,
    convert_element_type_p,
    dot_general_p,
    gather_p,
    reshape_p,
    slice_p,
    squeeze_p,
    transpose_p,
)

from maxfl.models.rewrite import Rule, StandIn, bind, form


class Thin(NamedTuple):
    """One of the two thin matrices: [sizes of its axes of W..., rank]."""

    array: Array
    axes: tuple[int, ...]


@dataclass(frozen=True)
class LowRank(StandIn):
    """Stands for base + down · up.

    Attributes:
        base: What the others are added to, in W's shape.
        down: Thin matrix over W's rows.
        up: Thin matrix over W's columns, with the factor before the product.
    """

    base: Array
    down: Thin
    up: Thin

    def formed(self) -> Array:
        """Return W."""
        rank = self.base.ndim
        axes = [*self.down.axes, rank], [*self.up.axes, rank]
        product = jnp.einsum(self.down.array, axes[0], self.up.array, axes[1], [*range(rank)])
        return self.base + product

    def scanned(self) -> tuple[Array, Array, Array]:
        """Return the three arrays with W's first axis in front; the one without it repeats."""
        length = len(self.base)
        return self.base, _first_axis(self.down, length), _first_axis(self.up, length)

    def at_step(self, parts: tuple[Array, Array, Array]) -> "LowRank":
        """Return W's part in one step of a loop over its first axis."""
        base, down, up = parts
        return LowRank(base, _without_first(self.down, down), _without_first(self.up, up))


def _first_axis(thin: Thin, length: int) -> Array:
    if 0 in thin.axes:
        return jnp.moveaxis(thin.array, thin.axes.index(0), 0)
    return jnp.broadcast_to(thin.array, (length, *thin.array.shape))


def _without_first(thin: Thin, array: Array) -> Thin:
    return Thin(array, tuple(axis - 1 for axis in thin.axes if axis != 0))


def _multiply(equation: JaxprEqn, values: Sequence[Any]) -> list[Array] | None:
    """Multiply by base and by the thin matrices, first by the one that makes the product small."""
    side = 0 if isinstance(values[0], LowRank) else 1
    if not isinstance(values[side], LowRank):
        return None
    w: LowRank = values[side]
    x = form(values[1 - side])
    contracted, batched = equation.params["dimension_numbers"]
    shared = [*zip(contracted[1 - side], contracted[side], strict=True)]
    common = [*zip(batched[1 - side], batched[side], strict=True)]
    # Names of axes: W's are 0, 1, ...; then the rank's; then those that x has alone.
    rank = w.base.ndim
    names = dict(shared + common)
    in_x = [names.get(axis, rank + 1 + axis) for axis in range(x.ndim)]
    summed, remaining = {name for _, name in shared}, [name for _, name in common]
    free_x = [name for name in in_x if name > rank]
    free_w = [name for name in range(rank) if name not in names.values()]
    result = remaining + (free_w + free_x if side == 0 else free_x + free_w)
    first, second = sorted((w.down, w.up), key=lambda thin: -len(summed.intersection(thin.axes)))
    between = [n for n in in_x if n not in summed.intersection(first.axes)]
    between += [n for n in first.axes if n not in in_x] + [rank]
    how = {"precision": equation.params["precision"]}
    inner = jnp.einsum(x, in_x, first.array, [*first.axes, rank], between, **how)
    added = jnp.einsum(inner, between, second.array, [*second.axes, rank], result, **how)
    (product,) = bind(equation, [w.base, x] if side == 0 else [x, w.base])
    return [product + added.astype(product.dtype)]


def _gather(equation: JaxprEqn, values: Sequence[Any]) -> list[Array] | None:
    """Look up rows, as an embedding does; other gathers need W itself."""
    w, params = values[0], equation.params
    numbers = params["dimension_numbers"]
    last = len(_shape(equation)) - 1
    if not (
        isinstance(w, LowRank)
        and (w.down.axes, w.up.axes) == ((0,), (1,))
        and (numbers.collapsed_slice_dims, numbers.offset_dims) == ((0,), (last,))
        and numbers.start_index_map == (0,)
        and not numbers.operand_batching_dims
        and params["slice_sizes"] == (1, w.base.shape[1])
    ):
        return None
    (rows,) = bind(equation, [w.base, values[1]])
    thin = lax.gather(
        w.down.array, values[1], numbers, slice_sizes=(1, w.down.array.shape[1]),
        mode=params["mode"], fill_value=params["fill_value"],
    )  # fmt: skip
    return [rows + thin @ w.up.array.T]


def _transpose(equation: JaxprEqn, values: Sequence[Any]) -> list[LowRank] | None:
    (w,), order = values, equation.params["permutation"]
    if not isinstance(w, LowRank):
        return None
    down, up = (
        Thin(thin.array, tuple(order.index(axis) for axis in thin.axes)) for thin in (w.down, w.up)
    )
    return [LowRank(bind(equation, [w.base])[0], down, up)]


def _convert(equation: JaxprEqn, values: Sequence[Any]) -> list[LowRank] | None:
    (w,), dtype = values, equation.params["new_dtype"]
    if not isinstance(w, LowRank) or not jnp.issubdtype(dtype, jnp.inexact):  # rounding: not linear
        return None
    down, up = (Thin(thin.array.astype(dtype), thin.axes) for thin in (w.down, w.up))
    return [LowRank(bind(equation, [w.base])[0], down, up)]


def _slice(equation: JaxprEqn, values: Sequence[Any]) -> list[LowRank] | None:
    (w,), params = values, equation.params
    if not isinstance(w, LowRank):
        return None
    strides = params["strides"] or (1,) * w.base.ndim
    starts, ends = params["start_indices"], params["limit_indices"]
    part = [slice(*bounds) for bounds in zip(starts, ends, strides, strict=True)]
    return [_part(w, bind(equation, [w.base])[0], part)]


def _split(equation: JaxprEqn, values: Sequence[Any]) -> list[LowRank] | None:
    (w,), params = values, equation.params
    if not isinstance(w, LowRank):
        return None
    ends = [*itertools.accumulate(params["sizes"])]
    parts = [[slice(None)] * w.base.ndim for _ in ends]
    for part, size, end in zip(parts, params["sizes"], ends, strict=True):
        part[params["axis"]] = slice(end - size, end)
    return [_part(w, *both) for both in zip(bind(equation, [w.base]), parts, strict=True)]


def _part(w: LowRank, base: Array, part: list[slice]) -> LowRank:
    down, up = (
        Thin(thin.array[tuple(part[axis] for axis in thin.axes)], thin.axes)
        for thin in (w.down, w.up)
    )
    return LowRank(base, down, up)


def _reshape(equation: JaxprEqn, values: Sequence[Any]) -> list[LowRank] | None:
    """Split or join axes, unless a row axis would be joined with a column axis."""
    w, shape = values[0], _shape(equation)
    if not isinstance(w, LowRank) or math.prod(shape) != w.base.size:
        return None
    blocks = _blocks(w.base.shape, shape)
    down, up = (_reshape_thin(thin, blocks, shape) for thin in (w.down, w.up))
    if down is None or up is None:
        return None
    return [LowRank(bind(equation, [w.base])[0], down, up)]


def _shape(equation: JaxprEqn) -> tuple[int, ...]:
    return equation.outvars[0].aval.shape  # type: ignore[attr-defined]


class _Block(NamedTuple):
    """Neighbouring axes that become other neighbouring axes of the same size."""

    old: list[int]
    new: list[int]


def _blocks(old: Sequence[int], new: Sequence[int]) -> list[_Block]:
    """Return the finest blocks of axes that a reshape keeps apart."""
    found: list[_Block] = []
    ends_new = {math.prod(new[:j]): j for j in range(len(new) + 1)}
    i = j = 0
    for k in range(1, len(old) + 1):
        until = ends_new.get(math.prod(old[:k]))
        if until is not None and (math.prod(old[i:k]) > 1 or k == len(old)):
            until = len(new) if k == len(old) else until
            found.append(_Block([*range(i, k)], [*range(j, until)]))
            i, j = k, until
    return found


def _reshape_thin(thin: Thin, blocks: list[_Block], shape: Sequence[int]) -> Thin | None:
    touched = [block for block in blocks if set(block.old) & set(thin.axes)]
    if any(not set(block.old) <= set(thin.axes) for block in touched):
        return None
    old = [axis for block in touched for axis in block.old]
    new = [axis for block in touched for axis in block.new]
    ordered = jnp.moveaxis(thin.array, [thin.axes.index(axis) for axis in old], [*range(len(old))])
    return Thin(ordered.reshape(*(shape[axis] for axis in new), -1), tuple(new))


RULES: dict[Primitive, Rule] = {
    dot_general_p: _multiply,
    gather_p: _gather,
    transpose_p: _transpose,
    convert_element_type_p: _convert,
    slice_p: _slice,
    lax.split_p: _split,
    reshape_p: _reshape,
    squeeze_p: _reshape,
    broadcast_in_dim_p: _reshape,
}
