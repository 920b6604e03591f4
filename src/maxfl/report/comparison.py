"""Methods against each other, seed by seed, on clients that both were trained for."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.report.measures import APPEAL, direction, measure_of
from maxfl.report.series import Key, Series, shown_name, used_series
from maxfl.report.statistics.compare import (
    Difference,
    Results,
    Satisfied,
    difference,
    few_seeds,
    satisfied_by_one,
)
from maxfl.report.statistics.pairing import Pair, Traces, both_in, federation_of, pair
from maxfl.report.table import Cell, Probability, Statistic, Table, narrow

PAIRED = (
    "Paired: both methods had the same clients and data in every seed. In brackets: the 95 % "
    "interval of A − B, from a bootstrap over seeds and over the clients of each seed. A is ahead "
    "if the interval of GM-Appeal lies above 0, and behind if it lies below 0; otherwise the two "
    "are not told apart. Only A, only B: clients per seed that one method satisfies and the other "
    "does not (honest clients, on test data). p: McNemar's exact test of these clients, each "
    "counted once. There is no correction for multiple comparisons."
)
PERSONAL = "Methods with personal models are compared by these, because clients would use them."


class Standing(NamedTuple):
    """Methods of a case by GM-Appeal, on the seeds in which all of them had the same clients.

    Attributes:
        ranked: (method, its values), the highest first, of the model that clients would use.
        seeds: Those counted; empty if the methods have none in common.
        lead: The first against the second on these seeds; None if there is nothing to subtract.
        satisfied: Whom one of these two alone satisfies; None where it is not known.
    """

    ranked: list[tuple[str, NDArray[np.float64]]]
    seeds: list[int]
    lead: Difference | None = None
    satisfied: Satisfied | None = None


def standing(results: Results, case: str) -> Standing:
    """Rank methods by the clients that they satisfy, and compare the first two."""
    source, series, _ = results
    methods = source.methods(case)
    federations = [{c.seed: federation_of(c) for c in source.of(case, m)} for m in methods]
    first = federations[0]
    common = [s for s in first if all(others.get(s) == first[s] for others in federations)]
    finals = []
    for method, by_seed in zip(methods, federations, strict=True):
        appeal = used_series(series, case, method, "seen", APPEAL)
        if appeal is not None:
            rows = [i for i, seed in enumerate(sorted(by_seed)) if seed in common or not common]
            last = appeal.values[rows, -1]
            if np.isfinite(last).any():
                finals.append((method, np.nan_to_num(last)))
    ranked = sorted(finals, key=lambda pair: -pair[1].mean())
    if len(ranked) < 2 or not common:
        return Standing(ranked, common)
    two = pair(source, case, ranked[0][0], ranked[1][0], common)
    lead = difference(results, two, "seen", APPEAL)
    return Standing(ranked, common, lead, satisfied_by_one(results, two, "seen"))


def comparison_table(results: Results, compared: Sequence[Pair]) -> Table | None:
    """Tabulate A − B for each pair and group of clients, paired by seed; None without pairs."""
    source, series, _ = results
    measured = measure_of(source.metric)
    rows: list[tuple[Cell, ...]] = []
    notes = [PAIRED]
    for one in compared:
        for clients in ("seen", "unseen"):
            found = [difference(results, one, clients, m) for m in (APPEAL, measured)]
            if all(found):
                notes += [f"{d.refused}." for d in found if d and d.refused]
                rows.append(_row(results, one, clients, [d for d in found if d]))
    if not rows:
        return None
    unit = (", points" if measured.percent else "") + direction(source.metric)
    headings = (
        "data", "A", "B", "clients", "seeds", "GM-Appeal, A − B", f"{measured.words}, A − B{unit}",
        "A is", "clients only A satisfies", "clients only B satisfies", "p",
    )  # fmt: skip
    if any(shown_name(series, p.case, m) != m for p in compared for m in p[1:3]):
        notes.append(PERSONAL)
    little = few_seeds(min(len(one.seeds) for one in compared))
    unique = tuple(dict.fromkeys([*notes, *([f"{little}."] if little else [])]))
    return narrow(Table("comparison", "Methods against each other", headings, rows, unique))


def _row(
    results: Results, one: Pair, clients: str, differences: Sequence[Difference]
) -> tuple[Cell, ...]:
    names = (shown_name(results.series, one.case, m) for m in (one.first, one.second))
    satisfied = satisfied_by_one(results, one, clients)
    tests = satisfied.by_seed if satisfied else []
    counts = [[float(t.only_a) for t in tests], [float(t.only_b) for t in tests]]
    return (
        one.case, *names, clients, len(one.seeds),
        *(d.measure.estimate(d.interval) for d in differences),
        differences[0].word or "n/a",
        *(Statistic.of(count, 1 if len(count) > 1 else 0) for count in counts),
        Probability(satisfied.all_seeds.p if satisfied else np.nan),
    )  # fmt: skip


def satisfied_by_one_table(
    pairs: Sequence[Pair], traces: Traces, series: Mapping[Key, Series]
) -> Table:
    """List every client that one method of a pair satisfies and the other does not."""
    rows: list[tuple[Cell, ...]] = []
    for one in pairs:
        names = [shown_name(series, one.case, m) for m in (one.first, one.second)]
        for seed, clients in product(one.seeds, ("seen", "unseen")):
            both = both_in(traces, one, seed, clients)
            if both is None:
                continue
            a, b = both.a.satisfied_at_end, both.b.satisfied_at_end
            for k in np.flatnonzero((a != b) & both.group):
                satisfying, other = names[:: 1 if a[k] else -1]
                rows.append((one.case, satisfying, other, seed, str(both.a.name[k]), clients))
    headings = ("data", "satisfied by", "not by", "seed", "client", "group")
    title = "Clients that one of two methods satisfies"
    return narrow(Table("satisfied-by-one", title, headings, rows))
