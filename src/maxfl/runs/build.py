"""From configurations to simulations: those that share a program run together."""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from maxfl.algorithms import ALGORITHMS, Algorithm
from maxfl.core import aggregators, attacks, losses, metrics
from maxfl.core.aggregators import Aggregator
from maxfl.core.attacks import Attack
from maxfl.core.federation import Federation
from maxfl.core.local_optimizers import LocalHParams, LocalKind, LocalOptimizer
from maxfl.core.losses import Loss
from maxfl.core.model import Model, with_precision
from maxfl.core.participation import Participation, ParticipationHParams, ParticipationRule
from maxfl.core.portfolio import Portfolio, portfolio
from maxfl.core.requirements import requirement
from maxfl.core.requirements.requirement import Requirement
from maxfl.core.schedules import Schedule, ScheduleHParams, ScheduleKind
from maxfl.core.server_optimizers import OptimizerHParams, OptimizerKind, ServerOptimizer
from maxfl.data.tables.requirements import requirement_file
from maxfl.engine.experiment import Training
from maxfl.engine.simulation import Simulation
from maxfl.engine.streaming.simulation import StreamingSimulation
from maxfl.engine.trainer import Trainer
from maxfl.models.registry import MODELS, default_loss, fit_model
from maxfl.runs.build_data import prepare_federation, write_prepared
from maxfl.runs.configs.algorithm import AlgorithmConfig
from maxfl.runs.configs.model import ModelSettings, model_settings
from maxfl.runs.configs.requirement import RequirementConfig
from maxfl.runs.configs.run import RunConfig
from maxfl.runs.plugins.factories import make_algorithm, make_model, make_rule
from maxfl.runs.plugins.parameters import parameters_of
from maxfl.runs.plugins.resolve import is_target, resolve
from maxfl.utils.errors import InputError


class Group(NamedTuple):
    """Configurations that differ only in numbers, so that one program runs them all.

    Attributes:
        indices: Their indices in the sweep.
        configs: The configurations.
    """

    indices: list[int]
    configs: list[RunConfig]


def group(configs: Sequence[RunConfig], *, mask_batches: bool | None = None) -> list[Group]:
    """Sort configurations into groups, in the order of their first members.

    With ``mask_batches``, minibatches of several sizes share a program, all computed at the largest
    size, and so do portfolios of several models: cheaper than another compilation where many
    configurations run at once, that is on anything but a CPU, which is the default.
    """
    if mask_batches is None:
        mask_batches = _masks_batches()
    groups: dict[Any, Group] = {}
    for index, config in enumerate(configs):
        # What is streamed is one configuration.
        alone = index if config.data.source == "disk" else None
        key = _without_hparams(config, mask_batches=mask_batches), alone
        members = groups.setdefault(key, Group([], []))
        members.indices.append(index)
        members.configs.append(config)
    return list(groups.values())


def alike(groups: Sequence[Group]) -> list[list[int]]:
    """Return groups that differ in the data's seed only, and so share one program, by index."""
    queues: dict[RunConfig, list[int]] = {}
    for index, members in enumerate(groups):
        key = _without_hparams(members.configs[0], mask_batches=_masks_batches())
        key = key.model_copy(update={"data": key.data.model_copy(update={"seed": 0})})
        queues.setdefault(key, []).append(index)
    return list(queues.values())


def _masks_batches() -> bool:
    """Tell whether minibatches of several sizes share a program: not on a CPU."""
    return jax.default_backend() != "cpu"


def build(configs: Sequence[RunConfig], max_parallel: int | None = None) -> Trainer:
    """Build what trains one group: in memory, or of a federation on disk.

    ``max_parallel`` is the most clients or configurations vectorised on a device.
    """
    first = configs[0]
    federation = build_federation(first)
    kind: Callable[..., Trainer] = Simulation
    if first.data.source == "disk":
        kind = partial(
            StreamingSimulation,
            eval_clients=first.data.eval_clients,
            max_candidates=first.participation.max_candidates,
        )
    return kind(
        federation,
        build_model(first.model, federation),
        _algorithm(configs),
        _training(configs),
        requirement=_requirement(configs),
        participation=_participation(configs),
        server_optimizer=_server_optimizer(configs),
        local_optimizer=_local_optimizer(configs),
        local_schedule=_schedule(configs, "local"),
        server_schedule=_schedule(configs, "server"),
        portfolio=_portfolio(configs),
        aggregator=_aggregator(configs),
        attack=_attack(configs),
        finetune_steps=[c.personalization.finetune_steps for c in configs],
        seed=[c.seed for c in configs],
        max_parallel=max_parallel,
    )


