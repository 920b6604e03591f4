"""In which precision a model multiplies. Parameters, updates and losses are float32 always.

Mixed precision is a matter of the model alone: its products in bfloat16 have half the bytes, and an
accelerator is built for them; gradients arrive as float32 and so does every sum over clients.
"""

import functools
from typing import Literal, get_args

import jax
import jax.numpy as jnp
from jax import Array

from maxfl.errors import InputError
from maxfl.model import Model, Params

Precision = Literal["platform", "float32", "bfloat16"]


def with_precision(model: Model, precision: Precision) -> Model:
    """The model with its products in another precision.

    Cached, so that equal arguments give one model and one compiled program.

    Args:
        model: Any model with float32 parameters.
        precision: ``"platform"``: as JAX multiplies float32 by default: on GPUs of NVIDIA with
            TF32, on a CPU in full. ``"float32"``: in full everywhere. ``"bfloat16"``: parameters
            and inputs are rounded to bfloat16 first, and all of the model computes in it.
    """
    if precision not in get_args(Precision):
        raise InputError(f"precision = {precision!r}: want one of {', '.join(get_args(Precision))}")
    return model if precision == "platform" else _with_precision(model, precision)


@functools.cache
def _with_precision(model: Model, precision: Precision) -> Model:
    def apply(params: Params, x: Array, key: Array | None = None) -> Array:
        if precision == "float32":
            with jax.default_matmul_precision("float32"):
                return model.apply(params, x, key)
        low = jax.tree.map(lambda w: w.astype(jnp.bfloat16), params)
        return model.apply(low, x.astype(jnp.bfloat16), key).astype(jnp.float32)

    return Model(model.init, apply)
