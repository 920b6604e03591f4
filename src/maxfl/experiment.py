"""From configurations to simulations: those that share a program run together."""

import inspect
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl import participation, requirement
from maxfl.algorithms import ALGORITHMS, Algorithm
from maxfl.config import DataConfig, RunConfig
from maxfl.data import partition
from maxfl.data.arrays import load_arrays
from maxfl.data.assemble import assemble
from maxfl.data.dataset import Dataset
from maxfl.data.embedded import fashion_mnist_12k
from maxfl.errors import InputError
from maxfl.federation import Federation
from maxfl.model import mlp
from maxfl.participation import Participation
from maxfl.requirement import Requirement
from maxfl.simulation import Simulation, Training

PARTITION_STREAM = 0xDA7A
"""Keeps the partition's random numbers apart from everything else drawn with the same seed."""


class Group(NamedTuple):
    """Configurations that differ only in numbers, so that one program runs them all.

    Attributes:
        numbers: Their places in the sweep.
        configs: The configurations.
    """

    numbers: list[int]
    configs: list[RunConfig]


def group(configs: Sequence[RunConfig]) -> list[Group]:
    """Sort configurations into groups, in the order of their first members."""
    groups: dict[RunConfig, Group] = {}
    for number, config in enumerate(configs):
        members = groups.setdefault(_without_numbers(config), Group([], []))
        members.numbers.append(number)
        members.configs.append(config)
    return list(groups.values())


def build(configs: Sequence[RunConfig]) -> Simulation:
    """The simulation of one group."""
    first = configs[0]
    federation = build_federation(first)
    inputs = int(np.prod(federation.train.x.shape[1:]))
    return Simulation(
        federation,
        mlp(inputs, first.model.hidden, federation.classes, first.model.dropout),
        _algorithm(configs),
        _training(configs),
        requirement=_requirement(configs),
        participation=_participation(configs),
        seed=[c.seed for c in configs],
    )


def build_federation(config: RunConfig) -> Federation:
    """Load a configuration's data and split them over clients."""
    data = config.data
    rng = np.random.default_rng([_data_seed(config), PARTITION_STREAM])
    dataset = fashion_mnist_12k() if data.file is None else load_arrays(data.file)
    parts, names = _partition(data, dataset, rng)
    return assemble(
        dataset,
        parts,
        rng,
        unseen=data.unseen,
        names=names,
        train_share=data.train_share,
        flipped=data.flipped,
        validation=data.evaluate_on == "validation",
    )


def _data_seed(config: RunConfig) -> int:
    return config.seed if config.data.seed is None else config.data.seed


def _without_numbers(config: RunConfig) -> RunConfig:
    """The configuration with every number that a program takes as an argument blanked out."""
    blank: dict[str, dict[str, Any]] = {
        "data": {"seed": _data_seed(config)},
        "training": {"local_lr": 1.0, "server_lr": 1.0},
        "requirement": {"multiple": 1.0, "loss": None},
        "participation": {"start": 0, "dropout": 0.0},
    }
    sections = {
        name: getattr(config, name).model_copy(update=numbers) for name, numbers in blank.items()
    }
    method = type(config.algorithm)(name=config.algorithm.name)
    return config.model_copy(update={"seed": 0, "algorithm": method, **sections})


def _partition(
    data: DataConfig, dataset: Dataset, rng: np.random.Generator
) -> tuple[partition.Parts, NDArray[Any] | None]:
    """Sample numbers of each client, and the clients' names where the data have them."""
    clients = data.clients + data.unseen
    match data.partition:
        case "dirichlet":
            return partition.dirichlet(dataset.y, clients, data.samples, data.alpha, rng), None
        case "clusters":
            return partition.clusters(dataset.y, clients, data.samples, data.clusters, rng), None
        case "iid":
            return partition.iid(dataset.y, clients, data.samples, rng), None
        case "by-owner":
            if dataset.owner is None:
                raise InputError(f"data.file = {data.file} has no array `client` to split by")
            return partition.by_owner(dataset.owner, data.unseen, rng)


def _algorithm(configs: Sequence[RunConfig]) -> Algorithm:
    factory = ALGORITHMS[configs[0].algorithm.name]
    given = [c.algorithm.numbers for c in configs]
    defaults = {name: p.default for name, p in inspect.signature(factory).parameters.items()}
    return factory(**{n: [g.get(n, default) for g in given] for n, default in defaults.items()})


def _training(configs: Sequence[RunConfig]) -> Training:
    own = [c.training for c in configs]
    fields = dict(own[0])
    fields["local_lr"] = [t.local_lr for t in own]
    fields["server_lr"] = [t.server_lr for t in own]
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
