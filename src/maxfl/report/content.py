"""The tables of a report: what each method reaches, and how methods differ, seed by seed."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from maxfl.figures import COLOURS
from maxfl.report.source import Configuration, Source
from maxfl.report.table import Cell, Figure, Table
from maxfl.report.traces import Trace

SHOWN = ("gm_appeal", "test_accuracy", "preferred_accuracy", "willing")
"""Metrics of the summary; all but GM-Appeal in per cent."""
READING = (
    "GM-Appeal: share of clients whose held-out loss with the global model is below what they "
    "require, by default that of a model trained alone. Preferred-model accuracy: if clients so "
    "satisfied use the global model and the others their own. ± is the sample deviation over seeds."
)
MOST_LINES = len(COLOURS)
"""Methods of a case with curves and clients; more could not be told apart."""
PAIRED = (
    "Paired: both methods had the same clients and data in every seed; ± is the sample of "
    "the difference over seeds. Only A, only B: clients, per seed, whose requirement one final "
    "model meets and the other does not (held-out loss, honest clients)."
)


TraceKey = tuple[str, str, int]
"""Case, method and seed."""


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


def summary_table(source: Source, series: Mapping[Key, Series]) -> Table:
    """A row for each case, method, group of clients and model."""
    rows: list[tuple[Cell, ...]] = []
    for case, method in _methods(source):
        seeds = len(source.of(case, method))
        for clients, model in _groups(series, case, method):
            found = [series.get(Key(case, method, clients, model, m)) for m in SHOWN]
            figures = [
                Figure.of([] if own is None else own.values[:, -1], *_digits(metric))
                for metric, own in zip(SHOWN, found, strict=True)
            ]
            whose = clients if model == "global" else f"{clients}, personal"
            rows.append((case, method, whose, seeds, *figures))
    headings = (
        "data", "method", "clients", "seeds", "GM-Appeal", "test accuracy, %",
        "preferred-model accuracy, %", "willing, %",
    )  # fmt: skip
    return _narrow(Table("summary", "Final models", headings, rows, (READING,)))


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
    met = [{c.seed: _met(c) for c in source.of(case, m)} for m in methods]
    common = [s for s in met[0] if all(own.get(s) == met[0][s] for own in met)]
    found = []
    for method, own in zip(methods, met, strict=True):
        values = series.get(Key(case, method, "seen", "global", "gm_appeal"))
        if values is not None:
            rows = [i for i, seed in enumerate(sorted(own)) if seed in common or not common]
            found.append((method, np.nan_to_num(values.values[rows, -1])))
    ranked = sorted(found, key=lambda pair: -pair[1].mean())
    if len(ranked) < 2 or not common:
        return Standing(ranked, common, False)
    lead = ranked[0][1] - ranked[1][1]
    return Standing(ranked, common, lead.mean() > (lead.std(ddof=1) if len(lead) > 1 else 0.0))


def _digits(metric: str) -> tuple[int, bool]:
    return (2, False) if metric == "gm_appeal" else (1, True)


def _narrow(table: Table) -> Table:
    """Without the column of the data where there is only one case."""
    if any(row[0] for row in table.rows):
        return table
    return table._replace(headings=table.headings[1:], rows=[row[1:] for row in table.rows])


def _methods(source: Source) -> Iterator[tuple[str, str]]:
    for case in source.cases:
        for method in source.methods(case):
            yield case, method


def _groups(series: Mapping[Key, Series], case: str, method: str) -> list[tuple[str, str]]:
    own = {(k.clients, k.model) for k in series if (k.case, k.method) == (case, method)}
    order = [(c, m) for m in ("global", "personal") for c in ("seen", "unseen")]
    return [pair for pair in order if pair in own]


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
            there = {c.seed: _met(c) for c in source.of(case, second)}
            both = [c.seed for c in source.of(case, first) if there.get(c.seed) == _met(c)]
            if both:
                found.append(Pair(case, first, second, both))
    return found


def _met(own: Configuration) -> str:
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
                *(Figure.of(own, *_digits(m), signed=True)
                  for own, m in zip(differences, SHOWN[:2], strict=True)),
                *(Figure.of(own, 1 if len(own) > 1 else 0) for own in lost),
            ))  # fmt: skip
    headings = (
        "data", "A", "B", "clients", "seeds", "GM-Appeal, A − B", "test accuracy, A − B, points",
        "clients only A keeps", "clients only B keeps",
    )  # fmt: skip
    if not rows:
        return None
    return _narrow(Table("comparison", "Methods against each other", headings, rows, (PAIRED,)))


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
    return _narrow(Table("kept-and-lost", "Clients that one method keeps", headings, rows))


def clients_table(traces: Mapping[TraceKey, Trace]) -> Table:
    """A row for each client of each run: why it keeps the model, or does not."""
    rows: list[tuple[Cell, ...]] = []
    for (case, method, seed), own in traces.items():
        gap = own.held_out_gap[-1]
        for k in range(len(own.seen)):
            rows.append((
                case, method, seed, str(own.name[k]), "seen" if own.seen[k] else "unseen",
                int(own.train_samples[k]), "yes" if own.flipped[k] else "no",
                *client_cells(own, k, float(gap[k])),
            ))  # fmt: skip
    headings = (
        "data", "method", "seed", "client", "group", "training samples", "flipped", "requirement",
        "held-out loss", "gap", "test accuracy, %", "solo accuracy, %", "keeps the model",
        "willing", "asked", "took part",
    )  # fmt: skip
    return _narrow(Table("clients", "Every client in the end", headings, rows))


def client_cells(own: Trace, k: int, gap: float) -> tuple[Cell, ...]:
    """A client's figures at the end."""
    verdict = "lies" if own.byzantine[k] else "yes" if own.satisfied[-1, k] else "no"
    return (
        Figure.of([own.test_requirement[k]], 3),
        Figure.of([own.test_loss[-1, k]], 3),
        Figure.of([gap], 3, signed=True),
        Figure.of([own.accuracy[-1, k]], 1, percent=True),
        Figure.of([own.solo_accuracy[k]], 1, percent=True),
        verdict,
        "yes" if own.willing[-1, k] else "no",
        int(own.asked[k]),
        int(own.joined[k]),
    )
