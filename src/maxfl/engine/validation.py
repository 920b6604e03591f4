"""Mistakes in an experiment, found before any training."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from maxfl.core.aggregators import AggregationRule, Aggregator, krum_limit
from maxfl.core.algorithm import Algorithm, Server
from maxfl.core.attacks import Attack
from maxfl.core.checks.convolutions import uses_convolutions
from maxfl.core.checks.model import check_model, input_shape
from maxfl.core.federation import Federation
from maxfl.core.local_optimizers import LocalOptimizer
from maxfl.core.model import Model, Variables
from maxfl.core.participation import Participation
from maxfl.core.portfolio import Portfolio
from maxfl.core.requirements.requirement import Requirement
from maxfl.core.schedules import Schedule
from maxfl.core.server_optimizers import ServerOptimizer
from maxfl.engine.experiment import Experiment, Training
from maxfl.engine.trial_round import trial_client, trial_round
from maxfl.utils.errors import InputError, SpeedWarning, check_count, check_number

KINDS = {
    "federation": (
        Federation,
        "maxfl.Federation.from_clients(train, test), of a table "
        "maxfl.Federation.from_dataframe(frame, client=..., label=...),",
    ),
    "model": (Model, "maxfl.mlp((64, 30))"),
    "algorithm": (Algorithm, "maxfl.maxfl()"),
    "training": (Training, "maxfl.Training(rounds=50)"),
    "requirement": (Requirement, "maxfl.solo()"),
    "participation": (Participation, "maxfl.opt_out()"),
    "server_optimizer": (ServerOptimizer, "maxfl.server_optimizers.adam()"),
    "local_optimizer": (LocalOptimizer, "maxfl.local_optimizers.adam()"),
    "local_schedule": (Schedule, "maxfl.schedules.cosine()"),
    "server_schedule": (Schedule, "maxfl.schedules.cosine()"),
    "portfolio": (Portfolio, "maxfl.portfolio(models=3)"),
    "aggregator": (Aggregator, "maxfl.aggregators.median()"),
    "attack": (Attack, "maxfl.attacks.byzantine(0.1)"),
}
"""What the parts of an experiment are, and an example of each."""


def validate(experiment: Experiment) -> None:
    """Refuse an experiment that can't be carried out; the message says what to change."""
    _check_kinds(experiment)
    _check_training(experiment.training, experiment.federation)
    check_model(experiment.model, experiment.federation)
    check_number("seed", experiment.seed, least=0, below=2**32, whole=True)
    check_number("personalization.finetune_steps", experiment.finetune_steps, least=0, whole=True)
    _check_local_steps(experiment)
    _tell_of_convolutions(experiment)
    _check_byzantine(experiment)
    if experiment.portfolio.most_models > 1:
        _check_portfolio(experiment)


def _check_kinds(experiment: Experiment) -> None:
    """Refuse arguments of ``Simulation`` that are something else, or in another order."""
    for name, (kind, example) in KINDS.items():
        value = getattr(experiment, name)
        if not isinstance(value, kind):
            what = f"the {type(value).__name__} {' '.join(repr(value)[:60].split())}"
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


def _check_local_steps(experiment: Experiment) -> None:
    """Refuse local steps that a method or a model does not allow."""
    algorithm, optimizer = experiment.algorithm, experiment.local_optimizer
    if algorithm.needs_sgd and not optimizer.is_plain:
        what = f"{optimizer.kind}"
        what += " with weight decay" if optimizer.decays else ""
        what += " with clipped gradients" if optimizer.clips else ""
        raise InputError(
            f"{algorithm.name} is defined for plain SGD steps of its clients, not for {what}: "
            f"leave the local optimizer as it is, or choose another method"
        )
    params = jax.eval_shape(experiment.model.init, jax.eval_shape(lambda: jax.random.key(0)))
    if not isinstance(params, Variables):
        return
    alone = experiment.requirement.training.batch_size or ()
    for table, given in (("training", experiment.training.batch_size), ("requirement", alone)):
        sizes = np.unique(np.asarray(given))
        if len(sizes) > 1:
            raise InputError(
                f"{table}.batch_size = {sizes.tolist()}: a model with state, such as BatchNorm's, "
                f"would see the samples by which smaller minibatches are filled up; give one size"
            )


def _tell_of_convolutions(experiment: Experiment) -> None:
    """Say that a model's convolutions will be slow, as each client has its own weights."""
    model, federation = experiment.model, experiment.federation
    if uses_convolutions(model, input_shape(model, federation)):
        warnings.warn(
            "the model convolves by jax.lax.conv, which is slow where each client has weights of "
            "its own: maxfl.fast_convolutions(model) computes the same, several times as fast",
            SpeedWarning,
            stacklevel=6,
        )


def _check_portfolio(experiment: Experiment) -> None:
    """Refuse several models where a method or a model has no meaning for them."""
    most, algorithm = experiment.portfolio.most_models, experiment.algorithm
    if most > experiment.federation.seen:
        raise InputError(
            f"portfolio.models = {most}, but the federation has only {experiment.federation.seen} "
            f"seen clients: have at most one model for each"
        )
    if experiment.model.keep_local:
        raise InputError(
            "keep_local: a client that keeps the model's state would need one for each model of a "
            "portfolio; let the state travel (keep_local=False), or take portfolio.models = 1"
        )
    needed = most * (krum_limit(experiment.aggregator.hparams) + 1)
    is_krum = experiment.aggregator.rule is AggregationRule.KRUM
    if is_krum and np.max(needed) > experiment.training.cohort:
        raise InputError(
            f"Krum needs more than 2 · num_byzantine + 2 updates of each model, so that "
            f"portfolio.models = {most} needs a training.cohort of {np.max(needed)} or more, not "
            f"{experiment.training.cohort}: raise it, or take another server.aggregator"
        )
    if _state_follows_updates(algorithm, experiment.model):
        raise InputError(
            f"{algorithm.name} keeps something at the server that is made of one model, of its "
            f"updates or their weights, and a portfolio has several: take portfolio.models = 1, or "
            f"a method such as maxfl-auto, fedavg or ifca"
        )


def _state_follows_updates(algorithm: Algorithm, model: Model) -> bool:
    """Tell whether a method's server state depends on a model or its sums, as SCAFFOLD's does."""

    def next_state(key: Any, factor: Any) -> Any:
        start, client = model.init(key), trial_client(jnp.float32(1))
        params = jax.tree.map(lambda w: factor * w, start)
        server = Server(params, algorithm.init_server(start, 1))
        return trial_round(algorithm, server, start, client, total_weight=factor).server_state

    # What depends on neither has no axis for the factors, of which there are two.
    key, factors = jax.eval_shape(lambda: jax.random.key(0)), jnp.ones(2)
    jax.eval_shape(jax.vmap(next_state, (None, 0)), key, factors)  # a mistake of the method's own
    try:
        jax.eval_shape(jax.vmap(next_state, (None, 0), None), key, factors)
    except ValueError:
        return True
    return False


def _check_byzantine(experiment: Experiment) -> None:
    """Refuse a fraction of clients that is nobody, and Krum with more than it can stand."""
    federation, training = experiment.federation, experiment.training
    aggregator, attack = experiment.aggregator, experiment.attack
    fraction = np.asarray(attack.hparams.fraction, np.float64)
    if attack.flip_labels and federation.classes is None:
        raise InputError(
            "attack.flip_labels reverses classes, one integer per sample, and this federation's "
            "labels are something else: leave it out"
        )
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
