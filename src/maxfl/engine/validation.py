"""Mistakes in a plan, found before any training."""

import jax
import numpy as np

from maxfl.core.aggregators import Robust, Rule
from maxfl.core.algorithm import Algorithm
from maxfl.core.attacks import Adversary
from maxfl.core.federation import Federation
from maxfl.core.model import Model
from maxfl.core.participation import Participation
from maxfl.core.requirement import Requirement
from maxfl.core.server_optimizers import Optimiser
from maxfl.engine.experiment import Plan, Training
from maxfl.engine.local import decode
from maxfl.utils.errors import InputError, check_count, check_number


def check(plan: Plan) -> None:
    """Refuse a plan that can't be carried out; the message says what to mend."""
    _check_kinds(plan)
    _check_training(plan.training, plan.federation)
    _check_model(plan.model, plan.federation)
    check_number("seed", plan.seed, least=0, below=2**32, whole=True)
    check_number("tuning", plan.tuning, least=0, whole=True)
    _check_liars(plan)


def _check_kinds(plan: Plan) -> None:
    """Refuse arguments of ``Simulation`` that are something else, or in another order."""
    for value, (kind, example) in zip(
        plan,
        (
            (Federation, "maxfl.Federation.from_clients(train, test)"),
            (Model, "maxfl.mlp(784, (64, 30), 10)"),
            (Algorithm, "maxfl.maxfl()"),
            (Training, "maxfl.Training(rounds=50)"),
            (Requirement, "maxfl.solo()"),
            (Participation, "maxfl.opt_out()"),
            (Optimiser, "maxfl.server_optimizers.adam()"),
            (Robust, "maxfl.aggregators.median()"),
            (Adversary, "maxfl.attacks.byzantine(0.1)"),
        ),
        strict=False,  # tuning and seed are numbers
    ):
        if not isinstance(value, kind):
            what = f"the {type(value).__name__} {value!r:.60}"
            raise InputError(f"{what} stands for the {kind.__name__}: want {example} or the like")


def _check_training(training: Training, federation: Federation) -> None:
    for name in ("rounds", "cohort", "evaluate_every", "block"):
        check_count(f"training.{name}", getattr(training, name), least=1)
    for name in ("local_steps", "batch_size"):
        check_number(f"training.{name}", getattr(training, name), least=1, whole=True)
    check_number("training.local_lr", training.local_lr, above=0)
    check_number("training.server_lr", training.server_lr, above=0)
    if training.cohort > federation.seen:
        raise InputError(
            f"training.cohort = {training.cohort}, but the federation has only {federation.seen} "
            f"seen clients: ask at most that many in a round"
        )


def _check_liars(plan: Plan) -> None:
    """Refuse a share of liars that is nobody, and Krum with more liars than it can stand."""
    federation, training = plan.federation, plan.training
    robust, adversary = plan.robust, plan.adversary
    share = np.asarray(adversary.attack.share, np.float64)
    if adversary.active and ((share > 0) & (np.round(share * federation.seen) < 1)).any():
        raise InputError(
            f"adversary.share = {share.tolist()} of {federation.seen} seen clients is nobody: "
            f"raise it, or leave it 0"
        )
    most = np.max(robust.limits.liars)
    if robust.rule is Rule.KRUM and 2 * most + 2 >= training.cohort:
        raise InputError(
            f"server.liars = {most} with training.cohort = {training.cohort}: Krum needs a cohort "
            f"of more than 2 · liars + 2"
        )


def _check_model(model: Model, federation: Federation) -> None:
    """Try the model on the shapes of the data, without computing anything."""
    x = jax.eval_shape(decode, federation.decoding, federation.train.x[:2])
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
        raise InputError(f"the model has parameters of type {', '.join(others)}; want float32")
    if logits.ndim != 2 or logits.shape[1] < federation.classes:
        raise InputError(
            f"the model gives outputs of shape {list(logits.shape)} for 2 samples; want "
            f"[2, {federation.classes}] or more, one logit per class"
        )
