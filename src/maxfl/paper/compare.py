"""A study's results beside the paper's: cells, and where the order of methods differs."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.paper.declare import Column, Exhibit
from maxfl.paper.results import PERCENT, PaperValue, StudyResults, paper_values

WORDS = {
    "test_accuracy": "test accuracy",
    "gm_appeal": "GM-Appeal",
    "preferred_accuracy": "preferred-model accuracy",
    "judging_loss": "training loss",
    "test_loss": "held-out loss",
}


class Comparison(NamedTuple):
    """One part of an exhibit as a table.

    Attributes:
        title: The part, with the data that were used.
        headings: One for each column.
        rows: Method, then a cell for each column; a method's row is followed by the paper's.
        remarks: Where the order of methods differs from the paper's, or that it does not.
    """

    title: str
    headings: list[str]
    rows: list[list[str]]
    remarks: list[str]


def compare(exhibit: Exhibit, results: StudyResults) -> list[Comparison]:
    """Return one table for each part that was run, or one for all of them."""
    if exhibit.by_part:
        return [_by_part(exhibit, results)]
    run_and_shown = {column.part for column in exhibit.columns} & set(results.parts)
    parts = [part.label for part in exhibit.study.parts if part.label in run_and_shown]
    return [_compare_part(exhibit, results, part) for part in parts]


def _compare_part(exhibit: Exhibit, results: StudyResults, part: str) -> Comparison:
    """Return the table of one part: a row for each method, followed by the paper's."""
    columns = [column for column in exhibit.columns if column.part == part]
    printed = paper_values(exhibit)
    ours = {
        (method, column): values
        for method in exhibit.method_labels
        for column in columns
        if (values := results.final(method, column)).size
    }
    methods = list(dict.fromkeys(method for method, _ in ours))
    rows = []
    for method in methods:
        rows.append([method, *(_our_cell(ours[method, column], column) for column in columns)])
        if any((method, column) in printed for column in columns):
            cells = [_paper_cell(printed.get((method, column))) for column in columns]
            rows.append(["   paper", *cells])
    means = {cell: float(value.mean) for cell, value in printed.items()}
    note = results.summary["data_notes"][part]
    remarks = [
        *([note] if note else []),
        *(remark for column in columns if (remark := _compare_order(column, ours, means))),
        *_solo_accuracy(results, part, columns, methods),
    ]
    title = f"{part} ({results.summary['data'][part]})"
    return Comparison(title, ["", *map(_heading, columns)], rows, remarks)


def _solo_accuracy(
    results: StudyResults, part: str, columns: Sequence[Column], methods: Sequence[str]
) -> list[str]:
    """Say how accurate solo models are; that differs between methods that chose other η_l."""
    lines = []
    for clients in dict.fromkeys(c.clients for c in columns if c.metric in PERCENT):
        column = Column(part, clients, "solo_accuracy")
        means = [float(np.mean(results.final(method, column))) for method in methods]
        low, high = f"{min(means):.1f}", f"{max(means):.1f}"
        accuracy = low if low == high else f"{low} to {high}"
        lines.append(f"{clients}: models trained alone have {accuracy} %.")
    return lines


def _by_part(exhibit: Exhibit, results: StudyResults) -> Comparison:
    """Return a table with a row for each part and a column for each method."""
    methods = exhibit.method_labels
    columns = [column for column in exhibit.columns if column.part in results.parts]
    rows = [
        [column.part, *(_our_cell(results.final(method, column), column) for method in methods)]
        for column in columns
    ]
    return Comparison(_heading(columns[0]), ["", *methods], rows, [])


def _heading(column: Column) -> str:
    finetuned = ", fine-tuned" if column.model == "personal" else ""
    unit = ", %" if column.metric in PERCENT else ""
    return f"{column.clients}{finetuned}: {WORDS[column.metric]}{unit}"


def _paper_cell(value: PaperValue | None) -> str:
    return "" if value is None else f"{value.mean} ± {value.std}"


def _our_cell(values: NDArray[Any], column: Column) -> str:
    """Return mean ± standard deviation, or the one value of a single seed."""
    digits = _digits(column)
    mean = f"{np.mean(values):.{digits}f}"
    return f"{mean} ± {_std(values):.{digits}f}" if len(values) > 1 else mean


def _std(values: NDArray[Any]) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _digits(column: Column) -> int:
    """Return one digit for percentages, two for shares and losses."""
    return 1 if column.metric in PERCENT else 2


Cell = tuple[str, Column]


def _compare_order(
    column: Column, ours: Mapping[Cell, NDArray[Any]], papers: Mapping[Cell, float]
) -> str:
    """Say whether the methods that both have come in the same order, ties and seeds minded."""
    common = [method for method, c in ours if c == column and (method, column) in papers]
    if len(common) < 2:
        return ""
    what = f"{column.clients}, {WORDS[column.metric]}"
    if min(len(ours[method, column]) for method in common) < 2:
        return f"{what}: one seed, so no order of methods."
    digits = _digits(column)
    our = {m: round(float(np.mean(ours[m, column])), digits) for m in common}
    paper = {m: papers[m, column] for m in common}
    first, second = sorted(common, key=lambda m: -our[m])[:2]
    ahead = float(np.mean(ours[first, column]) - np.mean(ours[second, column]))
    spread = max(_std(ours[m, column]) for m in (first, second))
    close = " (no further ahead than seeds differ)" if ahead <= spread else ""
    orders = f"here {_ranking(our)}{close}; in the paper {_ranking(paper)}"
    reverse = any((our[a] - our[b]) * (paper[a] - paper[b]) < 0 for a, b in combinations(common, 2))
    if reverse:
        return f"{what}: THE ORDER DIFFERS: {orders}."
    leader = max(common, key=lambda m: paper[m])
    behind = [our[m] for m in common if paper[m] < paper[leader]]
    if behind and our[leader] <= max(behind):
        return f"{what}: THE PAPER'S FIRST, {leader}, IS NOT AHEAD: {orders}."
    return f"{what}: the same order as in the paper{close}."


def _ranking(means: Mapping[str, float]) -> str:
    """Return the methods from the best to the worst: A > B = C."""
    levels = sorted(set(means.values()), reverse=True)
    return " > ".join(" = ".join(m for m in means if means[m] == level) for level in levels)
