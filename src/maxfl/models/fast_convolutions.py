"""Any model with its convolutions computed as matrix products of all windows."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.extend.core import JaxprEqn
from jax.extend.core.primitives import conv_general_dilated_p

from maxfl.core.checks.convolutions import is_plain_convolution
from maxfl.core.model import Apply, Model, Params
from maxfl.models.rewrite import Rewriter
from maxfl.models.windows import convolve_windows


def fast_convolutions(model: Model) -> Model:
    """Return the same model, fast when each client has its own weights.

    Every two-dimensional ``jax.lax.conv_general_dilated``, as that of ``flax.linen.Conv``, becomes
    one product of all windows, whatever its strides, padding and layout. Grouped and transposed
    convolutions and those of other dimensions stay as they are, as do those in functions with a
    derivative of their own. Windows need memory, of a 3 × 3 convolution nine times its input,
    except where a GPU's kernels look them up.

    Args:
        model: Any model; its parameters stay the same.
    """
    return model.changed(lambda sized: dataclasses.replace(sized, apply=_FastApply(sized.apply)))


@dataclasses.dataclass(frozen=True)
class _FastApply:
    """Applies a model by windows; models of equal functions are equal."""

    apply: Apply

    def __call__(self, params: Params, x: Array, key: Array | None = None, **frozen: Any) -> Any:
        def function(params: Params, x: Array, key: Array | None, frozen: dict[str, Any]) -> Any:
            return self.apply(params, x, key, **frozen)

        values = (params, x, key, frozen)
        return _BY_WINDOWS(function, values, values)


def _convolve(equation: JaxprEqn, values: Sequence[Any]) -> list[Array] | None:
    if not is_plain_convolution(equation):
        return None
    params = equation.params
    images, kernel, result = params["dimension_numbers"]
    x = jnp.transpose(values[0], _channels_last(images))
    weights = jnp.transpose(values[1], (*kernel[2:], kernel[1], kernel[0]))
    found = convolve_windows(
        x, weights, params["window_strides"], params["padding"], params["rhs_dilation"],
        precision=params["precision"], preferred_element_type=params["preferred_element_type"],
    )  # fmt: skip
    last = _channels_last(result)
    return [jnp.transpose(found, [last.index(axis) for axis in range(4)])]


def _channels_last(spec: Sequence[int]) -> tuple[int, ...]:
    """Return where n, height, width and channels are, of a layout in JAX's order."""
    n, channels, *places = spec
    return (n, *places, channels)


_BY_WINDOWS = Rewriter({conv_general_dilated_p: _convolve})
