"""Tell whether a model convolves in a way that is slow when each client has its own weights."""

from collections.abc import Iterator
from typing import Any

import jax
from jax.extend.core import Jaxpr, JaxprEqn, jaxprs_in_params
from jax.extend.core.primitives import (
    cond_p,
    conv_general_dilated_p,
    jit_p,
    remat_p,
    scan_p,
    while_p,
)

from maxfl.core.model import Model

ENTERED = frozenset([jit_p, remat_p, scan_p, while_p, cond_p])
"""Primitives with functions inside that may be rewritten; not those with own derivatives."""


def uses_convolutions(model: Model, x: Any) -> bool:
    """Tell whether a model has convolutions that ``maxfl.fast_convolutions`` would change.

    Args:
        model: Any model.
        x: Inputs [n, ...] that it can be applied to, or their shape and type.
    """
    params = jax.eval_shape(model.init, jax.eval_shape(lambda: jax.random.key(0)))
    closed = jax.make_jaxpr(model.outputs)(params, x, model.frozen)
    return any(is_plain_convolution(equation) for equation in equations(closed.jaxpr))


def is_plain_convolution(equation: JaxprEqn) -> bool:
    """Tell whether an equation is a convolution of images, neither grouped nor transposed."""
    params = equation.params
    return (
        equation.primitive is conv_general_dilated_p
        and len(params["window_strides"]) == 2
        and set(params["lhs_dilation"]) == {1}
        and params["feature_group_count"] == params["batch_group_count"] == 1
    )


def equations(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    """Yield the equations of a jaxpr, and those inside of loops, branches, jit and checkpoint."""
    for equation in jaxpr.eqns:
        yield equation
        if equation.primitive in ENTERED:
            for inner in jaxprs_in_params(equation.params):
                yield from equations(inner)
