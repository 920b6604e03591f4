"""A model is tried on the shapes of the data before any training; nothing is computed."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from maxfl.core import losses
from maxfl.core.checks.state import check_state_is_taken, check_state_moves
from maxfl.core.federation import Federation
from maxfl.core.model import Model, Variables, model_inputs
from maxfl.utils.errors import InputError
from maxfl.utils.mapped import Range, value_range

SAMPLES = 2
"""That the model is tried on."""


class Trial(NamedTuple):
    """Shapes of a model's parameters, inputs, labels and random key."""

    params: Any
    x: Any
    y: Any
    key: Any


def check_model(model: Model, federation: Federation) -> None:
    """Refuse a model that does not fit the data; the message says what to change."""
    x = _check_inputs(model, federation)
    key = jax.eval_shape(lambda: jax.random.key(0))
    params = _attempt(lambda: jax.eval_shape(model.init, key), "model.init(key) fails")
    _check_params(model, params)
    labels = federation.train.y
    y = jax.ShapeDtypeStruct((SAMPLES, *labels.shape[1:]), labels.dtype)
    trial = Trial(params, x, y, key)
    _check_numbers(model, federation)
    outputs = _check_apply(model, trial)
    _check_loss(model, federation, outputs, trial)
    check_state_is_taken(model, params, x, key)
    check_state_moves(model, params, x, key)


def input_shape(model: Model, federation: Federation) -> Any:
    """Return shape and type of the model's input for a few samples."""
    stored = federation.train.x
    sample = jax.ShapeDtypeStruct((SAMPLES, *stored.shape[1:]), stored.dtype)
    return jax.eval_shape(lambda x: model_inputs(model, federation.input_scaling, x), sample)


def _attempt(function: Callable[[], Any], what: str) -> Any:
    """Return what a user's function gives; libraries raise errors of many kinds."""
    try:
        return function()
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{what}: {error}") from error


def _check_inputs(model: Model, federation: Federation) -> Any:
    """Return the shape of the model's input."""
    stored = federation.train.x
    shape = (SAMPLES, *stored.shape[1:])
    if model.tokens and not np.issubdtype(stored.dtype, np.integer):
        raise InputError(
            f"the model takes numbers of tokens, but features are {stored.dtype}: give integers"
        )
    scaling = federation.input_scaling
    try:
        x = input_shape(model, federation)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the input scaling does not fit features of shape {list(shape[1:])}: {error}"
        ) from error
    with np.errstate(over="ignore"):
        numbers = [np.asarray(n, np.float32) for n in scaling]
    if not all(np.isfinite(n).all() for n in numbers) or not numbers[1].any():
        raise InputError(
            "the input scaling has numbers that are NaN, infinite or 0 in float32: shift and scale "
            "must be finite, and scale not 0"
        )
    if x.shape != shape:
        raise InputError(
            f"the input scaling turns features of shape {list(shape[1:])} into "
            f"{list(x.shape[1:])}: give numbers, or arrays of that shape"
        )
    return x


def _check_numbers(model: Model, federation: Federation) -> None:
    """Refuse labels and tokens that a loss or an embedding would take without a word."""
    if model.loss is losses.multi_label:
        low, high = _label_range(federation)
        if low < 0 or high > 1:
            raise InputError(
                f"multi-label loss needs labels of 0 and 1, but they run from {low} to {high}: "
                f"choose squared_error for numbers, cross_entropy for classes"
            )
    if model.tokens:
        low = value_range([federation.train.x, federation.test.x]).low
        if low < 0:
            raise InputError(f"tokens count from 0, but the smallest is {low}: renumber them")


def _label_range(federation: Federation, padding: int | None = None) -> Range:
    """Return the range of all labels but padding."""
    return value_range([federation.train.y, federation.test.y], padding)


def _check_params(model: Model, params: Any) -> None:
    others = {str(leaf.dtype) for leaf in jax.tree.leaves(params)} - {"float32"}
    if others:
        raise InputError(f"the model has parameters of type {', '.join(others)}; expected float32")
    if model.keep_local and not isinstance(params, Variables):
        raise InputError(
            "keep_local is set, but the model has no state: let init return "
            "maxfl.Variables(params, state)"
        )


