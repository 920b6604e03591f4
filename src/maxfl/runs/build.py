"""From configurations to simulations: those that share a program run together."""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from maxfl.core import attacks, participation, requirement, aggregators
from maxfl.core.attacks import Adversary
from maxfl.algorithms import ALGORITHMS, Algorithm
from maxfl.runs.build_data import prepare_federation, write_prepared
from maxfl.utils.errors import InputError
from maxfl.core.federation import Federation
from maxfl.core.model import Model, mlp
from maxfl.core.server_optimizers import Kind, Optimiser, Rates
from maxfl.core.participation import Participation
from maxfl.engine.experiment import Training
from maxfl.core.model import with_precision
from maxfl.core.requirement import Requirement
from maxfl.core.aggregators import Robust
from maxfl.runs.config import ModelConfig, RunConfig
from maxfl.engine.simulation import Simulation
from maxfl.engine.streaming.simulation import StreamingSimulation


class Group(NamedTuple):
    """Configurations that differ only in numbers, so that one program runs them all.

    Attributes:
        numbers: Their places in the sweep.
        configs: The configurations.
    """

    numbers: list[int]
    configs: list[RunConfig]


def group(configs: Sequence[RunConfig], *, mask_batches: bool | None = None) -> list[Group]:
    """Sort configurations into groups, in the order of their first members.

    With ``mask_batches``, minibatches of several sizes share a program, all computed at the largest
    size: cheaper than another compilation where many configurations run at once, that is on
    anything but a CPU, which is the default.
    """
    if mask_batches is None:
        mask_batches = jax.default_backend() != "cpu"
    groups: dict[Any, Group] = {}
    for number, config in enumerate(configs):
        # A stream trains one configuration.
        alone = number if config.data.source == "disk" else None
        key = _without_numbers(config, mask_batches=mask_batches), alone
        members = groups.setdefault(key, Group([], []))
        members.numbers.append(number)
        members.configs.append(config)
    return list(groups.values())


def alike(groups: Sequence[Group]) -> list[list[int]]:
    """Groups that differ in the data's seed only, and so share one program, by their numbers."""
    queues: dict[RunConfig, list[int]] = {}
    for number, members in enumerate(groups):
        key = _without_numbers(members.configs[0], mask_batches=True)
        key = key.model_copy(update={"data": key.data.model_copy(update={"seed": 0})})
        queues.setdefault(key, []).append(number)
    return list(queues.values())


def build(configs: Sequence[RunConfig], at_once: int | None = None) -> Simulation:
    """The simulation of one group, or the stream of a federation on disk.

    ``at_once`` is the most clients or configurations vectorised on a device.
    """
    first = configs[0]
    federation = build_federation(first)
    kind: Callable[..., Simulation] = Simulation
    if first.data.source == "disk":
        kind = partial(StreamingSimulation, panel=first.data.panel, ask=first.participation.ask)
    return kind(
        federation,
        build_model(first.model, federation),
        _algorithm(configs),
        _training(configs),
        requirement=_requirement(configs),
        participation=_participation(configs),
        optimiser=_optimiser(configs),
        robust=_robust(configs),
        adversary=_adversary(configs),
        tuning=[c.personal.tuning for c in configs],
        seed=[c.seed for c in configs],
        at_once=at_once,
    )


def build_model(config: ModelConfig, federation: Federation) -> Model:
    """The model for a federation's samples."""
    inputs = int(np.prod(federation.train.x.shape[1:]))
    model = mlp(inputs, config.hidden, federation.classes, config.dropout)
    return with_precision(model, config.precision)


def write_data(config: RunConfig, folder: Path, progress: Callable[[int, int], None]) -> Path:
    """Write a configuration's federation to a folder, from which it can be streamed."""
    if config.data.source == "disk":
        raise InputError(f"{config.data.folder} is on disk already: train it, or copy the folder")
    return write_prepared(config.data, _data_seed(config), folder, progress)