def build_model(config: ModelSettings, federation: Federation) -> Model:
    """Return the model for a federation's samples."""
    settings = model_settings(config)
    if config.name in MODELS:
        loss = _loss(config, federation)
        model = fit_model(config.name, federation, loss, **settings)
        if federation.classes is not None and not losses.is_ready_made(loss):
            model = dataclasses.replace(model, metrics={"accuracy": metrics.accuracy})
    else:
        given = None if config.loss == "auto" else _loss(config, federation)
        model = make_model(config.name, federation, given, settings)
    return with_precision(model, config.precision)


def _loss(config: ModelSettings, federation: Federation) -> Loss:
    if is_target(config.loss):
        return resolve(config.loss)
    match config.loss:
        case "auto":
            return default_loss(config.name, federation, config.padding)
        case "huber":
            return losses.huber(config.huber_delta)
        case "next-token":
            return losses.next_token(config.padding)
        case name:
            return {
                "cross-entropy": losses.cross_entropy,
                "multi-label": losses.multi_label,
                "squared-error": losses.squared_error,
                "absolute-error": losses.absolute_error,
            }[name]


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


def _without_hparams(config: RunConfig, *, mask_batches: bool) -> RunConfig:
    """Return the configuration with everything that a program takes as an argument blanked out."""
    batch_size = 1 if mask_batches else config.training.batch_size
    blank: dict[str, dict[str, Any]] = {
        "data": {"seed": _data_seed(config)},
        "training": {
            "local_steps": 1, "batch_size": batch_size, "local_lr": 1.0, "server_lr": 1.0,
        },
        "local": {
            "beta1": 0.0, "beta2": 0.0, "eps": 1.0, "clip_norm": config.local.clip_norm and 1.0,
            "weight_decay": float(config.local.decay > 0),
        },
        "schedule": {
            f"{rate}_{name}": blank
            for rate in ("local", "server")
            for name, blank in (("end", 1.0), ("rounds", None))
        } | {
            f"{rate}_warmup": min(getattr(config.schedule, f"{rate}_warmup"), 1)
            for rate in ("local", "server")
        },
        "requirement": {
            "multiple": 1.0, "loss": None, "value": None,
            "local_lr": _count_rates(config.requirement),
        },
        "participation": {"start_round": 0, "client_dropout": 0.0, "max_candidates": None},
        "server": {
            "beta1": 0.0, "beta2": 0.0, "eps": 1.0, "trim_fraction": 0.0, "num_byzantine": 0,
            "num_selected": 1, "by_weight": False,
            "clip_norm": None if config.server.clip_norm is None else 1.0,
        },
        "attack": {
            "fraction": 0.0, "loss_inflation": 0.0, "noise_std": 0.0, "update_scale": 1.0,
        },
        "personalization": {"finetune_steps": min(config.personalization.finetune_steps, 1)},
        "portfolio": {
            "patience": 0,
            # One model is a program of its own, with the bits that it always had.
            "models": min(config.portfolio.models, 2 if mask_batches else config.portfolio.models),
        },
    }  # fmt: skip
    sections = {
        name: getattr(config, name).model_copy(update=values) for name, values in blank.items()
    }
    method = AlgorithmConfig.model_construct(name=config.algorithm.name)
    return config.model_copy(update={"seed": 0, "algorithm": method, **sections})


def _count_rates(section: RequirementConfig) -> Any:
    """Return how many learning rates solo models have, or that they have the run's own."""
    rates = section.local_lr
    if isinstance(rates, str):
        return rates
    return (1.0,) * (len(rates) if isinstance(rates, tuple) else 1)


def _algorithm(configs: Sequence[RunConfig]) -> Algorithm:
    name, given = configs[0].algorithm.name, [c.algorithm.hparams for c in configs]
    if name not in ALGORITHMS:
        return make_algorithm(name, given)
    factory = ALGORITHMS[name]
    return factory(**{p.name: [g.get(p.name, p.default) for g in given]
                      for p in parameters_of(factory)})  # fmt: skip


def _training(configs: Sequence[RunConfig]) -> Training:
    sections = [c.training for c in configs]
    fields = dict(sections[0])
    for name in ("local_steps", "batch_size", "local_lr", "server_lr"):
        fields[name] = [getattr(section, name) for section in sections]
    return Training(**fields)


def _requirement(configs: Sequence[RunConfig]) -> Requirement:
    sections = [c.requirement for c in configs]
    first = sections[0]
    rest = None if first.rest is None else _rest(sections)
    if first.file is None:
        assert rest is not None, "only a file may be without"
        return rest
    return requirement_file(
        first.file, metric=first.metric, otherwise=rest, **_solo_and_judging(sections)
    )


