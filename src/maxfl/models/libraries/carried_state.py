"""State of other libraries' models as the engine carries it: float32, whatever its types are."""

from collections.abc import Callable
from importlib.util import find_spec
from inspect import signature
from typing import Any

import jax
import jax.numpy as jnp

from maxfl.utils.errors import InputError


def carry(state: Any) -> Any:
    """Return state in float32: flags become 0 or 1; counters are exact up to 2²⁴."""
    return jax.tree.map(lambda a: jnp.asarray(a).astype(jnp.float32), state)


def restore(carried: Any, like: Any) -> Any:
    """Return state in the types of ``like``; of averaged counters and flags the nearest whole."""

    def cast(a: Any, b: Any) -> Any:
        is_float = jnp.issubdtype(b.dtype, jnp.inexact)
        return (a if is_float else jnp.round(a)).astype(b.dtype)

    return jax.tree.map(cast, carried, like)


def takes(function: Callable[..., Any], argument: str) -> bool:
    """Tell whether a function has an argument of this name."""
    return argument in signature(function).parameters


def need(package: str, function: str) -> None:
    """Refuse to go on without a package."""
    if find_spec(package) is None:
        raise InputError(f"maxfl.{function} needs {package}: pip install {package}")