def build_federation(config: RunConfig) -> Federation:
    """Load a configuration's data and split them over clients."""
    return prepare_federation(config.data, _data_seed(config))


def _data_seed(config: RunConfig) -> int:
    return config.seed if config.data.seed is None else config.data.seed


def _without_numbers(config: RunConfig, *, mask_batches: bool) -> RunConfig:
    """The configuration with every number that a program takes as an argument blanked out."""
    batch_size = 1 if mask_batches else config.training.batch_size
    blank: dict[str, dict[str, Any]] = {
        "data": {"seed": _data_seed(config)},
        "training": {
            "local_steps": 1, "batch_size": batch_size, "local_lr": 1.0, "server_lr": 1.0,
        },
        "requirement": {"multiple": 1.0, "loss": None},
        "participation": {"start": 0, "dropout": 0.0, "ask": None},
        "server": {
            "beta1": 0.0, "beta2": 0.0, "stability": 1.0, "trim": 0.0, "liars": 0, "keep": 1,
            "clip": None if config.server.clip is None else 1.0,
        },
        "adversary": {"share": 0.0, "inflation": 0.0, "noise": 0.0, "scale": 1.0},
        "personal": {"tuning": min(config.personal.tuning, 1)},
    }  # fmt: skip
    sections = {
        name: getattr(config, name).model_copy(update=numbers) for name, numbers in blank.items()
    }
    method = type(config.algorithm)(name=config.algorithm.name)
    return config.model_copy(update={"seed": 0, "algorithm": method, **sections})


def _algorithm(configs: Sequence[RunConfig]) -> Algorithm:
    factory = ALGORITHMS[configs[0].algorithm.name]
    given = [c.algorithm.numbers for c in configs]
    defaults = {name: p.default for name, p in inspect.signature(factory).parameters.items()}
    return factory(**{n: [g.get(n, default) for g in given] for n, default in defaults.items()})


def _training(configs: Sequence[RunConfig]) -> Training:
    own = [c.training for c in configs]
    fields = dict(own[0])
    for name in ("local_steps", "batch_size", "local_lr", "server_lr"):
        fields[name] = [getattr(t, name) for t in own]
    return Training(**fields)


def _requirement(configs: Sequence[RunConfig]) -> Requirement:
    own = [c.requirement for c in configs]
    if own[0].kind == "fixed":
        return requirement.fixed(np.array([r.loss for r in own]), own[0].steps)
    return requirement.solo([r.multiple for r in own], own[0].steps)


def _participation(configs: Sequence[RunConfig]) -> Participation:
    own = [c.participation for c in configs]
    presence = participation.Presence([p.start for p in own], [p.dropout for p in own])
    return Participation(participation.Rule(own[0].rule), presence)


def _optimiser(configs: Sequence[RunConfig]) -> Optimiser:
    own = [c.server for c in configs]
    rates = Rates(*([getattr(s, name) for s in own] for name in Rates._fields))
    return Optimiser(Kind(own[0].optimiser), rates)


def _robust(configs: Sequence[RunConfig]) -> Robust:
    own = [c.server for c in configs]
    clip: Any = None if own[0].clip is None else [s.clip for s in own]
    match own[0].aggregation:
        case "mean":
            return aggregators.mean(clip)
        case "median":
            return aggregators.median(clip)
        case "trimmed-mean":
            return aggregators.trimmed_mean([s.trim for s in own], clip)
        case "krum":
            return aggregators.krum([s.liars for s in own], [s.keep for s in own], clip)


def _adversary(configs: Sequence[RunConfig]) -> Adversary:
    own = [c.adversary for c in configs]
    if not any(a.share for a in own):
        return attacks.nobody()
    numbers: dict[str, Any] = {n: [getattr(a, n) for a in own] for n in attacks.Attack._fields}
    flags = {"flip_labels": own[0].flip_labels, "collude": own[0].collude}
    return attacks.byzantine(**numbers, **flags)
