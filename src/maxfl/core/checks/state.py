"""Find state that a model computes and nobody takes, in the programs that it traces to.

All arguments are arrays, or their shapes and types: nothing is computed.
"""

import hashlib
from collections.abc import Callable, Sequence
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
    if all(_is_variable(v) and v in jaxpr.invars for v in jaxpr.outvars):
        raise InputError(
            "the model returns its state unchanged in training mode, as a BatchNorm does that is "
            "in evaluation mode: switch it when apply gets a key (from_flax(train_argument=...)); "
            "or if it is not to change, make it frozen parameters"
        )


class _Constant(NamedTuple):
    """An array that a function closes over."""

    identity: Any


class _Uses(NamedTuple):
    """What a program reads, and what of that its outputs depend on.

    These are places among the function's inputs, or arrays that it closes over; on the way there,
    variables of the program.
    """

    read: set[Any]
    needed: set[Any]


def _uses(function: Callable[..., Any], *args: Any) -> _Uses:
    closed = jax.make_jaxpr(function)(*args)
    places: dict[Any, Any] = {v: i for i, v in enumerate(closed.jaxpr.invars)}
    found = _trace_back(closed.jaxpr, closed.consts, [True] * len(closed.jaxpr.outvars))
    return _renamed(found, places)


def _trace_back(jaxpr: Any, consts: Sequence[Any], wanted: list[bool]) -> _Uses:
    """Follow a program from its wanted outputs back to its inputs and constants."""
    needed = {v for v, want in zip(jaxpr.outvars, wanted, strict=True) if want and _is_variable(v)}
    read = {v for v in jaxpr.outvars if _is_variable(v)}
    for equation in reversed(jaxpr.eqns):
        outputs = [v in needed for v in equation.outvars]
        called = _called(equation)
        if called is None:
            reads = {v for v in equation.invars if _is_variable(v)}
            needs = reads if any(outputs) else set()
        else:  # as jit and checkpoint: an input may matter to one of its outputs alone
            inner = _trace_back(*called, outputs)
            arguments = zip(called[0].invars, equation.invars, strict=True)
            reads, needs = _renamed(inner, {v: a for v, a in arguments if _is_variable(a)})
        read |= reads
        needed |= needs
    constants = {v: _identify(c) for v, c in zip(jaxpr.constvars, consts, strict=True)}
    inputs = {v: v for v in jaxpr.invars}
    return _renamed(_Uses(read, needed), inputs | {v: c for v, c in constants.items() if c})


def _renamed(uses: _Uses, names: dict[Any, Any]) -> _Uses:
    """Return what has a name, by that name, and the constants."""
    read, needed = (
        {found if isinstance(found, _Constant) else names.get(found) for found in part} - {None}
        for part in uses
    )
    return _Uses(read, needed)


def _identify(array: Any) -> _Constant | None:
    """Tell arrays of floats apart: JAX's by identity, NumPy's, which tracing copies, by value."""
    if np.ndim(array) == 0 or not jnp.issubdtype(array.dtype, jnp.floating):
        return None
    if isinstance(array, jax.Array):
        return _Constant(id(array))
    digest = hashlib.sha256(np.ascontiguousarray(array).data).digest()
    return _Constant((array.shape, str(array.dtype), digest))


def _called(equation: Any) -> tuple[Any, Sequence[Any]] | None:
    """Return the program and the constants that an equation calls; None if it calls none."""
    inner = [(getattr(p, "jaxpr", p), getattr(p, "consts", ())) for p in equation.params.values()]
    programs = [(program, consts) for program, consts in inner if hasattr(program, "eqns")]
    if equation.primitive.name not in CALLS or len(programs) != 1:
        return None
    (program, consts) = programs[0]
    sizes = len(program.invars), len(program.outvars)
    return (program, consts) if sizes == (len(equation.invars), len(equation.outvars)) else None


def _is_variable(value: Any) -> bool:
    return not hasattr(value, "val")


def _name(place: Any, params: Any) -> str:
    """Return a parameter's path, or say that it is none."""
    if isinstance(place, _Constant):
        return "an array that apply closes over"
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)]
    return f"params{paths[place]}" if place < len(paths) else "a frozen parameter"
