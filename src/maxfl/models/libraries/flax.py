"""Models of Flax's linen API."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from maxfl.core.losses import Loss, cross_entropy
from maxfl.core.metrics import Metric
from maxfl.core.model import Model, Params, Variables
from maxfl.models.libraries.carried_state import carry, restore, takes
from maxfl.utils.errors import InputError

FLAGS = {
    "train": True, "training": True, "is_training": True,
    "deterministic": False, "use_running_average": False,
}  # fmt: skip
"""Arguments that tell a module its mode, and their values in training mode."""


def from_flax(
    module: Any,
    example: Any,
    *,
    loss: Loss = cross_entropy,
    metrics: Mapping[str, Metric] | None = None,
    keep_local: bool = False,
    tokens: bool = False,
    train_argument: str | None = None,
    rngs: tuple[str, ...] = ("dropout",),
) -> Model:
    """Return the model of a ``flax.linen.Module``.

    Collections other than "params", as BatchNorm's "batch_stats", are the model's state. Equal
    modules give equal models.

    Args:
        module: Called with inputs [n, ...].
        example: Inputs [n, ...], of which shape and type are used.
        loss: As in ``maxfl.Model``, like ``metrics``, ``keep_local`` and ``tokens``.
        metrics: See there.
        keep_local: See there.
        tokens: See there.
        train_argument: The call's argument that is true in training mode, if it has another name
            than train, training, is_training, deterministic or use_running_average (the last two
            are true in evaluation).
        rngs: Names of the random streams that training mode draws from.
    """
    if isinstance(module, type) or not (hasattr(module, "init") and hasattr(module, "apply")):
        raise InputError(
            f"module = {module!r:.60}: expected an instance of flax.linen.Module (pip install "
            f"flax); for flax.nnx there is maxfl.from_nnx"
        )
    names = tuple(name for name in FLAGS if takes(module.__call__, name))
    if not names and train_argument is None:
        _refuse_unknown_flags(module)
    linen = _Linen(module, tuple(example.shape), jnp.dtype(example.dtype),
                   names if train_argument is None else (train_argument,), rngs)  # fmt: skip
    name = type(module).__name__
    return Model(
        _Init(linen), _Apply(linen), loss, metrics, keep_local=keep_local, tokens=tokens, name=name
    )


def _refuse_unknown_flags(module: Any) -> None:
    """Refuse a call with a flag that may be its mode: it would train in evaluation mode."""
    arguments = inspect.signature(module.__call__).parameters.values()
    if flags := [a.name for a in arguments if isinstance(a.default, bool)]:
        raise InputError(
            f"{type(module).__name__}.__call__ takes {', '.join(flags)}: if one is true in "
            f"training mode, give train_argument={flags[0]!r}; if none is, give a module whose "
            f"flags are fields"
        )


@dataclass(frozen=True)
class _Linen:
    """A module, and how it is called."""

    module: Any
    shape: tuple[int, ...]
    dtype: Any
    flags: tuple[str, ...]
    rngs: tuple[str, ...]

    def mode(self, training: bool) -> dict[str, bool]:
        """Return the flags of a mode."""
        return {name: FLAGS.get(name, True) == training for name in self.flags}

    def draw(self, key: Array) -> tuple[Any, Any]:
        """Draw parameters and state."""
        x = jnp.zeros(self.shape, self.dtype)
        state = dict(self.module.init(key, x, **self.mode(training=False)))
        return state.pop("params", {}), state


@dataclass(frozen=True)
class _Init:
    linen: _Linen

    def __call__(self, key: Array) -> Params:
        params, state = self.linen.draw(key)
        return Variables(params, carry(state)) if state else params


@dataclass(frozen=True)
class _Apply:
    linen: _Linen

    def __call__(self, params: Params, x: Array, key: Array | None = None) -> Any:
        linen, mode = self.linen, self.linen.mode(training=key is not None)
        if not isinstance(params, Variables):
            return linen.module.apply({"params": params}, x, rngs=self._streams(key), **mode)
        like = jax.eval_shape(linen.draw, jax.random.key(0))[1]
        given = {"params": params.params, **restore(params.state, like)}
        if key is None:
            return linen.module.apply(given, x, **mode)
        outputs, state = linen.module.apply(
            given, x, rngs=self._streams(key), mutable=[*like], **mode
        )
        return outputs, carry(state)

    def _streams(self, key: Array | None) -> dict[str, Array] | None:
        if key is None:
            return None
        return {name: jax.random.fold_in(key, i) for i, name in enumerate(self.linen.rngs)}
