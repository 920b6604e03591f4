"""What a user chose for a run: the federation, the model, the method, and all around it."""

import hashlib
from importlib.metadata import version
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike

from maxfl.core.aggregators import Robust
from maxfl.core.algorithm import Algorithm
from maxfl.core.attacks import Adversary
from maxfl.core.federation import Federation
from maxfl.core.model import Model
from maxfl.core.participation import Participation
from maxfl.core.requirement import Requirement
from maxfl.core.server_optimizers import Optimiser
from maxfl.engine.local import decode
from maxfl.engine.spec import Numbers


class Training(NamedTuple):
    """How the model is trained.

    Attributes:
        rounds: T.
        cohort: m, clients asked in a round.
        local_steps: τ, SGD steps of a client in a round; a number, or one per configuration.
        batch_size: b; a number, or one per configuration. Where they differ, every minibatch is
            computed at the largest size, with the rest masked.
        local_lr: η_l; a number, or one per configuration.
        server_lr: η_g; a number, or one per configuration.
        evaluate_every: Rounds between two evaluations; the untrained and the final model are
            always evaluated.
        block: About so many rounds make one call of the compiled program; the host saves and
            shows progress in between.
    """

    rounds: int = 200
    cohort: int = 5
    local_steps: ArrayLike = 30
    batch_size: ArrayLike = 32
    local_lr: ArrayLike = 0.05
    server_lr: ArrayLike = 1.0
    evaluate_every: int = 5
    block: int = 20


class Plan(NamedTuple):
    """Everything that a result depends on; see ``Simulation`` for what each is."""

    federation: Federation
    model: Model
    algorithm: Algorithm
    training: Training
    requirement: Requirement
    participation: Participation
    optimiser: Optimiser
    robust: Robust
    adversary: Adversary
    tuning: ArrayLike
    seed: ArrayLike

    @property
    def numbers(self) -> Numbers:
        """What can vary within a sweep without another program, as the user gave it."""
        return Numbers(
            self.seed,
            self.training.local_steps,
            self.training.batch_size,
            self.training.local_lr,
            self.training.server_lr,
            self.algorithm.hyper,
            self.participation.presence,
            self.optimiser.rates,
            self.robust.limits,
            self.adversary.attack,
            self.tuning,
        )


def describe(plan: Plan) -> dict[str, Any]:
    """Everything that a result depends on, as JSON can hold it.

    A method and a custom requirement are known by their names and numbers, not by their code; a
    checkpoint also knows what a custom requirement demanded.
    """
    rule = plan.requirement.rule
    robust, adversary = plan.robust, plan.adversary
    return {
        "maxfl": version("maxfl"),
        "jax": jax.__version__,
        "federation": plan.federation.digest(),
        "model": _model_digest(plan.model, plan.federation),
        "algorithm": {"name": plan.algorithm.name, **_plain(plan.algorithm.hyper)},
        "training": _plain(plan.training),
        "requirement": _plain(plan.requirement._replace(rule=None))
        | ({"rule": getattr(rule, "__qualname__", "callable")} if rule else {}),
        "participation": {
            "rule": str(plan.participation.rule),
            **_plain(plan.participation.presence),
        },
        "optimiser": {"kind": str(plan.optimiser.kind), **_plain(plan.optimiser.rates)},
        "robust": {"rule": str(robust.rule), "clips": robust.clips, **_plain(robust.limits)},
        "adversary": {
            "active": adversary.active,
            "flip_labels": adversary.flip_labels,
            "collude": adversary.collude,
            **_plain(adversary.attack),
        },
        "tuning": _number(plan.tuning),
        "seed": _number(plan.seed),
    }


def _model_digest(model: Model, federation: Federation) -> str:
    """SHA-256 of the model as compiled: its shapes and all that it computes, in both modes."""
    key = jax.eval_shape(lambda: jax.random.key(0))
    x = jax.ShapeDtypeStruct((2, *federation.train.x.shape[1:]), federation.train.x.dtype)

    def both(key: Any, x: Any) -> Any:
        params, inputs = model.init(key), decode(federation.decoding, x)
        return model.apply(params, inputs), model.apply(params, inputs, key)

    return hashlib.sha256(jax.jit(both).lower(key, x).as_text().encode()).hexdigest()


def _plain(fields: Any) -> dict[str, Any]:
    """A NamedTuple of numbers and arrays as JSON can hold it; () has none."""
    named = fields._asdict() if fields != () else {}
    return {name: None if value is None else _number(value) for name, value in named.items()}


def _number(value: Any) -> Any:
    """Numbers as JSON can hold them, which knows no infinity."""
    plain = np.asarray(value).tolist()
    return str(plain) if plain == float("inf") else plain
