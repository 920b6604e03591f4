"""The numbers of a sweep's configurations, side by side."""

from typing import Any

import jax
import numpy as np

from maxfl.utils.errors import InputError


def as_arrays(numbers: Any) -> Any:
    """Every number as an array; a plain list or tuple is an array too, not a pytree."""

    def is_list(value: Any) -> bool:
        return isinstance(value, list) or (type(value) is tuple and value != ())

    return jax.tree.map(np.asarray, numbers, is_leaf=is_list)


def count(numbers: Any) -> int:
    """C, the common length of all arrays among the numbers."""
    shapes = {np.shape(leaf) for leaf in jax.tree.leaves(numbers)} - {()}
    if any(len(shape) != 1 for shape in shapes) or len(shapes) > 1 or (0,) in shapes:
        raise InputError(
            f"arrays of a sweep must be one-dimensional and of one length, not {sorted(shapes)}"
        )
    return shapes.pop()[0] if shapes else 1
