"""What methods are ahead of a baseline by: paired differences over seeds, and their intervals.

Every seed splits the data anew, and all methods meet the same clients in it, so a method's mean is
subtracted from the baseline's seed by seed; the interval resamples the seeds
(``report.statistics.bootstrap``). Clients differ from seed to seed too, so that their variance is
in the means' already.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from maxfl.paper.declare import Column, Exhibit, Metric, Part, Study
from maxfl.paper.results import StudyResults
from maxfl.paper.words import Comparison, data_remarks, heading, our_cell, signed
from maxfl.report.statistics.bootstrap import Interval, bootstrap

LEAD_METRICS: tuple[Metric, ...] = ("gm_appeal", "test_accuracy", "preferred_accuracy")
CLIENTS = ("seen", "unseen")


def lead(results: StudyResults, method: str, baseline: str, column: Column) -> Interval:
    """Return what a method is ahead of the baseline by; NaN if either was not run."""
    ours, theirs = results.final(method, column), results.final(baseline, column)
    if len(ours) != len(theirs):
        return bootstrap([])
    return bootstrap([np.array([a - b]) for a, b in zip(ours, theirs, strict=True)])


def leads_in(study: Study, results: StudyResults) -> dict[str, list[dict[str, Any]]]:
    """Return all leads over the study's baseline by part, for ``study.json``; as tables have them.

    Those of accuracies are in percentage points.
    """
    return {
        part.label: [
            _as_json(method.label, column, lead(results, method.label, study.baseline, column))
            for method in study.methods
            if method.label != study.baseline
            for column in (
                Column(part.label, clients, metric, study.model)
                for clients in CLIENTS
                for metric in LEAD_METRICS
            )
        ]
        for part in study.parts
    }


def _as_json(method: str, column: Column, interval: Interval) -> dict[str, Any]:
    numbers = {
        name: round(float(value), 4) if np.isfinite(value) else None
        for name, value in interval._asdict().items()
    }
    return {"method": method, "clients": column.clients, "metric": column.metric, **numbers}


def compare_leads(exhibit: Exhibit, results: StudyResults) -> list[Comparison]:
    """Return a table for each group of parts: a method's figures, and below what it leads by."""
    shown = [part for part in exhibit.study.parts if part.label in results.parts]
    groups: dict[str, list[Part]] = {}
    for part in shown:
        groups.setdefault(part.group, []).append(part)
    return [_compare_group(exhibit, results, parts) for parts in groups.values()]


def _compare_group(exhibit: Exhibit, results: StudyResults, parts: Sequence[Part]) -> Comparison:
    baseline = exhibit.study.baseline
    labels = {part.label: part.heading for part in parts}
    columns = [column for column in exhibit.columns if column.part in labels]
    rows, leads = [], {}
    for method in exhibit.method_labels:
        finals = [results.final(method, column) for column in columns]
        if not all(values.size for values in finals):
            continue
        cells = map(our_cell, finals, columns)
        rows.append([method, *cells])
        if method != baseline:
            leads[method] = [lead(results, method, baseline, column) for column in columns]
            rows.append(["   lead", *map(interval_cell, leads[method], columns)])
    several = len({(c.clients, c.metric) for c in columns}) > 1
    headings = [
        f"{labels[c.part]}, {heading(c)}" if several else labels[c.part] for c in columns
    ]  # fmt: skip
    remarks = [
        *data_remarks(results, parts[0].label),
        *(
            f"{name}: {_standing([(m, intervals[i]) for m, intervals in leads.items()], baseline)}."
            for i, name in enumerate(headings)
        ),
    ]
    what = "" if several else f": {heading(columns[0])}"
    title = f"{parts[0].group} ({results.summary['data'][parts[0].label]}){what}"
    return Comparison(title, ["", *headings], rows, remarks)


def _standing(leads: Sequence[tuple[str, Interval]], baseline: str) -> str:
    """Say which methods are told apart from the baseline."""
    ahead = [method for method, interval in leads if interval.low > 0]
    behind = [method for method, interval in leads if interval.high < 0]
    if not ahead and not behind:
        return f"no method is told apart from {baseline}"
    sides = ((f"ahead of {baseline}", ahead), (f"behind {baseline}", behind))
    return "; ".join(f"{side}: {' · '.join(methods)}" for side, methods in sides if methods)


def interval_cell(interval: Interval, column: Column) -> str:
    """Return a lead and its interval; the lead alone where one seed allows no more."""
    mean, low, high = (signed(value, column) for value in interval)
    return f"{mean} [{low}, {high}]" if np.isfinite(interval.low) else mean


def compare_best(exhibit: Exhibit, results: StudyResults) -> Comparison:
    """Return a table with a row for each part: the last method, the baseline, the best other one.

    Which one is best is known in hindsight, so that a lead over it is a lead over all of them.
    """
    *others, method = exhibit.method_labels
    baseline = exhibit.study.baseline
    columns = [column for column in exhibit.columns if column.part in results.parts]
    rows, smallest = [], []
    for column in columns:
        finals = {other: results.final(other, column) for other in others}
        means = {other: values.mean() for other, values in finals.items() if values.size}
        best = max(means, key=means.__getitem__)
        over = lead(results, method, best, column)
        smallest.append((over.mean, column.part, best))
        rows.append([
            column.part,
            our_cell(results.final(method, column), column),
            interval_cell(lead(results, method, baseline, column), column),
            f"{best}: {our_cell(results.final(best, column), column)}",
            interval_cell(over, column),
        ])  # fmt: skip
    least, part, best = min(smallest)
    remark = f"Least of all: {signed(least, columns[0])} to {best}, {part}."
    headings = ["", method, f"lead over {baseline}", "best of the others", "lead over it"]
    title = f"{method} beside {', '.join(others)}: {heading(columns[0])}"
    return Comparison(title, headings, rows, [remark])


class Phases(NamedTuple):
    """The last method's leads, by what two axes say.

    Attributes:
        rows: Groups of the parts.
        columns: Their headings.
        leads: One for each row and column; NaN where a part was not run.
    """

    rows: list[str]
    columns: list[str]
    leads: list[list[Interval]]


def phases(exhibit: Exhibit, results: StudyResults) -> Phases:
    """Lay the last method's leads over the baseline out by group and heading."""
    study, method = exhibit.study, exhibit.method_labels[-1]
    cells = {
        (part.group, part.heading): lead(results, method, study.baseline, column)
        for part, column in zip(study.parts, exhibit.columns, strict=True)
        if part.label in results.parts
    }
    rows, columns = (list(dict.fromkeys(key[i] for key in cells)) for i in (0, 1))
    missing = bootstrap([])
    leads = [[cells.get((row, column), missing) for column in columns] for row in rows]
    return Phases(rows, columns, leads)


def compare_phases(exhibit: Exhibit, results: StudyResults) -> Comparison:
    """Return one table of the last method's leads: a row for each group, a column for each part."""
    rows, columns, leads = phases(exhibit, results)
    cells = [
        [row, *(interval_cell(cell, exhibit.columns[0]) for cell in line)]
        for row, line in zip(rows, leads, strict=True)
    ]
    what = f"{exhibit.method_labels[-1]}, lead over {exhibit.study.baseline}"
    title = f"{what}: {heading(exhibit.columns[0])}"
    return Comparison(title, ["", *columns], cells, data_remarks(results, results.parts[0]))
