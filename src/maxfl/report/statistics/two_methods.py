"""Two methods in full: every measure that was asked for, for every case that both have."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from maxfl.core.metrics import MetricInfo
from maxfl.report.measures import APPEAL, Measure, measure_of
from maxfl.report.series import all_series, shown_name
from maxfl.report.source import Source
from maxfl.report.statistics.bootstrap import LEVEL
from maxfl.report.statistics.compare import (
    Difference,
    Results,
    Satisfied,
    difference,
    read_traces,
    satisfied_by_one,
)
from maxfl.report.statistics.mcnemar import McNemar
from maxfl.report.statistics.pairing import Pair
from maxfl.report.statistics.sides import Sides
from maxfl.utils.errors import check_choice

LOSS = MetricInfo("loss", higher_is_better=False)
GROUPS = ("seen", "unseen")


class TwoMethods(NamedTuple):
    """A against B on one data set.

    Attributes:
        pair: The two, and their seeds.
        a: What A is called, with the model that its clients would use.
        b: What B is called.
        differences: Of every measure and group of clients.
        satisfied: By group, whom one alone satisfies; empty without single clients.
    """

    pair: Pair
    a: str
    b: str
    differences: list[Difference]
    satisfied: dict[str, Satisfied]


class _Measured(NamedTuple):
    measure: Measure
    info: MetricInfo


def measures_of(source: Source) -> dict[str, _Measured]:
    """Return what can be compared, by its name in metrics.parquet, the usual three first."""
    first = source.metric
    infos = source.configurations[0].entry.get("metrics") or [first._asdict()]
    others = [MetricInfo(**info) for info in infos[1:]]
    found = [
        _Measured(APPEAL, first),
        _Measured(measure_of(first), first),
        _Measured(measure_of(first, "preferred"), first),
        *(_Measured(measure_of(info), info) for info in [*others, LOSS]),
    ]
    named: dict[str, _Measured] = {}
    for one in found:  # a model whose only metric is its loss has that once
        named.setdefault(one.measure.key, one)
    return named


def compare_two(
    sides: Sides,
    measures: Sequence[str] = (),
    clients: Sequence[str] = GROUPS,
    *,
    only_global: bool = False,
) -> list[TwoMethods]:
    """Compare two methods, case by case.

    Args:
        sides: The two.
        measures: Names as in metrics.parquet; by default GM-Appeal, the first metric, and that of
            the preferred model.
        clients: Seen, unseen, or both.
        only_global: Whether to compare global models also where clients have personal ones.
    """
    known = measures_of(sides.source)
    names = [check_choice("--measure", name, known) for name in measures] or list(known)[:3]
    chosen = [known[name] for name in dict.fromkeys(names)]
    series = all_series(sides.source, [one.measure for one in chosen])
    if only_global:
        series = {key: values for key, values in series.items() if key.model == "global"}
    first = Results(sides.source, series, read_traces(sides.source, series))
    results = {sides.source.metric: first}
    for one in chosen:
        if one.info not in results:
            traces = read_traces(sides.source, series, measure_of(one.info).key)
            results[one.info] = first._replace(traces=traces)
    return [_compare(pair, chosen, clients, results) for pair in sides.pairs]


def _compare(
    pair: Pair,
    chosen: Sequence[_Measured],
    clients: Sequence[str],
    results: Mapping[MetricInfo, Results],
) -> TwoMethods:
    """Compare two methods on one data set, given results with the values of each metric."""
    first = next(iter(results.values()))
    a, b = (shown_name(first.series, pair.case, method) for method in (pair.first, pair.second))
    found = [
        difference(results[one.info], pair, group, *one) for one in chosen for group in clients
    ]
    satisfied = {group: satisfied_by_one(first, pair, group) for group in clients}
    return TwoMethods(
        pair,
        a,
        b,
        [one for one in found if one],
        {group: tests for group, tests in satisfied.items() if tests},
    )


def as_json(compared: Sequence[TwoMethods], notes: Sequence[str]) -> dict[str, Any]:
    """Lay comparisons out as plain data for machines."""
    return {
        "level": LEVEL,
        "comparisons": [
            {
                "data": one.pair.case,
                "a": one.a,
                "b": one.b,
                "seeds": one.pair.seeds,
                "same_clients_in_all_seeds": any(s.same_clients for s in one.satisfied.values()),
                "differences": [_difference(d) for d in one.differences],
                "mcnemar": {group: _satisfied(s, one.pair) for group, s in one.satisfied.items()},
            }
            for one in compared
        ],
        "notes": list(notes),
    }


def _difference(one: Difference) -> dict[str, Any]:
    mean, low, high = (float(v) if isfinite(v) else None for v in one.interval)
    return {
        "measure": one.measure.key,
        "clients": one.clients,
        "a_by_seed": _numbers(one.a),
        "b_by_seed": _numbers(one.b),
        "difference": mean,
        "low": low,
        "high": high,
        "resampled": one.resampled or None,
        "a_is": one.word or None,
        "refused": one.refused or None,
    }


def _numbers(values: Sequence[float]) -> list[float | None]:
    return [float(v) if np.isfinite(v) else None for v in values]


def _satisfied(one: Satisfied, pair: Pair) -> dict[str, Any]:
    def plain(test: McNemar) -> dict[str, Any]:
        return test._asdict()

    return {
        **plain(one.all_seeds),
        "by_seed": {
            str(seed): plain(test) for seed, test in zip(pair.seeds, one.by_seed, strict=True)
        },
    }
