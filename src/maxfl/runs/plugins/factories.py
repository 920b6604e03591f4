"""What own code makes: a method, a model, data; called with what a file sets, and checked."""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache, wraps
from typing import Any

import jax
import numpy as np

from maxfl.core.algorithm import Algorithm
from maxfl.core.checks.samples import are_classes, checked_samples
from maxfl.core.federation import Federation
from maxfl.core.losses import Loss, NextToken
from maxfl.core.model import Model
from maxfl.core.requirements.requirement import RequirementRule, Solo
from maxfl.data.dataset import Dataset, numbered
from maxfl.models.fitting import count_outputs, default_loss
from maxfl.runs.plugins.entry_points import Kind, load_named
from maxfl.runs.plugins.parameters import hashable, own_parameters
from maxfl.runs.plugins.resolve import Own, call, load
from maxfl.utils.errors import InputError, shorten

FROM_DATA = ("inputs", "shape", "classes", "loss", "federation")
"""Parameters of a model's factory that are filled in: the number of features, the shape of a
sample, the number of outputs, the loss, and all of the data."""
SEED = "seed"
"""The parameter of a data source that is filled in."""
FILLED: Mapping[Kind, tuple[str, ...]] = {"model": FROM_DATA, "data": (SEED,)}


def make_algorithm(name: str, given: Sequence[Mapping[str, Any]]) -> Algorithm:
    """Make a method for several configurations: their hyper-parameters [configurations].

    The factory is called once for each, with numbers, so that it can check them as it likes. Its
    functions must not depend on them: one program runs all configurations.
    """
    own = load_named(name, "algorithm")
    defaults = {parameter.name: parameter.default for parameter in own_parameters(own)}
    numbers = [{**defaults, **hparams} for hparams in given]
    made = [call(own, **hparams) for hparams in numbers]
    for algorithm in made:
        if not isinstance(algorithm, Algorithm):
            raise _wrong(own, algorithm, "a maxfl.Algorithm, as maxfl.fedavg()._replace(...)")
        if algorithm._replace(hparams=()) != made[0]._replace(hparams=()):
            raise InputError(
                f"{name} makes other functions for other numbers, so they can't share a program: "
                f"put its numbers into `hparams`, and functions outside of the factory"
            )
    hparams = [algorithm.hparams for algorithm in made]
    differing = [key for key in defaults if len({each[key] for each in numbers}) > 1]
    if differing and _are_same(hparams):
        raise InputError(
            f"{name} ignores {' and '.join(f'`{key}`' for key in differing)}, so configurations "
            f"would be the same: put it into `hparams`, from where the method's functions take it"
        )
    try:
        stacked = jax.tree.map(lambda *numbers: np.stack(numbers), *hparams)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name}: its hparams are not the same numbers each time: {error}"
        ) from None
    first: Algorithm = made[0]
    return first._replace(hparams=stacked)


def _are_same(hparams: Sequence[Any]) -> bool:
    """Return whether several configurations have the same numbers."""
    first, *others = ([np.asarray(n).tolist() for n in jax.tree.leaves(h)] for h in hparams)
    return all(other == first for other in others)


def make_rule(target: str) -> RequirementRule:
    """Make the rule of a requirement, whose errors say where they arose."""
    return _rule(load(target))


@lru_cache(maxsize=16)
def _rule(own: Own) -> RequirementRule:
    @wraps(own.function)
    def rule(federation: Federation, solo: Solo) -> Any:
        return call(own, federation, solo)

    return rule


def make_model(
    name: str, federation: Federation, loss: Loss | None, settings: Mapping[str, Any]
) -> Model:
    """Make a model for a federation's samples; ``loss`` is None where the file leaves it open."""
    own = load_named(name, "model")
    wanted = {parameter.name for parameter in own_parameters(own)}
    if loss is not None and "loss" not in wanted:
        raise InputError(
            f"model.loss is set, but {name} has no parameter `loss` to take it: give it one, or "
            f"leave model.loss out"
        )
    fitted = _fit(name, federation, loss, wanted.intersection(FROM_DATA))
    given = {**fitted, **{key: hashable(value) for key, value in settings.items()}}
    if "federation" in wanted:
        return _model(own, given)
    return _cached_model(own, tuple(sorted(given.items())))


def _fit(name: str, federation: Federation, loss: Loss | None, wanted: set[str]) -> dict[str, Any]:
    """Return what is filled in of a factory's parameters."""
    shape = federation.train.x.shape[1:]
    fitted: dict[str, Any] = {
        "inputs": math.prod(shape), "shape": shape, "federation": federation
    }  # fmt: skip
    if wanted & {"loss", "classes"}:
        loss = default_loss(federation, name) if loss is None else loss
        outputs = None if isinstance(loss, NextToken) else count_outputs(federation, loss)
        fitted |= {"loss": loss, "classes": outputs}
    return {key: value for key, value in fitted.items() if key in wanted}


@lru_cache(maxsize=16)
def _cached_model(own: Own, given: tuple[tuple[str, Any], ...]) -> Model:
    """Make a model once, so that all seeds of a sweep share its program."""
    return _model(own, dict(given))


def _model(own: Own, given: Mapping[str, Any]) -> Model:
    model = call(own, **given)
    if not isinstance(model, Model):
        raise _wrong(own, model, "a maxfl.Model(init, apply)")
    return model


def make_data(name: str, options: Mapping[str, Any], seed: int) -> Federation | Dataset:
    """Make data: a whole federation, or samples that are still to be split over clients."""
    own = load_named(name, "data")
    names = {parameter.name for parameter in own_parameters(own)}
    seeds = {SEED: seed} if SEED in names else {}
    data = call(own, **options, **seeds)
    if isinstance(data, Federation):
        return data
    if not isinstance(data, Dataset):
        expected = "a maxfl.Federation, or a maxfl.data.dataset.Dataset to be split over clients"
        raise _wrong(own, data, expected)
    x, y = checked_samples(np.asarray(data.x), np.asarray(data.y), name)
    labels = data.labels or (numbered(int(y.max()) + 1) if are_classes(y) else ())
    if data.labels and (not are_classes(y) or y.max() >= len(labels)):
        raise InputError(
            f"{name}: the Dataset names {len(labels)} labels, but y is {y.dtype}{list(y.shape)} up "
            f"to {y.max()}: name each class from 0 on, or leave `labels` ()"
        )
    return data._replace(x=x, y=y, labels=labels)


def _wrong(own: Own, made: object, expected: str) -> InputError:
    kind = type(made).__name__
    return InputError(f"{own.target} returned {shorten(made)}, a {kind}; expected {expected}")
