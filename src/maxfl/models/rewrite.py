"""Evaluate a function with some of its primitives computed in another way.

A function is traced to a jaxpr, which is gone through equation by equation. An equation whose
primitive has a rule is computed by it; loops, branches, ``jit`` and ``jax.checkpoint`` are entered;
everything else is bound as it is. Functions with a derivative of their own (``jax.custom_jvp``,
``jax.custom_vjp``) are not entered, since a rule inside would lose that derivative.

A value may be a ``StandIn``: something cheaper than the array that it stands for. Rules know what
to do with it; where no rule does, the array is formed.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
from jax import Array
from jax.extend.core import (
    ClosedJaxpr,
    Jaxpr,
    JaxprEqn,
    Literal,
    Primitive,
    Var,
    jaxpr_as_fun,
    jaxprs_in_params,
)
from jax.extend.core.primitives import cond_p, jit_p, remat_p, scan_p, while_p

from maxfl.core.checks.convolutions import equations


class StandIn(ABC):
    """Stands for an array that need not be formed."""

    @abstractmethod
    def formed(self) -> Array:
        """Return the array."""

    @abstractmethod
    def scanned(self) -> Any:
        """Return arrays with the array's first axis, for a loop over it."""

    @abstractmethod
    def at_step(self, parts: Any) -> "StandIn":
        """Return what stands for the array's part in one step, of those of ``scanned``."""


Value = Any
"""An array or a ``StandIn``."""
Rule = Callable[[JaxprEqn, Sequence[Value]], Sequence[Value] | None]
"""``rule(equation, values) -> outputs``, or None to leave the equation as it is."""


def form(value: Value) -> Any:
    """Return the array that a value is or stands for."""
    return value.formed() if isinstance(value, StandIn) else value


@dataclass(frozen=True)
class Rewriter:
    """Evaluates functions by rules.

    Attributes:
        rules: One for each primitive that is computed in another way.
    """

    rules: Mapping[Primitive, Rule]

    def __call__(self, function: Callable[..., Any], like: Any, values: Any) -> Any:
        """Return ``function(*values)``.

        Args:
            function: A pure function of pytrees.
            like: Arguments with an array, or its shape, in the place of each ``StandIn``.
            values: The arguments, a tuple of the same structure.
        """
        closed, shape = jax.make_jaxpr(function, return_shape=True)(*like)
        leaves = jax.tree.leaves(values, is_leaf=lambda v: isinstance(v, StandIn))
        return jax.tree.unflatten(jax.tree.structure(shape), self.arrays(closed, leaves))

    def arrays(self, closed: ClosedJaxpr, values: Sequence[Value]) -> list[Array]:
        """Evaluate a jaxpr; all outputs are formed."""
        return [form(value) for value in self.evaluate(closed.jaxpr, closed.consts, values)]

    def evaluate(self, jaxpr: Jaxpr, consts: Sequence[Any], values: Sequence[Value]) -> list[Value]:
        """Evaluate a jaxpr; outputs may be stand-ins."""
        known: dict[Any, Value] = dict(
            zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *values], strict=True)
        )

        def read(atom: Any) -> Value:
            return atom.val if isinstance(atom, Literal) else known[atom]

        for equation in jaxpr.eqns:
            outputs = self._outputs(equation, [read(atom) for atom in equation.invars])
            known.update(zip(equation.outvars, outputs, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _outputs(self, equation: JaxprEqn, values: Sequence[Value]) -> Sequence[Value]:
        rule = self.rules.get(equation.primitive)
        found = None if rule is None else rule(equation, values)
        if found is not None:
            return found
        enter = _ENTERED.get(equation.primitive)
        if enter is not None and self._concerns(equation, values):
            return enter(self, equation, values)
        return bind(equation, [form(value) for value in values])

    def _concerns(self, equation: JaxprEqn, values: Sequence[Value]) -> bool:
        """Tell whether anything inside of an equation might be computed in another way."""
        return any(isinstance(value, StandIn) for value in values) or any(
            inside.primitive in self.rules
            for inner in jaxprs_in_params(equation.params)
            for inside in equations(inner)
        )


def bind(equation: JaxprEqn, values: Sequence[Any]) -> list[Any]:
    """Compute an equation as it is: JAX evaluates a jaxpr of this equation alone."""
    arguments: dict[Any, Any] = {
        atom: value
        for atom, value in zip(equation.invars, values, strict=True)
        if isinstance(atom, Var)
    }
    alone = Jaxpr((), [*arguments], equation.outvars, [equation], equation.effects, _NO_NAMES)
    return jaxpr_as_fun(ClosedJaxpr(alone, []))(*arguments.values())


_NO_NAMES = jax.make_jaxpr(lambda: ())().jaxpr.debug_info


def _enter_jit(rewriter: Rewriter, equation: JaxprEqn, values: Sequence[Value]) -> list[Value]:
    closed = equation.params["jaxpr"]
    return rewriter.evaluate(closed.jaxpr, closed.consts, values)


def _enter_remat(rewriter: Rewriter, equation: JaxprEqn, values: Sequence[Value]) -> list[Array]:
    closed = ClosedJaxpr(equation.params["jaxpr"], [])
    options = {name: equation.params[name] for name in ("prevent_cse", "policy")}
    return jax.checkpoint(lambda: rewriter.arrays(closed, values), **options)()


def _enter_scan(rewriter: Rewriter, equation: JaxprEqn, values: Sequence[Value]) -> list[Array]:
    params = equation.params
    consts, carry, xs = _split(values, params["num_consts"], params["num_carry"])

    def step(carry: list[Array], parts: list[Any]) -> tuple[list[Array], list[Array]]:
        now = [
            x.at_step(part) if isinstance(x, StandIn) else part
            for x, part in zip(xs, parts, strict=True)
        ]
        outputs = rewriter.arrays(params["jaxpr"], [*consts, *carry, *now])
        return outputs[: len(carry)], outputs[len(carry) :]

    options = {name: params[name] for name in ("length", "reverse", "unroll")}
    over = [x.scanned() if isinstance(x, StandIn) else x for x in xs]
    last, ys = jax.lax.scan(step, [form(value) for value in carry], over, **options)
    return [*last, *ys]


def _enter_while(rewriter: Rewriter, equation: JaxprEqn, values: Sequence[Value]) -> list[Array]:
    params = equation.params
    for_test, for_body, carry = _split(values, params["cond_nconsts"], params["body_nconsts"])
    return jax.lax.while_loop(
        lambda carry: rewriter.arrays(params["cond_jaxpr"], [*for_test, *carry])[0],
        lambda carry: rewriter.arrays(params["body_jaxpr"], [*for_body, *carry]),
        [form(value) for value in carry],
    )


def _enter_cond(rewriter: Rewriter, equation: JaxprEqn, values: Sequence[Value]) -> list[Array]:
    index, *operands = values

    def taken(branch: ClosedJaxpr) -> Callable[[], list[Array]]:
        return lambda: rewriter.arrays(branch, operands)

    return jax.lax.switch(index, [taken(branch) for branch in equation.params["branches"]])


def _split(
    values: Sequence[Value], first: int, second: int
) -> tuple[list[Value], list[Value], list[Value]]:
    end = first + second
    return [*values[:first]], [*values[first:end]], [*values[end:]]


_ENTERED: dict[Primitive, Callable[[Rewriter, JaxprEqn, Sequence[Value]], list[Value]]] = {
    jit_p: _enter_jit,
    remat_p: _enter_remat,
    scan_p: _enter_scan,
    while_p: _enter_while,
    cond_p: _enter_cond,
}
