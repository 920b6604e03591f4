"""The clients of each model of a portfolio: who picked it, whom it satisfies, what they share."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.core.metrics import MetricInfo
from maxfl.report.measures import measure_of
from maxfl.report.source import Source
from maxfl.report.table import Cell, Statistic, Table, narrow
from maxfl.report.traces import Partition, Trace, TraceKey, read_partition

MORE_FREQUENT, MOST_LABELS = 1.5, 3
"""Times the share among all clients from which a label tells of a group, and how many are named."""


class ModelGroup(NamedTuple):
    """Honest clients that picked one model in the end.

    Attributes:
        model: Which.
        is_member: bool[K].
        labels: Labels that they have more often than all clients do, in words; "" if none.
        flipped: How many have labels that contradict the others'.
    """

    model: int
    is_member: NDArray[np.bool_]
    labels: str
    flipped: int


def model_groups(trace: Trace, partition: Partition | None, models: int) -> list[ModelGroup]:
    """Return the groups of clients by the model that they picked in the end."""
    assert trace.picked is not None, "asked of portfolios alone"
    groups = []
    for model in range(models):
        member = (trace.picked[-1] == model) & ~trace.byzantine
        labels = "" if partition is None else _frequent_labels(partition, member)
        groups.append(ModelGroup(model, member, labels, int(trace.flipped[member].sum())))
    return groups


def _frequent_labels(partition: Partition, member: NDArray[np.bool_]) -> str:
    """Name the labels that a group has more often than all clients have them."""
    mine, everyone = partition.counts[member].sum(0), partition.counts.sum(0)
    share, of_all = mine / max(mine.sum(), 1), everyone / max(everyone.sum(), 1)
    order = np.argsort(-share)
    telling = [i for i in order if of_all[i] > 0 and share[i] >= MORE_FREQUENT * of_all[i]]
    named = [
        f"{partition.labels[i]}: {100 * share[i]:.0f} % (all: {100 * of_all[i]:.0f} %)"
        for i in telling[:MOST_LABELS]
    ]
    left = len(telling) - len(named)
    return ", ".join([*named, *([f"{left} more"] if left else [])])


def groups_table(
    source: Source, traces: Mapping[TraceKey, Trace], metric: MetricInfo
) -> Table | None:
    """Tabulate the groups of each portfolio's first seed; None where there is no portfolio."""
    measured = measure_of(metric)
    rows: list[tuple[Cell, ...]] = []
    for case in source.cases:
        for method in source.methods(case):
            first = source.of(case, method)[0]
            trace = traces.get((case, method, first.seed))
            if trace is None or trace.picked is None:
                continue
            models = int(first.settings.get("portfolio.models") or trace.picked.max() + 1)
            if models == 1:  # of a sweep whose largest portfolio has several
                continue
            for group in model_groups(trace, read_partition(first.run_folder), models):
                seen, unseen = (group.is_member & (trace.seen == s) for s in (True, False))
                member = group.is_member
                rows.append((
                    case, method, first.seed, group.model, int(seen.sum()), int(unseen.sum()),
                    int(trace.satisfied[-1, seen].sum()), int(trace.satisfied[-1, unseen].sum()),
                    measured.statistic([trace.metric[-1, member].mean()] if member.any() else []),
                    Statistic.of([trace.train_samples[member].mean()] if member.any() else [], 0),
                    _in_common(group),
                ))  # fmt: skip
    if not rows:
        return None
    headings = (
        "data", "method", "seed", "model", "seen clients", "unseen clients", "satisfied, seen",
        "satisfied, unseen", f"{measured.heading}, of all of them", "training samples, mean",
        "labels in common",
    )  # fmt: skip
    notes = (
        f"Of the first seed of each portfolio: honest clients by the model that they picked in the "
        f"end. In common: labels of which they have at least {MORE_FREQUENT:g} times the share of "
        f"all clients, and how many have labels that contradict the others'.",
    )
    return narrow(Table("portfolio-groups", "The clients of each model", headings, rows, notes))


def _in_common(group: ModelGroup) -> str:
    if not group.is_member.any():
        return "nobody picked it"
    flipped = f"{group.flipped} of {group.is_member.sum()} contradict" if group.flipped else ""
    return "; ".join(part for part in (group.labels, flipped) if part) or "no label stands out"