def _rest(sections: Sequence[RequirementConfig]) -> Requirement:
    """Return what clients require that have no value of their own."""
    metric, options = sections[0].metric, _solo_and_judging(sections)
    match sections[0].rest:
        case "fixed":
            return requirement.fixed(np.array([s.loss for s in sections], float), **options)
        case "custom":
            return requirement.custom(make_rule(str(sections[0].rule)), metric=metric, **options)
        case "metric":
            values = np.array([s.value for s in sections], float)
            return requirement.metric(str(metric), values, **options)
        case _:
            return requirement.solo([s.multiple for s in sections], metric=metric, **options)


def _solo_and_judging(sections: Sequence[RequirementConfig]) -> dict[str, Any]:
    """Return how solo models are trained and what clients judge by.

    But for learning rates, of which every configuration may have its own, the same for a group.
    """
    first = sections[0]
    options = {n: getattr(first, n) for n in ("steps", "batch_size", "judge", "judge_fraction")}
    if isinstance(first.local_lr, str):
        return {**options, "local_lr": first.local_lr}
    rates = {s.local_lr if isinstance(s.local_lr, tuple) else (s.local_lr,) for s in sections}
    if len(rates) == 1:
        return {**options, "local_lr": rates.pop()}
    each = np.array([np.atleast_1d(s.local_lr) for s in sections], float)
    return {**options, "local_lr": each.T}


def _participation(configs: Sequence[RunConfig]) -> Participation:
    sections = [c.participation for c in configs]
    hparams = ParticipationHParams(
        [section.start_round for section in sections],
        [section.client_dropout for section in sections],
    )
    return Participation(ParticipationRule(sections[0].rule), hparams)


def _server_optimizer(configs: Sequence[RunConfig]) -> ServerOptimizer:
    sections = [c.server for c in configs]
    names = OptimizerHParams._fields
    hparams = OptimizerHParams(*([getattr(s, name) for s in sections] for name in names))
    return ServerOptimizer(OptimizerKind(sections[0].optimizer), hparams)


def _local_optimizer(configs: Sequence[RunConfig]) -> LocalOptimizer:
    sections = [c.local for c in configs]
    first, names = sections[0], LocalHParams._fields
    hparams: dict[str, Any] = {name: [getattr(s, name) for s in sections] for name in names}
    if first.clip_norm is None:
        hparams["clip_norm"] = np.inf
    hparams["weight_decay"] = [section.decay for section in sections]
    decays, clips = first.decay > 0, first.clip_norm is not None
    return LocalOptimizer(LocalKind(first.optimizer), decays, clips, LocalHParams(**hparams))


def _schedule(configs: Sequence[RunConfig], rate: str) -> Schedule:
    """Return the schedule of η_l ("local") or η_g ("server")."""
    sections = [c.schedule for c in configs]

    def each(name: str) -> list[Any]:
        return [getattr(section, f"{rate}_{name}") for section in sections]

    rounds = [n or c.training.rounds for n, c in zip(each("rounds"), configs, strict=True)]
    hparams = ScheduleHParams(each("end"), each("warmup"), rounds)
    kind = ScheduleKind(getattr(sections[0], rate))
    return Schedule(kind, any(each("warmup")), hparams)


def _portfolio(configs: Sequence[RunConfig]) -> Portfolio:
    sections = [c.portfolio for c in configs]
    return portfolio([s.models for s in sections], [s.patience for s in sections])


def _aggregator(configs: Sequence[RunConfig]) -> Aggregator:
    sections = [c.server for c in configs]
    clip: Any = None if sections[0].clip_norm is None else [s.clip_norm for s in sections]
    by_weight = [s.by_weight for s in sections]
    match sections[0].aggregator:
        case "mean":
            return aggregators.mean(clip)
        case "median":
            return aggregators.median(clip, by_weight=by_weight)
        case "trimmed-mean":
            trims = [s.trim_fraction for s in sections]
            return aggregators.trimmed_mean(trims, clip, by_weight=by_weight)
        case "krum":
            return aggregators.krum(
                [s.num_byzantine for s in sections], [s.num_selected for s in sections], clip,
                by_weight=by_weight,
            )  # fmt: skip


def _attack(configs: Sequence[RunConfig]) -> Attack:
    sections = [c.attack for c in configs]
    if not any(section.fraction for section in sections):
        return attacks.nobody()
    names = attacks.AttackHParams._fields
    hparams: dict[str, Any] = {name: [getattr(s, name) for s in sections] for name in names}
    flags = {"flip_labels": sections[0].flip_labels, "collude": sections[0].collude}
    return attacks.byzantine(**hparams, **flags)
