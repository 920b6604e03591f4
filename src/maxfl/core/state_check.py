"""Find state that a model computes and nobody takes, in the programs that it traces to.

All arguments are arrays, or their shapes and types: nothing is computed.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from maxfl.core.model import Model, Variables
from maxfl.utils.errors import InputError

CALLS = {"jit", "pjit", "closed_call", "checkpoint", "remat", "remat2", "custom_jvp_call"}
"""Primitives that call a program once, with their own inputs and outputs."""


def check_state_is_taken(model: Model, params: Any, x: Any, key: Any) -> None:
    """Refuse a model whose new state is computed in training and taken by nobody.

    A BatchNorm in a wrapper that drops its running statistics gives itself away: an array, of the
    parameters or closed over, that evaluation needs, and that training reads without any effect on
    its outputs.
    """
    evaluated = _uses(lambda p, x, frozen: model.outputs(p, x, frozen), params, x, model.frozen)
    trained = _uses(
        lambda p, x, frozen, key: model.training_outputs(p, x, key, frozen),
        params, x, model.frozen, key,
    )  # fmt: skip
    dropped = [name for name in evaluated.needed if name in trained.read - trained.needed]
    if dropped:
        raise InputError(
            f"the model computes new state in training mode that nobody takes, as a BatchNorm "
            f"does whose statistics are dropped ({_name(dropped[0], params)}): let init return "
            f"maxfl.Variables(params, state) and apply (outputs, new state), or use "
            f"maxfl.from_flax, from_nnx or from_equinox"
        )


def check_state_moves(model: Model, params: Any, x: Any, key: Any) -> None:
    """Refuse a model that returns its state as it was, as one does that is in evaluation mode."""
    if not isinstance(params, Variables) or not jax.tree.leaves(params.state):
        return

    def new_state(params: Any, x: Any, key: Any, frozen: Any) -> Any:
        return model.training_outputs(params, x, key, frozen)[1]

    jaxpr = jax.make_jaxpr(new_state)(params, x, key, model.frozen).jaxpr
    if set(jaxpr.outvars) <= set(jaxpr.invars):
        raise InputError(
            "the model returns its state unchanged in training mode, as a BatchNorm does that is "
            "in evaluation mode: switch it when apply gets a key (from_flax(train_argument=...)); "
            "or if it is not to change, make it frozen parameters"
        )


class _Uses(NamedTuple):
    """Arrays that a function reads, and those of them that its outputs depend on.

    Numbers are places among the function's inputs; other arrays are known by their identity.
    """

    read: set[Any]
    needed: set[Any]


def _uses(function: Callable[..., Any], *args: Any) -> _Uses:
    closed = jax.make_jaxpr(function)(*args)
    jaxpr = closed.jaxpr
    names = {v: i for i, v in enumerate(jaxpr.invars)}
    names |= {
        v: ("closed over", id(c))
        for v, c in zip(jaxpr.constvars, closed.consts, strict=True)
        if np.ndim(c) > 0 and jnp.issubdtype(c.dtype, jnp.floating)
    }
    read, needed = _trace_back(jaxpr, [True] * len(jaxpr.outvars))
    return _Uses({names[v] for v in read if v in names}, {names[v] for v in needed if v in names})


def _trace_back(jaxpr: Any, wanted: list[bool]) -> tuple[set[Any], set[Any]]:
    """Return the variables that a program reads, and those that its wanted outputs depend on."""
    needed = {v for v, want in zip(jaxpr.outvars, wanted, strict=True) if want and _is_variable(v)}
    read = {v for v in jaxpr.outvars if _is_variable(v)}
    for equation in reversed(jaxpr.eqns):
        outputs = [v in needed for v in equation.outvars]
        inner = _called(equation)
        if inner is None:
            reads = {v for v in equation.invars if _is_variable(v)}
            needs = reads if any(outputs) else set()
        else:  # as jit and checkpoint: an input may matter to one of its outputs alone
            names = dict(zip(inner.invars, equation.invars, strict=True))
            reads, needs = (
                {names[v] for v in found if v in names and _is_variable(names[v])}
                for found in _trace_back(inner, outputs)
            )
        read |= reads
        needed |= needs
    return read, needed


def _called(equation: Any) -> Any:
    """Return the program that an equation calls with its inputs and outputs; None if none."""
    inner = [getattr(p, "jaxpr", p) for p in equation.params.values()]
    programs = [p for p in inner if hasattr(p, "eqns")]
    same = [
        p
        for p in programs
        if (len(p.invars), len(p.outvars)) == (len(equation.invars), len(equation.outvars))
    ]
    is_call = equation.primitive.name in CALLS
    return same[0] if is_call and len(same) == len(programs) == 1 else None


def _is_variable(value: Any) -> bool:
    return not hasattr(value, "val")


def _name(place: Any, params: Any) -> str:
    """Return a parameter's path, or say that it is none."""
    if isinstance(place, tuple):
        return "an array that apply closes over"
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)]
    return f"params{paths[place]}" if place < len(paths) else "a frozen parameter"
