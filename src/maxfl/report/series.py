"""Metrics over rounds, and which methods are drawn."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from maxfl.report.source import Source
from maxfl.report.style import COLOURS

SUMMARY_METRICS = ("gm_appeal", "test_accuracy", "preferred_accuracy", "willing")
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
    """Which metric, of which clients and model, under which method and data."""

    case: str
    method: str
    clients: str
    model: str
    metric: str


def all_series(source: Source) -> dict[Key, Series]:
    """Lay out every metric of the summary over rounds."""
    chosen = source.metrics.filter(pc.field("metric").isin(SUMMARY_METRICS))
    order = [(k, "ascending") for k in ("case", "method", "clients", "model", "metric", "seed",
                                        "round")]  # fmt: skip
    table = chosen.sort_by(order)
    columns = [table[name].to_pylist() for name in Key._fields]
    rounds, seeds = table["round"].to_numpy(), table["seed"].to_numpy()
    values = table["value"].to_numpy()
    rows: dict[Key, list[int]] = {}
    for i, key in enumerate(zip(*columns, strict=True)):
        rows.setdefault(Key(*key), []).append(i)
    return {key: _series(rounds[i], seeds[i], values[i]) for key, i in rows.items()}


def _series(
    rounds: NDArray[np.int64], seeds: NDArray[np.int64], values: NDArray[np.float64]
) -> Series:
    """Lay out one row per seed, on the rounds that all of them have."""
    by_seed = [rounds[seeds == seed] for seed in np.unique(seeds)]
    common = by_seed[0]
    for evaluated in by_seed[1:]:
        common = np.intersect1d(common, evaluated)
    is_common = np.isin(rounds, common)
    return Series(common, values[is_common].reshape(len(by_seed), len(common)).astype(np.float64))


def final_appeal(series: Mapping[Key, Series], case: str, method: str) -> float:
    """Return the final GM-Appeal of seen clients, mean over seeds; -1 if it is not known."""
    appeal = series.get(Key(case, method, "seen", "global", "gm_appeal"))
    return -1.0 if appeal is None else float(np.nan_to_num(appeal.values[:, -1]).mean())


def drawn_methods(source: Source, series: Mapping[Key, Series], case: str) -> list[str]:
    """Return the methods of a case that are drawn: all, or the best by GM-Appeal; in order."""
    methods = source.methods(case)
    if len(methods) <= MOST_LINES:
        return methods
    best = sorted(methods, key=lambda m: -final_appeal(series, case, m))[:MOST_LINES]
    return [method for method in methods if method in best]
