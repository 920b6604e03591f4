"""Methods against each other, seed by seed, on clients that both of them met."""

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.report.configurations import Configuration
from maxfl.report.series import SHOWN, Key, Series, final_appeal, shown_methods
from maxfl.report.source import Source
from maxfl.report.table import Cell, Figure, Table, digits_of, narrow
from maxfl.report.traces import Trace, TraceKey

PAIRED = (
    "Paired: both methods had the same clients and data in every seed; ± is the sample deviation "
    "of the difference over seeds. Only A, only B: clients, per seed, whose requirement one final "
    "model meets and the other does not (held-out loss, honest clients)."
)


class Standing(NamedTuple):
    """Methods of a case by GM-Appeal, on the seeds in which all of them met the same clients.

    Attributes:
        ranked: (method, its values), best first.
        seeds: Those counted; empty if the methods have none in common.
        ahead: Whether the first is further ahead of the second than seeds differ.
    """

    ranked: list[tuple[str, NDArray[np.float64]]]
    seeds: list[int]
    ahead: bool


def standing(source: Source, series: Mapping[Key, Series], case: str) -> Standing:
    """Who satisfies the most clients, and whether that can be said."""
    methods = source.methods(case)
    met = [{c.seed: met_by(c) for c in source.of(case, m)} for m in methods]
    common = [s for s in met[0] if all(own.get(s) == met[0][s] for own in met)]
    found = []
    for method, own in zip(methods, met, strict=True):
        values = series.get(Key(case, method, "seen", "global", "gm_appeal"))
        if values is not None:
            rows = [i for i, seed in enumerate(sorted(own)) if seed in common or not common]
            last = values.values[rows, -1]
            if np.isfinite(last).any():
                found.append((method, np.nan_to_num(last)))
    ranked = sorted(found, key=lambda pair: -pair[1].mean())
    if len(ranked) < 2 or not common:
        return Standing(ranked, common, False)
    lead = ranked[0][1] - ranked[1][1]
    return Standing(ranked, common, lead.mean() > (lead.std(ddof=1) if len(lead) > 1 else 0.0))


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
    """Pairs of drawn methods that met the same federation in some seed, the better one as A."""
    found = []
    for case in source.cases:
        shown = shown_methods(source, series, case)
        ranked = sorted(shown, key=lambda m: -final_appeal(series, case, m))
        for first, second in combinations(ranked, 2):
            there = {c.seed: met_by(c) for c in source.of(case, second)}
            both = [c.seed for c in source.of(case, first) if there.get(c.seed) == met_by(c)]
            if both:
                found.append(Pair(case, first, second, both))
    return found


def met_by(own: Configuration) -> str:
    """What tells whether two runs met the same clients; means alone only say which study's."""
    return own.digest or str(own.named)


def comparison_table(
    source: Source,
    series: Mapping[Key, Series],
    compared: Sequence[Pair],
    traces: Mapping[TraceKey, Trace],
) -> Table | None:
    """A row for each pair and group of clients: A − B, paired by seed; None without pairs."""
    rows: list[tuple[Cell, ...]] = []
    for pair in compared:
        for clients in ("seen", "unseen"):
            found = [_difference(source, series, traces, pair, clients, m) for m in SHOWN[:2]]
            differences = [own for own in found if own is not None]
            if len(differences) < len(found):
                continue
            lost = _kept_and_lost(traces, pair, clients)
            rows.append((
                pair.case, pair.first, pair.second, clients, len(pair.seeds),
                *(Figure.of(own, *digits_of(m), signed=True)
                  for own, m in zip(differences, SHOWN[:2], strict=True)),
                *(Figure.of(own, 1 if len(own) > 1 else 0) for own in lost),
            ))  # fmt: skip
    headings = (
        "data", "A", "B", "clients", "seeds", "GM-Appeal, A − B", "test accuracy, A − B, points",
        "clients only A keeps", "clients only B keeps",
    )  # fmt: skip
    if not rows:
        return None
    return narrow(Table("comparison", "Methods against each other", headings, rows, (PAIRED,)))


def _difference(
    source: Source,
    series: Mapping[Key, Series],
    traces: Mapping[TraceKey, Trace],
    pair: Pair,
    clients: str,
    metric: str,
) -> Sequence[float] | None:
    """A − B of a metric for every seed, over clients that are honest in both where that differs."""
    finals = []
    for method in (pair.first, pair.second):
        own = series.get(Key(pair.case, method, clients, "global", metric))
        if own is None:
            return None
        seeds = [c.seed for c in source.of(pair.case, method)]
        finals.append([own.values[seeds.index(seed), -1] for seed in pair.seeds])
    differences = [a - b for a, b in zip(*finals, strict=True)]
    for i, seed in enumerate(pair.seeds):
        both = _both(traces, pair, seed, clients)
        if both is not None and (both.a.byzantine != both.b.byzantine).any():
            field = "satisfied" if metric == "gm_appeal" else "accuracy"
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


def _kept_and_lost(
    traces: Mapping[TraceKey, Trace], pair: Pair, clients: str
) -> tuple[list[float], list[float]]:
    """Per seed, how many clients only A satisfies, and how many only B."""
    found = [both for seed in pair.seeds if (both := _both(traces, pair, seed, clients))]
    return (
        [float((both.a.kept & ~both.b.kept & both.group).sum()) for both in found],
        [float((both.b.kept & ~both.a.kept & both.group).sum()) for both in found],
    )


def kept_and_lost_table(pairs: Sequence[Pair], traces: Mapping[TraceKey, Trace]) -> Table:
    """A row for each client that one method of a pair keeps and the other loses."""
    rows: list[tuple[Cell, ...]] = []
    for pair in pairs:
        for seed, clients in product(pair.seeds, ("seen", "unseen")):
            both = _both(traces, pair, seed, clients)
            if both is None:
                continue
            for k in np.flatnonzero((both.a.kept != both.b.kept) & both.group):
                by, lost = (pair.first, pair.second)[:: 1 if both.a.kept[k] else -1]
                rows.append((pair.case, by, lost, seed, str(both.a.name[k]), clients))
    headings = ("data", "kept by", "lost by", "seed", "client", "group")
    return narrow(Table("kept-and-lost", "Clients that one method keeps", headings, rows))
