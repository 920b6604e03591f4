"""How often JAX traces a function."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jax

P = ParamSpec("P")
T = TypeVar("T")


def trace_once(function: Callable[P, T]) -> Callable[P, T]:
    """Return a function that is traced once for its shapes and its values, and then inlined.

    ``jax.eval_shape``, and the ``cond`` or ``scan`` that follows it, would trace it anew each, and
    what it calls likewise: a client's training four times. Make and use it within one trace.
    """
    return jax.jit(function, inline=True)