def _check_apply(model: Model, trial: Trial) -> Any:
    """Return the shape of the model's outputs, the same in both modes."""
    params, x, _, key = trial
    signature = "apply(params, x, key=None" + (", *, frozen)" if model.frozen is not None else ")")
    failed = f"the model can't be applied to features of shape {list(x.shape[1:])}, as {signature}"
    frozen = model.frozen
    outputs = _attempt(lambda: jax.eval_shape(model.outputs, params, x, frozen), failed)
    trained = _attempt(
        lambda: jax.eval_shape(
            lambda p, x, key, frozen: model.apply(p, x, key, **model.frozen_argument(frozen)),
            params, x, key, frozen,
        ),
        failed,
    )  # fmt: skip
    if isinstance(params, Variables):
        trained = _check_state(params, trained)
    elif isinstance(trained, tuple) and not isinstance(outputs, tuple):
        raise InputError(
            "the model's apply returns a pair in training mode, as a model with state does, but "
            "init returns no state: let it return maxfl.Variables(params, state)"
        )
    if jax.tree.map(_form, outputs) != jax.tree.map(_form, trained):
        raise InputError(
            f"the model gives {_forms(outputs)} in evaluation mode and {_forms(trained)} in "
            f"training mode: outputs must be alike"
        )
    return outputs


def _check_state(params: Variables, trained: Any) -> Any:
    """Return the outputs of a model with state, whose new state must be like the old."""
    if not (isinstance(trained, tuple) and len(trained) == 2):
        raise InputError(
            "the model has state, so apply must return (outputs, new state) in training mode, "
            "where it gets a key; else nobody takes what it changes"
        )
    outputs, state = trained
    if jax.tree.map(_form, state) != jax.tree.map(_form, params.state):
        raise InputError(
            f"the model's state is {_forms(params.state)} at first and {_forms(state)} after a "
            f"step: it must keep its structure, shapes and types"
        )
    return outputs


def _check_loss(model: Model, federation: Federation, outputs: Any, trial: Trial) -> None:
    if model.loss is losses.cross_entropy:
        _check_logits(federation, outputs)
    values = _attempt(
        lambda: jax.eval_shape(model.loss, outputs, trial.y),
        f"the loss can't be computed of outputs {_forms(outputs)} and labels {_forms(trial.y)}",
    )
    _check_per_sample("loss", values)
    if isinstance(model.loss, losses.NextToken):
        _check_vocabulary(_label_range(federation, model.loss.padding), outputs.shape[-1])
    if not jnp.issubdtype(values.dtype, jnp.floating):
        raise InputError(f"the loss gives {values.dtype}, which has no gradient: give floats")
    for name, metric in model.named_metrics:
        values = _attempt(
            partial(jax.eval_shape, metric.function, outputs, trial.y),
            f"the metric {name} can't be computed of outputs {_forms(outputs)} and labels "
            f"{_forms(trial.y)}",
        )
        _check_per_sample(f"metric {name}", values)


def _check_per_sample(what: str, values: Any) -> None:
    if getattr(values, "shape", None) != (SAMPLES,):
        raise InputError(
            f"the {what} gives {_forms(values)} for {SAMPLES} samples; expected one number for "
            f"each, [{SAMPLES}]"
        )


def _check_logits(federation: Federation, logits: Any) -> None:
    """Refuse outputs and labels that cross-entropy, the default loss, can't be computed of."""
    classes = federation.classes
    if classes is None:
        labels = federation.train.y
        raise InputError(
            f"labels are {labels.dtype}{list(labels.shape[1:])}, but the model's loss is "
            f"cross-entropy, of one integer per sample: choose another, as Model(..., "
            f"loss=maxfl.losses.squared_error), or if they are classes, give integers"
        )
    if not hasattr(logits, "shape"):
        raise InputError(
            f"the model's apply returns {type(logits).__name__}; expected an array of logits, "
            f"[samples, classes]"
        )
    if logits.ndim != 2 or logits.shape[0] != SAMPLES or logits.shape[1] < classes:
        raise InputError(
            f"the model gives outputs of shape {list(logits.shape)} for {SAMPLES} samples; "
            f"expected [{SAMPLES}, {classes}] or more, one logit per class"
        )
    if not jnp.issubdtype(logits.dtype, jnp.floating):
        raise InputError(f"the model gives outputs of type {logits.dtype}; expected floats")


def _check_vocabulary(labels: Range, vocabulary: int) -> None:
    """Refuse labels without a logit, whose loss would not be finite."""
    if labels.low < 0:
        raise InputError(
            f"tokens count from 0, but the smallest label is {labels.low}: renumber them, or if it "
            f"is padding, give maxfl.losses.next_token(padding={labels.low})"
        )
    if labels.high >= vocabulary:
        raise InputError(
            f"labels run up to {labels.high}, but the model has {vocabulary} logits, for tokens "
            f"from 0 to {vocabulary - 1}: give it a larger vocabulary, or if {labels.high} is "
            f"padding, give maxfl.losses.next_token(padding={labels.high})"
        )


def _form(leaf: Any) -> tuple[Any, Any]:
    return leaf.shape, leaf.dtype


def _forms(tree: Any) -> str:
    """Return types and shapes of arrays in words."""
    leaves = [f"{leaf.dtype}{list(leaf.shape)}" for leaf in jax.tree.leaves(tree)]
    return ", ".join(leaves[:4]) + (", ..." if len(leaves) > 4 else "") if leaves else "nothing"
