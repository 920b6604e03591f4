"""A plan as plain data, to tell one experiment from another."""

import hashlib
from importlib.metadata import version
from typing import Any

import jax
import numpy as np

from maxfl.federation import Federation
from maxfl.local import decode
from maxfl.model import Model
from maxfl.plan import Plan


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
