"""Configurations and their names: what is one method, and which were run on the same data.

Those that differ in nothing but the seed are one method; settings of the data that differ make
cases, since only runs on the same data can be compared.
"""

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from maxfl.algorithms import ALGORITHMS
from maxfl.algorithms.maxfl_annealed import temperature as annealed_temperature
from maxfl.core.metrics import MetricInfo
from maxfl.report.measures import deciding_metric, first_metric
from maxfl.report.names import NAME, label_of
from maxfl.utils.errors import InputError

SEEDS = ("seed", "data.seed")


class Configuration(NamedTuple):
    """One configuration of one folder.

    Attributes:
        named: The folder that the user named.
        folder: That of its tables.
        table_index: In them; -1 if there are only means.
        case: The data it ran on, where there are several; else "".
        method: Its name for people.
        seed: Of its run.
        settings: All of its settings by dotted key, as far as they were saved.
        entry: Its entry in the summary.
        data: What the data are.
        run_folder: Folder with its partition and its model.
        digest: Of its federation, "" if not known: runs with the same one can be paired.
    """

    named: Path
    folder: Path
    table_index: int
    case: str
    method: str
    seed: int
    settings: dict[str, Any]
    entry: dict[str, Any]
    data: str
    run_folder: Path
    digest: str

    @property
    def metric(self) -> MetricInfo:
        """The model's first metric."""
        return first_metric(self.entry)

    @property
    def decides(self) -> MetricInfo | None:
        """The metric that requirements are about; None for the loss."""
        return deciding_metric(self.entry)

    @property
    def is_real(self) -> bool:
        """Whether it is a federation on Flower: without seeds, unseen clients and solo models."""
        return "answers" in self.entry

    @property
    def title(self) -> str:
        """Its method, and of a simulation its seed."""
        return self.method if self.is_real else f"{self.method}, seed {self.seed}"


class Found(NamedTuple):
    """A configuration as its folder has it, before it is named among the others."""

    named: Path
    folder: Path
    table_index: int
    values: dict[str, Any]
    settings: dict[str, Any]
    entry: dict[str, Any]
    run_folder: Path
    digest: str
    metrics: pa.Table


def name_all(found: Sequence[Found]) -> list[Configuration]:
    """Give every configuration a case and a method that tell it apart from all others."""
    return _with_indices(_with_names(found))


def _with_names(found: Sequence[Found]) -> list[Configuration]:
    """Give every configuration its case and its method, by what differs among all of them."""
    differing = _differing([one.settings for one in found])
    in_data = [key for key in differing if key.startswith("data.")]
    seeds = [_seed(one.values.get("seed", one.settings.get("seed"))) for one in found]
    splits = [one.settings.get("data.seed") for one in found]
    if len(set(splits)) > 1:  # splits are seeds too, unless the runs have several of those
        if len(set(seeds)) == 1:
            seeds = [_seed(split) for split in splits]
        else:
            in_data.append("data.seed")
    cases = [one.values["part"] if "part" in one.values else _case(one, in_data) for one in found]
    others = {
        case: [
            key
            for key in _differing([one.settings for one, c in zip(found, cases, strict=True)
                                   if c == case])
            if not key.startswith("data.") and not _is_of_portfolios(key, found)
        ]
        for case in set(cases)
    }  # fmt: skip
    methods = {str(one.settings.get(NAME)) for one in found}
    swept = {
        (name, key)
        for name in methods
        for key in _differing(
            [one.settings for one in found if str(one.settings.get(NAME)) == name]
        )
    }

    def tells(one: Found, key: str) -> bool:
        """Whether a setting is more than a default that other methods do not have."""
        return (str(one.settings.get(NAME)), key) in swept or not _is_default(one.settings, key)

    return [
        Configuration(
            one.named,
            one.folder,
            one.table_index,
            case,
            one.values.get("method")
            or label_of(one.settings, [key for key in others[case] if tells(one, key)], methods),
            seed,
            one.settings,
            one.entry,
            one.entry["data"],
            one.run_folder,
            one.digest,
        )
        for one, seed, case in zip(found, seeds, cases, strict=True)
    ]


