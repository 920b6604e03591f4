"""Mistakes in an experiment, found before any training."""

import jax
import jax.numpy as jnp
import numpy as np

from maxfl.core.aggregators import AggregationRule, Aggregator
from maxfl.core.algorithm import Algorithm
from maxfl.core.attacks import Attack
from maxfl.core.federation import Federation
from maxfl.core.model import Model
from maxfl.core.participation import Participation
from maxfl.core.requirement import Requirement
from maxfl.core.server_optimizers import ServerOptimizer
from maxfl.engine.experiment import Experiment, Training
from maxfl.engine.minibatches import scale_inputs
from maxfl.utils.errors import InputError, check_count, check_number

KINDS = {
    "federation": (Federation, "maxfl.Federation.from_clients(train, test)"),
    "model": (Model, "maxfl.mlp(784, (64, 30), 10)"),
    "algorithm": (Algorithm, "maxfl.maxfl()"),
    "training": (Training, "maxfl.Training(rounds=50)"),
    "requirement": (Requirement, "maxfl.solo()"),
    "participation": (Participation, "maxfl.opt_out()"),
    "server_optimizer": (ServerOptimizer, "maxfl.server_optimizers.adam()"),
    "aggregator": (Aggregator, "maxfl.aggregators.median()"),
    "attack": (Attack, "maxfl.attacks.byzantine(0.1)"),
}
"""What the parts of an experiment are, and an example of each."""


def validate(experiment: Experiment) -> None:
    """Refuse an experiment that can't be carried out; the message says what to change."""
    _check_kinds(experiment)
    _check_training(experiment.training, experiment.federation)
    _check_model(experiment.model, experiment.federation)
    check_number("seed", experiment.seed, least=0, below=2**32, whole=True)
    check_number("personalization.finetune_steps", experiment.finetune_steps, least=0, whole=True)
    _check_byzantine(experiment)


def _check_kinds(experiment: Experiment) -> None:
    """Refuse arguments of ``Simulation`` that are something else, or in another order."""
    for name, (kind, example) in KINDS.items():
        value = getattr(experiment, name)
        if not isinstance(value, kind):
            what = f"the {type(value).__name__} {value!r:.60}"
            raise InputError(
                f"{what} stands for the {kind.__name__}: expected {example} or the like"
            )


def _check_training(training: Training, federation: Federation) -> None:
    for name in ("rounds", "cohort", "evaluate_every", "checkpoint_every"):
        check_count(f"training.{name}", getattr(training, name), least=1)
    for name in ("local_steps", "batch_size"):
        check_number(f"training.{name}", getattr(training, name), least=1, whole=True)
    check_number("training.local_lr", training.local_lr, above=0)
    check_number("training.server_lr", training.server_lr, above=0)
    if training.cohort > federation.seen:
        raise InputError(
            f"training.cohort = {training.cohort}, but the federation has only {federation.seen} "
            f"seen clients: sample at most that many in a round"
        )


def _check_byzantine(experiment: Experiment) -> None:
    """Refuse a fraction of clients that is nobody, and Krum with more than it can stand."""
    federation, training = experiment.federation, experiment.training
    aggregator, attack = experiment.aggregator, experiment.attack
    fraction = np.asarray(attack.hparams.fraction, np.float64)
    if attack.active and ((fraction > 0) & (np.round(fraction * federation.seen) < 1)).any():
        raise InputError(
            f"attack.fraction = {fraction.tolist()} of {federation.seen} seen clients is nobody: "
            f"raise it, or leave it 0"
        )
    if aggregator.rule is not AggregationRule.KRUM:
        return
    hparams = aggregator.hparams
    f, selected = np.max(hparams.num_byzantine), np.max(hparams.num_selected)
    if 2 * f + 2 >= training.cohort:
        raise InputError(
            f"server.num_byzantine = {f} with training.cohort = {training.cohort}: Krum needs a "
            f"cohort of more than 2 · num_byzantine + 2"
        )
    if selected > training.cohort:
        raise InputError(
            f"server.num_selected = {selected} of training.cohort = {training.cohort}: Krum can't "
            f"select more updates than there are"
        )


def _check_model(model: Model, federation: Federation) -> None:
    """Try the model on the shapes of the data, without computing anything."""
    shape = (2, *federation.train.x.shape[1:])
    sample = jax.ShapeDtypeStruct(shape, federation.train.x.dtype)
    try:
        x = jax.eval_shape(scale_inputs, federation.input_scaling, sample)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the input scaling does not fit features of shape {list(shape[1:])}: {error}"
        ) from error
    with np.errstate(over="ignore"):
        numbers = [np.asarray(n, np.float32) for n in federation.input_scaling]
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
    try:
        params = jax.eval_shape(model.init, jax.random.key(0))
    except (TypeError, ValueError) as error:
        raise InputError(f"model.init(key) fails: {error}") from error
    try:
        logits = jax.eval_shape(model.apply, params, x)
        jax.eval_shape(model.apply, params, x, jax.random.key(0))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"the model can't be applied to features of shape {list(x.shape[1:])}, as "
            f"apply(params, x, key=None): {error}"
        ) from error
    others = {str(leaf.dtype) for leaf in jax.tree.leaves(params)} - {"float32"}
    if others:
        raise InputError(f"the model has parameters of type {', '.join(others)}; expected float32")
    if not hasattr(logits, "shape"):
        raise InputError(
            f"the model's apply returns {type(logits).__name__}; expected an array of logits, "
            f"[samples, classes]"
        )
    if logits.ndim != 2 or logits.shape[0] != 2 or logits.shape[1] < federation.classes:
        raise InputError(
            f"the model gives outputs of shape {list(logits.shape)} for 2 samples; expected "
            f"[2, {federation.classes}] or more, one logit per class"
        )
    if not jnp.issubdtype(logits.dtype, jnp.floating):
        raise InputError(f"the model gives outputs of type {logits.dtype}; expected floats")
