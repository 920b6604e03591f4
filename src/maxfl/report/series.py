"""Metrics over rounds, and which methods are drawn."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from maxfl.report.source import Source
from maxfl.report.style import COLOURS

SHOWN = ("gm_appeal", "test_accuracy", "preferred_accuracy", "willing")
"""Metrics of the summary; all but GM-Appeal in per cent."""
MOST_LINES = len(COLOURS)
"""Methods of a case with curves and clients; more could not be told apart."""


class Series(NamedTuple):
    """A metric over rounds, one row per seed.

    Attributes:
        rounds: int[E].
        values: float[S, E].
    """

    rounds: NDArray[np.int64]
    values: NDArray[np.float64]


class Key(NamedTuple):
    """Which metric of whom."""

    case: str
    method: str
    clients: str
    model: str
    metric: str


def all_series(source: Source) -> dict[Key, Series]:
    """Every metric over rounds."""
    wanted = source.metrics.filter(pc.field("metric").isin(SHOWN))
    order = [(k, "ascending") for k in ("case", "method", "clients", "model", "metric", "seed",
                                        "round")]  # fmt: skip
    table = wanted.sort_by(order)
    columns = [table[name].to_pylist() for name in Key._fields]
    rounds, seeds = table["round"].to_numpy(), table["seed"].to_numpy()
    values = table["value"].to_numpy()
    rows: dict[Key, list[int]] = {}
    for i, key in enumerate(zip(*columns, strict=True)):
        rows.setdefault(Key(*key), []).append(i)
    return {key: _series(rounds[own], seeds[own], values[own]) for key, own in rows.items()}


def _series(
    rounds: NDArray[np.int64], seeds: NDArray[np.int64], values: NDArray[np.float64]
) -> Series:
    """One row per seed, on the rounds that all of them have."""
    every = [rounds[seeds == seed] for seed in np.unique(seeds)]
    common = every[0]
    for own in every[1:]:
        common = np.intersect1d(common, own)
    kept = np.isin(rounds, common)
    return Series(common, values[kept].reshape(len(every), len(common)).astype(np.float64))


def final_appeal(series: Mapping[Key, Series], case: str, method: str) -> float:
    """GM-Appeal of the seen clients in the end, mean over seeds; -1 if it is not known."""
    own = series.get(Key(case, method, "seen", "global", "gm_appeal"))
    return -1.0 if own is None else float(np.nan_to_num(own.values[:, -1]).mean())


def shown_methods(source: Source, series: Mapping[Key, Series], case: str) -> list[str]:
    """Those of a case that are drawn: all, or the best by GM-Appeal, in their own order."""
    methods = source.methods(case)
    if len(methods) <= MOST_LINES:
        return methods
    best = sorted(methods, key=lambda m: -final_appeal(series, case, m))[:MOST_LINES]
    return [method for method in methods if method in best]