def _is_of_portfolios(key: str, found: Sequence[Found]) -> bool:
    """Tell whether all portfolios have the same value of a setting that single models lack."""
    if not key.startswith("portfolio.") or key == "portfolio.models":
        return False
    return len({repr(one.settings[key]) for one in found if key in one.settings}) == 1


def _is_default(settings: Mapping[str, Any], key: str) -> bool:
    """Tell whether a hyper-parameter is as its method has it by default."""
    section, _, name = key.partition(".")
    factory = ALGORITHMS.get(str(settings.get(NAME)))
    if section != "algorithm" or factory is None:
        return False
    parameter = inspect.signature(factory).parameters.get(name)
    return parameter is not None and settings.get(key) == parameter.default


def _seed(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):  # from Python it may be missing, or anything
        return 0


def _case(found: Found, keys: Sequence[str]) -> str:
    settings = found.settings
    return ", ".join(f"{k.removeprefix('data.')} {settings[k]}" for k in keys if k in settings)


def _differing(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the keys whose values are not the same everywhere, without seeds."""
    keys = dict.fromkeys(key for table in settings for key in table)
    return [
        key
        for key in keys
        if key not in SEEDS and len({repr(table.get(key)) for table in settings}) > 1
    ]


def _with_indices(named: Sequence[Configuration]) -> list[Configuration]:
    """Add the index to configurations of one folder that nothing else tells apart."""
    known: dict[tuple[str, str, int], list[Configuration]] = {}
    for one in named:
        known.setdefault((one.case, one.method, one.seed), []).append(one)
    distinct = []
    for one in named:
        alike = known[one.case, one.method, one.seed]
        if others := {c.named for c in alike} - {one.named}:
            raise InputError(
                f"{one.named} has {one.method} with seed {one.seed} on the same data as "
                f"{min(others)}: leave one of them out"
            )
        method = f"{one.method}, configuration {one.table_index}"
        distinct.append(one._replace(method=method) if len(alike) > 1 else one)
    return distinct


def start_round(configurations: Sequence[Configuration]) -> int | None:
    """Return the round after which clients may leave, if it is the same for all of them."""
    starts = {
        one.settings.get("participation.start_round")
        if one.settings.get("participation.rule", "everyone") != "everyone"
        else None
        for one in configurations
    }
    return starts.pop() if len(starts) == 1 else None


AUTO = "maxfl-auto"
WEIGHTED = ("maxfl", "maxfl-annealed", AUTO)
"""Methods whose weight is q."""
FLAT = 1e3
"""In place of the temperature at which all clients weigh the same."""


def temperature(
    settings: Mapping[str, Any], done: int, gap: NDArray[Any], weight: NDArray[Any]
) -> float:
    """Return T of a method's weight after some rounds; 1 for methods that have none.

    A method that finds its own has the one that clients' weights, float[K], show at their gaps.
    """
    name = settings.get(NAME)
    if name == AUTO:
        return observed_temperature(gap, weight)
    if name not in WEIGHTED:
        return 1.0
    given = {k.removeprefix("algorithm."): v for k, v in settings.items()
             if k.startswith("algorithm.") and k != NAME and v is not None}  # fmt: skip
    hparams = ALGORITHMS[name](**given).hparams
    now = hparams.temperature if name == "maxfl" else annealed_temperature(hparams, done)
    return float(now)


def observed_temperature(gap: NDArray[Any], weight: NDArray[Any]) -> float:
    """Return the T at which gaps, float[K], have these weights.

    They are q = e/(1 + e)² with e = exp(−|gap|/T), solved for T; the median over clients.
    """
    gap, q = np.abs(gap).astype(np.float64), np.asarray(weight, np.float64)
    known = (q > 1e-6) & (q < 0.2499) & (gap > 0)  # beyond, rounding is all that is left of it
    if not known.any():
        return FLAT
    q = q[known]
    e = (1 - 2 * q - np.sqrt(1 - 4 * q)) / (2 * q)
    return float(np.median(gap[known] / -np.log(e)))
