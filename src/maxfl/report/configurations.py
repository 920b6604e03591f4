"""Configurations and their names: what is one method, and which were run on the same data.

Those that differ in nothing but the seed are one method; settings of the data that differ make
cases, since only runs on the same data can be compared.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from maxfl.algorithms import ALGORITHMS
from maxfl.algorithms.maxfl_annealed import temperature as annealed_temperature
from maxfl.report.names import NAME, label_of
from maxfl.utils.errors import InputError

SEEDS = ("seed", "data.seed")


class Configuration(NamedTuple):
    """One configuration of one folder.

    Attributes:
        named: The folder that the user named.
        folder: That of its tables.
        number: In them; -1 if there are only means.
        case: The data it ran on, where there are several; else "".
        method: Its name for people.
        seed: Of its run.
        settings: All of its settings by dotted key, as far as they were kept.
        entry: Its entry in the summary.
        data: What the data are.
        place: Folder with its partition and its model.
        digest: Of its federation, "" if not known: runs with the same one can be paired.
    """

    named: Path
    folder: Path
    number: int
    case: str
    method: str
    seed: int
    settings: dict[str, Any]
    entry: dict[str, Any]
    data: str
    place: Path
    digest: str


class Found(NamedTuple):
    """A configuration as its folder has it, before it is named among the others."""

    named: Path
    folder: Path
    number: int
    values: dict[str, Any]
    settings: dict[str, Any]
    entry: dict[str, Any]
    place: Path
    digest: str
    metrics: pa.Table


def name_all(found: Sequence[Found]) -> list[Configuration]:
    """Every configuration with a case and a method that tell it apart from all others."""
    return _told_apart(_named(found))


def _named(found: Sequence[Found]) -> list[Configuration]:
    """Every configuration with its case and its method, by what differs among all of them."""
    differing = _differing([own.settings for own in found])
    in_data = [key for key in differing if key.startswith("data.")]
    seeds = [_seed(own.values.get("seed", own.settings.get("seed"))) for own in found]
    splits = [own.settings.get("data.seed") for own in found]
    if len(set(splits)) > 1:  # splits are seeds too, unless the runs have several of those
        if len(set(seeds)) == 1:
            seeds = [_seed(split) for split in splits]
        else:
            in_data.append("data.seed")
    cases = [own.values["part"] if "part" in own.values else _case(own, in_data) for own in found]
    others = {
        case: [
            key
            for key in _differing([o.settings for o, c in zip(found, cases, strict=True)
                                   if c == case])
            if not key.startswith("data.")
        ]
        for case in set(cases)
    }  # fmt: skip
    return [
        Configuration(
            own.named,
            own.folder,
            own.number,
            case,
            own.values.get("method") or label_of(own.settings, others[case]),
            seed,
            own.settings,
            own.entry,
            own.entry["data"],
            own.place,
            own.digest,
        )
        for own, seed, case in zip(found, seeds, cases, strict=True)
    ]


def _seed(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):  # from Python it may be missing, or anything
        return 0


def _case(own: Found, keys: Sequence[str]) -> str:
    shown = (f"{k.removeprefix('data.')} {own.settings[k]}" for k in keys if k in own.settings)
    return ", ".join(shown)


def _differing(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Keys whose values are not the same everywhere, without seeds."""
    keys = dict.fromkeys(key for own in settings for key in own)
    return [
        key
        for key in keys
        if key not in SEEDS and len({repr(own.get(key)) for own in settings}) > 1
    ]


def _told_apart(named: Sequence[Configuration]) -> list[Configuration]:
    """Configurations of one folder that nothing tells apart go by their numbers."""
    known: dict[tuple[str, str, int], list[Configuration]] = {}
    for own in named:
        known.setdefault((own.case, own.method, own.seed), []).append(own)
    found = []
    for own in named:
        alike = known[own.case, own.method, own.seed]
        if others := {c.named for c in alike} - {own.named}:
            raise InputError(
                f"{own.named} has {own.method} with seed {own.seed} on the same data as "
                f"{min(others)}: leave one of them out"
            )
        numbered = f"{own.method}, configuration {own.number}"
        found.append(own._replace(method=numbered) if len(alike) > 1 else own)
    return found


def leaving_from(shown: Sequence[Configuration]) -> int | None:
    """Round after which clients may leave, if it is the same for all of them."""
    found = {
        own.settings.get("participation.start")
        if own.settings.get("participation.rule", "everyone") != "everyone"
        else None
        for own in shown
    }
    return found.pop() if len(found) == 1 else None


WEIGHTED = ("maxfl", "maxfl-annealed")
"""Methods whose weight is q."""


def temperature(settings: Mapping[str, Any], done: int) -> float:
    """T of a method's weight after some rounds; 1 for methods that have none."""
    name = settings.get(NAME)
    if name not in WEIGHTED:
        return 1.0
    numbers = {k.removeprefix("algorithm."): v for k, v in settings.items()
               if k.startswith("algorithm.") and k != NAME and v is not None}  # fmt: skip
    hyper = ALGORITHMS[name](**numbers).hyper
    now = hyper.temperature if name == "maxfl" else annealed_temperature(hyper, done)
    return float(now)
