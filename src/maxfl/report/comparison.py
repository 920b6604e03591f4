"""Methods against each other, seed by seed, on clients that both were trained for."""

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.report.configurations import Configuration
from maxfl.report.measures import APPEAL, Measure, direction, measure_of
from maxfl.report.series import Key, Series, drawn_methods, final_appeal
from maxfl.report.source import Source
from maxfl.report.table import Cell, Statistic, Table, narrow
from maxfl.report.traces import Trace, TraceKey

PAIRED = (
    "Paired: both methods had the same clients and data in every seed; ± is the sample standard "
    "deviation of the difference over seeds. Only A, only B: clients, per seed, whom one final "
    "model satisfies and the other does not (held-out loss, honest clients)."
)


class Standing(NamedTuple):
    """Methods of a case by GM-Appeal, on the seeds in which all of them had the same clients.

    Attributes:
        ranked: (method, its values), best first.
        seeds: Those counted; empty if the methods have none in common.
        ahead: Whether the first is further ahead of the second than seeds differ; with one seed,
            that is not known, and False.
    """

    ranked: list[tuple[str, NDArray[np.float64]]]
    seeds: list[int]
    ahead: bool


def standing(source: Source, series: Mapping[Key, Series], case: str) -> Standing:
    """Rank methods by the clients that they satisfy, and say whether the first is ahead."""
    methods = source.methods(case)
    federations = [{c.seed: federation_of(c) for c in source.of(case, m)} for m in methods]
    first = federations[0]
    common = [s for s in first if all(others.get(s) == first[s] for others in federations)]
    finals = []
    for method, by_seed in zip(methods, federations, strict=True):
        appeal = series.get(Key(case, method, "seen", "global", "gm_appeal"))
        if appeal is not None:
            rows = [i for i, seed in enumerate(sorted(by_seed)) if seed in common or not common]
            last = appeal.values[rows, -1]
            if np.isfinite(last).any():
                finals.append((method, np.nan_to_num(last)))
    ranked = sorted(finals, key=lambda pair: -pair[1].mean())
    if len(ranked) < 2 or not common:
        return Standing(ranked, common, False)
    lead = ranked[0][1] - ranked[1][1]
    ahead = len(lead) > 1 and lead.mean() > lead.std(ddof=1)
    return Standing(ranked, common, bool(ahead))


class Pair(NamedTuple):
    """Two methods on the same data, seed by seed.

    Attributes:
        case: The data.
        first: A.
        second: B.
        seeds: That both have.
    """

    case: str
    first: str
    second: str
    seeds: list[int]


def pairs(source: Source, series: Mapping[Key, Series]) -> list[Pair]:
    """Pair drawn methods that had the same federation in some seed, the better one as A."""
    found = []
    for case in source.cases:
        drawn = drawn_methods(source, series, case)
        ranked = sorted(drawn, key=lambda m: -final_appeal(series, case, m))
        for first, second in combinations(ranked, 2):
            seconds = {c.seed: federation_of(c) for c in source.of(case, second)}
            firsts = source.of(case, first)
            both = [c.seed for c in firsts if seconds.get(c.seed) == federation_of(c)]
            if both:
                found.append(Pair(case, first, second, both))
    return found


def federation_of(configuration: Configuration) -> str:
    """Return what tells federations apart; where there are only means, which study's it is."""
    return configuration.digest or str(configuration.named)


