"""A function that kernels compute, with reverse-mode derivatives of any order."""

from collections.abc import Callable
from typing import Any

import jax
from jax import Array


def fused(
    plain: Callable[..., Any],
    forward: Callable[..., tuple[Any, Any]],
    backward: Callable[..., tuple[Array, ...]],
) -> Callable[..., Any]:
    """Return a function that kernels compute, with its gradient.

    Args:
        plain: The function itself, in JAX, by which its second derivatives are computed; its value
            is an array or several.
        forward: Returns its value, and what ``backward`` needs beside the arguments.
        backward: Returns the gradients of a tuple of arguments, from them, that, and the gradient
            of the value.
    """

    @jax.custom_vjp
    def gradients(arguments: tuple[Array, ...], more: Any, g: Any) -> tuple[Array, ...]:
        return backward(arguments, more, g)

    def second(saved: Any, change: tuple[Array, ...]) -> tuple[Any, None, Any]:
        arguments, g = saved
        _, back = jax.vjp(lambda arguments, g: jax.vjp(plain, *arguments)[1](g), arguments, g)
        of_arguments, of_g = back(change)
        return of_arguments, None, of_g

    # What is saved calls the function itself, not its kernel: that is differentiated too.
    gradients.defvjp(lambda a, more, g: (gradients(a, more, g), (a, g)), second)

    @jax.custom_vjp
    def function(*arguments: Array) -> tuple[Any, Any]:
        return forward(*arguments)

    def save(*arguments: Array) -> tuple[tuple[Any, Any], Any]:
        found = function(*arguments)
        return found, (arguments, found[1])

    function.defvjp(save, lambda saved, change: gradients(*saved, change[0]))
    return lambda *arguments: function(*arguments)[0]
