"""Two methods compared: the paired difference of a measure, and who is satisfied by one alone."""

from collections.abc import Mapping
from math import nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.core.metrics import MetricInfo
from maxfl.report.measures import APPEAL, Measure, measure_of
from maxfl.report.series import Key, Series, drawn_methods, used_model, used_series
from maxfl.report.source import Source
from maxfl.report.statistics.bootstrap import Interval, bootstrap
from maxfl.report.statistics.mcnemar import McNemar, exact_mcnemar, mcnemar
from maxfl.report.statistics.pairing import (
    Both,
    Pair,
    Traces,
    clients_of,
    in_all_seeds,
    other_demands,
)
from maxfl.report.traces import Trace, TraceKey, read_trace

FEWEST_SEEDS = 5
"""Below, two methods that do equally well come out in one order in all seeds too often."""
AHEAD, BEHIND, NOT_TOLD_APART = "ahead", "behind", "not told apart"


class Results(NamedTuple):
    """What comparisons are made from: means of all methods, and clients where they are known."""

    source: Source
    series: Mapping[Key, Series]
    traces: Traces


def read_traces(
    source: Source, series: Mapping[Key, Series], metric: str | None = None
) -> dict[TraceKey, Trace]:
    """Read the single clients of all drawn methods, with the model that they would use.

    ``metric`` is the column of a metric, by default that of the model's first.
    """
    found = {}
    for case in source.cases:
        for method in drawn_methods(source, series, case):
            model = used_model(series, case, method)
            for configuration in source.of(case, method):
                trace = read_trace(configuration, model, metric)
                if trace is not None:
                    found[case, method, configuration.seed] = trace
    return found


class Difference(NamedTuple):
    """A − B of one measure over one group of clients.

    Attributes:
        measure: Which.
        clients: Seen or unseen.
        a: A's mean in each seed.
        b: B's.
        interval: Of A − B.
        resampled: What was drawn for it, in words; "" if there is no interval.
        higher_is_better: Which way is ahead.
        refused: Why A and B can't be subtracted; "" if they can.
    """

    measure: Measure
    clients: str
    a: list[float]
    b: list[float]
    interval: Interval
    resampled: str
    higher_is_better: bool
    refused: str = ""

    @property
    def word(self) -> str:
        """Where A stands: ahead, behind, or not told apart; "" where nothing can be said.

        One seed tells of two models and not of two methods, so nothing is said of these.
        """
        _, low, high = self.interval
        if len(self.a) < 2 or not np.isfinite([low, high]).all():
            return ""
        up, down = (AHEAD, BEHIND) if self.higher_is_better else (BEHIND, AHEAD)
        return up if low > 0 else down if high < 0 else NOT_TOLD_APART


def difference(
    results: Results, pair: Pair, clients: str, measure: Measure, info: MetricInfo | None = None
) -> Difference | None:
    """Subtract B from A seed by seed and, where clients are known, client by client.

    Args:
        results: Of all methods.
        pair: A and B.
        clients: Seen or unseen.
        measure: What is compared, of the model that clients would use.
        info: Of the metric; by default the model's first. Traces have its values.

    Returns:
        None if the measure is not known for these clients.
    """
    source, series, traces = results
    info = info or source.metric
    needs_requirement = measure in (APPEAL, measure_of(info, "preferred"))
    refused = other_demands(source, traces, pair) if needs_requirement else ""
    higher = measure == APPEAL or info.higher_is_better
    known = in_all_seeds(traces, pair, clients)
    if known and all(both.group.any() for both in known):
        values = [tuple(_values(t, measure, info)[both.group] for t in both[:2]) for both in known]
        a, b = ([float(side[i].mean()) for side in values] for i in (0, 1))
        ids = clients_of(pair, known)
        interval = bootstrap([x - y for x, y in values], ids)
        drawn = "seeds and clients" if len(known) > 1 else "clients"
    else:
        a, b = (_finals(source, series, pair, m, clients, measure) for m in pair[1:3])
        if not a or not b:
            return None
        interval = bootstrap([np.array([x - y]) for x, y in zip(a, b, strict=True)])
        drawn = "seeds"
    if refused:
        interval = Interval(nan, nan, nan)
    drawn = drawn if np.isfinite(interval.low) else ""
    return Difference(measure, clients, a, b, interval, drawn, higher, refused)


def _values(trace: Trace, measure: Measure, info: MetricInfo) -> NDArray[np.float64]:
    """Return a measure of every client in the end, float[K]."""
    satisfied, metric = trace.satisfied[-1], trace.metric[-1].astype(np.float64)
    if measure == APPEAL:
        return satisfied.astype(np.float64)
    if measure == measure_of(info, "preferred"):
        return np.where(trace.chosen[-1], metric, trace.solo_metric)
    return metric


def _finals(
    source: Source,
    series: Mapping[Key, Series],
    pair: Pair,
    method: str,
    clients: str,
    measure: Measure,
) -> list[float]:
    """Return a method's final means in the seeds of a pair; nothing where they are not known."""
    found = used_series(series, pair.case, method, clients, measure)
    if found is None:
        return []
    seeds = [c.seed for c in source.of(pair.case, method)]
    finals = [float(found.values[seeds.index(seed), -1]) for seed in pair.seeds]
    # A run that diverged satisfies nobody.
    return [float(np.nan_to_num(v)) for v in finals] if measure == APPEAL else finals


class Satisfied(NamedTuple):
    """Clients that one of two methods satisfies and the other does not.

    Attributes:
        by_seed: McNemar's test in each seed.
        all_seeds: Over all of them, every client once.
        same_clients: Whether all seeds have the same clients.
    """

    by_seed: list[McNemar]
    all_seeds: McNemar
    same_clients: bool


def satisfied_by_one(results: Results, pair: Pair, clients: str) -> Satisfied | None:
    """Count clients that one method alone satisfies, and test; None without single clients."""
    known = in_all_seeds(results.traces, pair, clients)
    if not known or not any(both.group.any() for both in known):
        return None
    if other_demands(results.source, results.traces, pair):
        return None
    a, b = zip(*map(_satisfied, known), strict=True)
    ids = clients_of(pair, known)
    by_seed = [
        exact_mcnemar(int((x & ~y).sum()), int((y & ~x).sum())) for x, y in zip(a, b, strict=True)
    ]
    return Satisfied(by_seed, mcnemar(a, b, ids), ids is not None)


def _satisfied(both: Both) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return whom A and B satisfy of the clients that count, bool[K] each."""
    return both.a.satisfied[-1, both.group], both.b.satisfied[-1, both.group]


def few_seeds(seeds: int) -> str:
    """Say how little a few seeds can tell; "" if they are five or more."""
    if seeds >= FEWEST_SEEDS:
        return ""
    how = (
        """run at least five, as with `maxfl sweep FILE --over 'algorithm.name=["maxfl-auto", """
        """"fedavg"]' --over "seed=[0,1,2,3,4]"`"""
    )
    if seeds == 1:
        return (
            "One seed tells of these two models, not of the methods: another seed may turn their "
            f"order round; {how}"
        )
    return (
        f"{seeds} seeds tell little: methods that do equally well come out in the same order in "
        f"all of them in 1 of {2 ** (seeds - 1)} cases, and an interval over so few seeds is too "
        f"narrow; {how}"
    )
