"""Metrics over rounds, and which methods are drawn."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from maxfl.report.measures import APPEAL, Measure, summary_measures
from maxfl.report.names import model_name
from maxfl.report.source import Source
from maxfl.report.style import COLOURS

MOST_LINES = len(COLOURS)
"""Methods of a case with curves and clients; more could not be told apart."""
REACH = 3.0
"""Times the end of the calmest curve that others are drawn: a diverged one must not flatten all."""


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


def all_series(source: Source, measures: Sequence[Measure] = ()) -> dict[Key, Series]:
    """Lay out every metric of the summary over rounds, and more if they are named."""
    names = [measure.key for measure in (*summary_measures(source.metric), *measures)]
    chosen = source.metrics.filter(pc.field("metric").isin(names))
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


def value_range(measure: Measure, curves: Sequence[Series]) -> tuple[float, float]:
    """Return what an axis shows: 0 to 1 for shares, and else as far as the curves go."""
    if measure.digits is not None:
        return 0.0, 1.0
    finite = [curve.values[np.isfinite(curve.values)] for curve in curves]
    low = _reach([-values.min(initial=0.0) for values in finite])
    high = _reach([values.max(initial=0.0) for values in finite])
    return (-low, high) if low or high else (0.0, 1.0)


def _reach(ends: Sequence[float]) -> float:
    """Return how far an axis goes to one side, given how far each curve does."""
    beyond = [float(end) for end in ends if end > 0]
    return 1.05 * min(max(beyond), REACH * min(beyond)) if beyond else 0.0


def used_model(series: Mapping[Key, Series], case: str, method: str) -> str:
    """Return the model that clients would use: their personal one where the method makes them."""
    key = Key(case, method, "seen", "personal", APPEAL.key)
    return key.model if key in series else "global"


def shown_name(series: Mapping[Key, Series], case: str, method: str) -> str:
    """Return what a method is called beside figures of the model that its clients would use."""
    return model_name(method, used_model(series, case, method))


def used_series(
    series: Mapping[Key, Series], case: str, method: str, clients: str, measure: Measure
) -> Series | None:
    """Return a measure of the model that clients would use; None if it is not known."""
    model = used_model(series, case, method)
    return series.get(Key(case, method, clients, model, measure.key))


def final_appeal(series: Mapping[Key, Series], case: str, method: str) -> float:
    """Return the final GM-Appeal of seen clients, mean over seeds; -1 if it is not known."""
    appeal = used_series(series, case, method, "seen", APPEAL)
    return -1.0 if appeal is None else float(np.nan_to_num(appeal.values[:, -1]).mean())


def drawn_methods(source: Source, series: Mapping[Key, Series], case: str) -> list[str]:
    """Return the methods of a case that are drawn, in order: all, or the highest by GM-Appeal."""
    methods = source.methods(case)
    if len(methods) <= MOST_LINES:
        return methods
    highest = sorted(methods, key=lambda m: -final_appeal(series, case, m))[:MOST_LINES]
    return [method for method in methods if method in highest]
