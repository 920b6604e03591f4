"""The tables of a report: what each method reaches, and how methods differ, seed by seed."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from maxfl.report.source import Source
from maxfl.report.table import Cell, Figure, Table
from maxfl.report.traces import Trace

SHOWN = ("gm_appeal", "test_accuracy", "preferred_accuracy", "willing")
"""Metrics of the summary; all but GM-Appeal in per cent."""
READING = (
    "GM-Appeal: share of clients whose held-out loss with the global model is below what they "
    "require, by default that of a model trained alone. Preferred-model accuracy: if clients so "
    "satisfied use the global model and the others their own. ± is the sample deviation over seeds."
)
PAIRED = (
    "Paired: both methods had the same clients, data and draws in every seed; ± is the sample "
    "deviation of the difference over seeds. Only A, only B: clients, per seed, whose requirement "
    "one final model meets and the other does not (held-out loss, honest clients)."
)


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
            whose = clients if model == "global" else f"{clients}, own models"
            rows.append((case, method, whose, seeds, *figures))
    headings = (
        "data", "method", "clients", "seeds", "GM-Appeal", "test accuracy, %",
        "preferred-model accuracy, %", "willing, %",
    )  # fmt: skip
    return _narrow(Table("summary", "Final models", headings, rows, (READING,)))


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
    """All pairs of methods that met the same federation in at least one seed, the better as A."""
    found = []
    for case in source.cases:
        ranked = sorted(source.methods(case), key=lambda m: -final_appeal(series, case, m))
        for first, second in combinations(ranked, 2):
            there = {c.seed: c.digest for c in source.of(case, second)}
            both = [c.seed for c in source.of(case, first) if there.get(c.seed) == c.digest]
            if both:
                found.append(Pair(case, first, second, both))
    return found


def comparison_table(
    source: Source, series: Mapping[Key, Series], traces: dict[tuple[str, str, int], Trace]
) -> Table | None:
    """A row for each pair and group of clients: A − B, paired by seed; None without pairs."""
    rows: list[tuple[Cell, ...]] = []
    for pair in pairs(source, series):
        for clients in ("seen", "unseen"):
            found = [_difference(source, series, pair, clients, m) for m in SHOWN[:2]]
            differences = [own for own in found if own is not None]
            if len(differences) < len(found):
                continue
            lost = _kept_and_lost(traces, pair, clients)
            rows.append((
                pair.case, pair.first, pair.second, clients, len(pair.seeds),
                *(Figure.of(own, *_digits(m), signed=True)
                  for own, m in zip(differences, SHOWN[:2], strict=True)),
                *(Figure.of(own, 1) for own in lost),
            ))  # fmt: skip
    headings = (
        "data", "A", "B", "clients", "seeds", "GM-Appeal, A − B", "test accuracy, A − B, points",
        "clients only A keeps", "clients only B keeps",
    )  # fmt: skip
    if not rows:
        return None
    return _narrow(Table("comparison", "Methods against each other", headings, rows, (PAIRED,)))


def _difference(
    source: Source, series: Mapping[Key, Series], pair: Pair, clients: str, metric: str
) -> Sequence[float] | None:
    finals = []
    for method in (pair.first, pair.second):
        own = series.get(Key(pair.case, method, clients, "global", metric))
        if own is None:
            return None
        seeds = [c.seed for c in source.of(pair.case, method)]
        finals.append([own.values[seeds.index(seed), -1] for seed in pair.seeds])
    return [a - b for a, b in zip(*finals, strict=True)]


def _kept_and_lost(
    traces: dict[tuple[str, str, int], Trace], pair: Pair, clients: str
) -> tuple[list[float], list[float]]:
    """Per seed, how many clients only A satisfies, and how many only B."""
    only: tuple[list[float], list[float]] = ([], [])
    for seed in pair.seeds:
        a, b = (traces.get((pair.case, m, seed)) for m in (pair.first, pair.second))
        if a is None or b is None:
            continue
        group = a.seen if clients == "seen" else ~a.seen
        only[0].append(float((a.kept & ~b.kept & group).sum()))
        only[1].append(float((b.kept & ~a.kept & group).sum()))
    return only


def clients_table(traces: dict[tuple[str, str, int], Trace]) -> Table:
    """A row for each client of each run: why it keeps the model, or does not."""
    rows: list[tuple[Cell, ...]] = []
    for (case, method, seed), own in traces.items():
        gap = own.held_out_gap[-1]
        for k in range(len(own.seen)):
            rows.append((
                case, method, seed, str(own.name[k]), "seen" if own.seen[k] else "unseen",
                int(own.train_samples[k]), *client_cells(own, k, float(gap[k])),
            ))  # fmt: skip
    headings = (
        "data", "method", "seed", "client", "group", "training samples", "requirement",
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
