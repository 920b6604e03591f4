"""A study's figures beside the paper's: cells, and where the order of methods differs."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.paper.declare import Column, Experiment
from maxfl.paper.results import PERCENT, Outcome, Printed, printed

WORDS = {
    "test_accuracy": "test accuracy",
    "gm_appeal": "GM-Appeal",
    "preferred_accuracy": "preferred-model accuracy",
    "train_loss": "training loss",
    "test_loss": "held-out loss",
}


class Comparison(NamedTuple):
    """One part of an experiment as a table.

    Attributes:
        title: The part, with the data that were used.
        headings: Of the columns.
        rows: Method, then a cell for each column; a method's row is followed by the paper's.
        remarks: Where the order of methods differs from the paper's, or that it does not.
    """

    title: str
    headings: list[str]
    rows: list[list[str]]
    remarks: list[str]


def compare(experiment: Experiment, outcome: Outcome) -> list[Comparison]:
    """One table for each part that was run, or one for all of them."""
    if experiment.by_part:
        return [_by_part(experiment, outcome)]
    theirs = printed(experiment)
    found = []
    for part in experiment.study.parts:
        columns = [c for c in experiment.columns if c.part == part.label]
        if not columns or part.label not in outcome.parts:
            continue
        ours = {
            (method, c): values
            for method in experiment.shown
            for c in columns
            if (values := outcome.final(method, c)).size
        }
        rows = []
        for method in dict.fromkeys(name for name, _ in ours):
            rows.append([method, *(_ours(ours[method, c], c) for c in columns)])
            if any((method, c) in theirs for c in columns):
                cells = [_theirs(theirs.get((method, c))) for c in columns]
                rows.append(["   paper", *cells])
        paper = {cell: float(p.mean) for cell, p in theirs.items()}
        remarks = [line for c in columns if (line := _order(c, ours, paper))]
        remarks += _alone(outcome, part.label, columns, dict.fromkeys(name for name, _ in ours))
        if note := outcome.about["data_notes"][part.label]:
            remarks.insert(0, note)
        title = f"{part.label} ({outcome.about['data'][part.label]})"
        found.append(Comparison(title, ["", *map(_heading, columns)], rows, remarks))
    return found


def _alone(
    outcome: Outcome, part: str, columns: Sequence[Column], methods: Iterable[str]
) -> list[str]:
    """The solo models' accuracy beside the methods'; it differs where methods chose other η_l."""
    lines = []
    for clients in dict.fromkeys(c.clients for c in columns if c.metric in PERCENT):
        column = Column(part, clients, "solo_accuracy")
        means = [float(np.mean(outcome.final(method, column))) for method in methods]
        low, high = f"{min(means):.1f}", f"{max(means):.1f}"
        figure = low if low == high else f"{low} to {high}"
        lines.append(f"{clients}: models trained alone have {figure} %.")
    return lines


def _by_part(experiment: Experiment, outcome: Outcome) -> Comparison:
    """A row for each part; it has one column."""
    columns = [c for c in experiment.columns if c.part in outcome.parts]
    rows = [
        [c.part, *(_ours(outcome.final(method, c), c) for method in experiment.shown)]
        for c in columns
    ]
    return Comparison(_heading(columns[0]), ["", *experiment.shown], rows, [])


def _heading(column: Column) -> str:
    tuned = ", tuned" if column.model == "personal" else ""
    unit = ", %" if column.metric in PERCENT else ""
    return f"{column.clients}{tuned}: {WORDS[column.metric]}{unit}"


def _theirs(cell: Printed | None) -> str:
    return "" if cell is None else f"{cell.mean} ± {cell.deviation}"


def _ours(values: NDArray[Any], column: Column) -> str:
    deviation = _deviation(values) if len(values) > 1 else None
    return _cell(float(np.mean(values)), deviation, column)


def _deviation(values: NDArray[Any]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _digits(column: Column) -> int:
    """One digit for percentages, two for shares and losses."""
    return 1 if column.metric in PERCENT else 2


def _cell(mean: float, deviation: float | None, column: Column) -> str:
    """Mean ± deviation."""
    digits = _digits(column)
    return f"{mean:.{digits}f}" + ("" if deviation is None else f" ± {deviation:.{digits}f}")


Cell = tuple[str, Column]


def _order(column: Column, ours: Mapping[Cell, NDArray[Any]], theirs: Mapping[Cell, float]) -> str:
    """Say whether the methods that both have come in the same order, ties and seeds minded."""
    common = [method for method, c in ours if c == column and (method, column) in theirs]
    if len(common) < 2:
        return ""
    what = f"{column.clients}, {WORDS[column.metric]}"
    if min(len(ours[method, column]) for method in common) < 2:
        return f"{what}: one seed, so no order of methods."
    digits = _digits(column)
    here = {m: round(float(np.mean(ours[m, column])), digits) for m in common}
    there = {m: theirs[m, column] for m in common}
    first, second = sorted(common, key=lambda m: -here[m])[:2]
    ahead = float(np.mean(ours[first, column]) - np.mean(ours[second, column]))
    spread = max(_deviation(ours[m, column]) for m in (first, second))
    close = " (no further ahead than seeds differ)" if ahead <= spread else ""
    orders = f"here {_ranking(here)}{close}; in the paper {_ranking(there)}"
    reverse = any(
        (here[a] - here[b]) * (there[a] - there[b]) < 0 for a, b in combinations(common, 2)
    )
    if reverse:
        return f"{what}: THE ORDER DIFFERS: {orders}."
    lost = [m for m in common if there[m] == max(there.values()) and here[m] == min(here.values())]
    if lost:
        return f"{what}: THE PAPER'S FIRST, {lost[0]}, IS NOT AHEAD: {orders}."
    return f"{what}: the same order as in the paper{close}."


def _ranking(figures: Mapping[str, float]) -> str:
    """Methods from the best to the worst: A > B = C."""
    levels = sorted(set(figures.values()), reverse=True)
    return " > ".join(" = ".join(m for m in figures if figures[m] == level) for level in levels)
