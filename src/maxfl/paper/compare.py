"""A study's results beside the paper's: cells, and where the order of methods differs."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxfl.paper.declare import Column, Exhibit
from maxfl.paper.leads import compare_best, compare_leads, compare_phases
from maxfl.paper.results import PERCENT, PaperValue, StudyResults, paper_values
from maxfl.paper.sizes import compare_sizes
from maxfl.paper.words import WORDS, Comparison, data_remarks, digits_of, heading, our_cell, std


def compare(exhibit: Exhibit, results: StudyResults) -> list[Comparison]:
    """Return one table for each part that was run, or one for all of them."""
    match exhibit.layout:
        case "parts":
            return [_by_part(exhibit, results)]
        case "leads":
            return compare_leads(exhibit, results)
        case "best":
            return [compare_best(exhibit, results)]
        case "phases":
            return compare_phases(exhibit, results)
        case "sizes":
            return [compare_sizes(exhibit, results)]
        case "methods":
            return _by_method(exhibit, results)


def _by_method(exhibit: Exhibit, results: StudyResults) -> list[Comparison]:
    """Return one table for each part that was run, beside the paper's figures."""
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
        rows.append([method, *(our_cell(ours[method, column], column) for column in columns)])
        if any((method, column) in printed for column in columns):
            cells = [_paper_cell(printed.get((method, column))) for column in columns]
            rows.append(["   paper", *cells])
    means = {cell: float(value.mean) for cell, value in printed.items()}
    remarks = [
        *data_remarks(results, part),
        *(remark for column in columns if (remark := _compare_order(column, ours, means))),
        *_solo_accuracy(results, part, columns, methods),
    ]
    title = f"{part} ({results.summary['data'][part]})"
    return Comparison(title, ["", *map(heading, columns)], rows, remarks)


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
        [column.part, *(our_cell(results.final(method, column), column) for method in methods)]
        for column in columns
    ]
    return Comparison(heading(columns[0]), ["", *methods], rows, [])


def _paper_cell(value: PaperValue | None) -> str:
    return "" if value is None else f"{value.mean} ± {value.std}"


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
    digits = digits_of(column)
    our = {m: round(float(np.mean(ours[m, column])), digits) for m in common}
    paper = {m: papers[m, column] for m in common}
    first, second = sorted(common, key=lambda m: -our[m])[:2]
    ahead = float(np.mean(ours[first, column]) - np.mean(ours[second, column]))
    spread = max(std(ours[m, column]) for m in (first, second))
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
