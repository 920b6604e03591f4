"""A study's figures beside the paper's: cells, and where the order of methods differs."""

from collections.abc import Mapping
from itertools import pairwise
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
        if note := outcome.about["data_notes"][part.label]:
            remarks.insert(0, note)
        title = f"{part.label} ({outcome.about['data'][part.label]})"
        found.append(Comparison(title, ["", *map(_heading, columns)], rows, remarks))
    return found


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
    """Say whether the methods that both have come in the same order."""
    common = [method for method, c in ours if c == column and (method, column) in theirs]
    if len(common) < 2:
        return ""
    there = sorted(common, key=lambda m: -theirs[m, column])
    # Where ours show the same figure, the paper's order stands.
    here = sorted(there, key=lambda m: -round(float(np.mean(ours[m, column])), _digits(column)))
    what = f"{column.clients}, {WORDS[column.metric]}"
    if len({round(float(np.mean(ours[m, column])), _digits(column)) for m in common}) == 1:
        return f"{what}: no difference between the methods here."
    if all(theirs[a, column] >= theirs[b, column] for a, b in pairwise(here)):
        return f"{what}: the same order as in the paper."
    first = f"{here[0]} is first in both"
    if here[0] != there[0]:
        best, rival = ours[here[0], column], ours[there[0], column]
        won, lost = (_cell(float(np.mean(values)), None, column) for values in (best, rival))
        near = np.mean(best) - np.mean(rival) <= max(_deviation(best), _deviation(rival))
        first = (
            f"here {here[0]} is first ({won}), in the paper {there[0]}, which here has {lost}"
            + (", no more apart than seeds are" if near else "")
        )
    orders = f"here {' > '.join(here)}; in the paper {' > '.join(there)}"
    return f"{what}: THE ORDER DIFFERS: {first}; {orders}."