def comparison_table(
    source: Source,
    series: Mapping[Key, Series],
    compared: Sequence[Pair],
    traces: Mapping[TraceKey, Trace],
) -> Table | None:
    """Tabulate A − B for each pair and group of clients, paired by seed; None without pairs."""
    measured = measure_of(source.metric)
    measures = APPEAL, measured
    rows: list[tuple[Cell, ...]] = []
    for pair in compared:
        for clients in ("seen", "unseen"):
            found = [_difference(source, series, traces, pair, clients, m) for m in measures]
            differences = [values for values in found if values is not None]
            if len(differences) < len(found):
                continue
            rows.append((
                pair.case, pair.first, pair.second, clients, len(pair.seeds),
                *(measure.statistic(values, signed=True)
                  for values, measure in zip(differences, measures, strict=True)),
                *(Statistic.of(counts, 1 if len(counts) > 1 else 0)
                  for counts in _satisfied_by_one(traces, pair, clients)),
            ))  # fmt: skip
    if not rows:
        return None
    unit = (", points" if measured.percent else "") + direction(source.metric)
    headings = (
        "data", "A", "B", "clients", "seeds", "GM-Appeal, A − B", f"{measured.words}, A − B{unit}",
        "clients only A satisfies", "clients only B satisfies",
    )  # fmt: skip
    return narrow(Table("comparison", "Methods against each other", headings, rows, (PAIRED,)))


def _difference(
    source: Source,
    series: Mapping[Key, Series],
    traces: Mapping[TraceKey, Trace],
    pair: Pair,
    clients: str,
    measure: Measure,
) -> Sequence[float] | None:
    """Return A − B of a measure for every seed; over clients that are honest in both."""
    finals = []
    for method in (pair.first, pair.second):
        measured = series.get(Key(pair.case, method, clients, "global", measure.key))
        if measured is None:
            return None
        seeds = [c.seed for c in source.of(pair.case, method)]
        finals.append([measured.values[seeds.index(seed), -1] for seed in pair.seeds])
    differences = [a - b for a, b in zip(*finals, strict=True)]
    for i, seed in enumerate(pair.seeds):
        both = _both(traces, pair, seed, clients)
        if both is not None and (both.a.byzantine != both.b.byzantine).any():
            field = "satisfied" if measure is APPEAL else "metric"
            a, b = (getattr(t, field)[-1, both.group].mean() for t in (both.a, both.b))
            differences[i] = float(a - b)
    return differences


class _Both(NamedTuple):
    """Two methods' clients in one seed, and those of a group that are honest in both, bool[K]."""

    a: Trace
    b: Trace
    group: NDArray[np.bool_]


def _both(traces: Mapping[TraceKey, Trace], pair: Pair, seed: int, clients: str) -> _Both | None:
    a, b = (traces.get((pair.case, m, seed)) for m in (pair.first, pair.second))
    if a is None or b is None:
        return None
    group = a.seen if clients == "seen" else ~a.seen
    return _Both(a, b, group & ~a.byzantine & ~b.byzantine)


def _satisfied_by_one(
    traces: Mapping[TraceKey, Trace], pair: Pair, clients: str
) -> tuple[list[float], list[float]]:
    """Count, for each seed, the clients that only A satisfies, and those that only B does."""
    found = [both for seed in pair.seeds if (both := _both(traces, pair, seed, clients))]
    satisfied = [(both.a.satisfied_at_end, both.b.satisfied_at_end, both.group) for both in found]
    return (
        [float((a & ~b & group).sum()) for a, b, group in satisfied],
        [float((b & ~a & group).sum()) for a, b, group in satisfied],
    )


def satisfied_by_one_table(pairs: Sequence[Pair], traces: Mapping[TraceKey, Trace]) -> Table:
    """List every client that one method of a pair satisfies and the other does not."""
    rows: list[tuple[Cell, ...]] = []
    for pair in pairs:
        for seed, clients in product(pair.seeds, ("seen", "unseen")):
            both = _both(traces, pair, seed, clients)
            if both is None:
                continue
            a, b = both.a.satisfied_at_end, both.b.satisfied_at_end
            for k in np.flatnonzero((a != b) & both.group):
                satisfying, other = (pair.first, pair.second)[:: 1 if a[k] else -1]
                rows.append((pair.case, satisfying, other, seed, str(both.a.name[k]), clients))
    headings = ("data", "satisfied by", "not by", "seed", "client", "group")
    title = "Clients that one of two methods satisfies"
    return narrow(Table("satisfied-by-one", title, headings, rows))
