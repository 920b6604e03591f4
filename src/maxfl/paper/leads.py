"""What methods are ahead of a baseline by: paired differences over seeds, and their intervals.

Every seed splits the data anew, and all methods meet the same clients in it, so a method's mean is
subtracted from the baseline's seed by seed; the interval resamples the seeds
(``report.statistics.bootstrap``). Clients differ from seed to seed too, so that their variance is
in the means' already.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from maxfl.paper.declare import Column, Exhibit, Metric, Part, Study
from maxfl.paper.results import StudyResults
from maxfl.paper.words import Comparison, data_remarks, digits_of, heading, our_cell, signed
from maxfl.report.statistics.bootstrap import Interval, bootstrap

LEAD_METRICS: tuple[Metric, ...] = ("gm_appeal", "test_accuracy", "preferred_accuracy")
CLIENTS = ("seen", "unseen")
DECIMALS = 4
"""Of leads and their ends: means of float32 are not exact, and what is 0 would be 3e-9."""


def lead(results: StudyResults, method: str, baseline: str, column: Column) -> Interval:
    """Return what a method is ahead of the baseline by; NaN if either was not run."""
    ours, theirs = results.final(method, column), results.final(baseline, column)
    return paired_lead(ours, theirs) if len(ours) == len(theirs) else bootstrap([])


def paired_lead(ours: Iterable[float], theirs: Iterable[float]) -> Interval:
    """Return what some figures are ahead of others by, seed by seed."""
    found = bootstrap([np.array([a - b]) for a, b in zip(ours, theirs, strict=True)])
    return Interval(*(round(value, DECIMALS) + 0.0 for value in found))  # −0.0 is 0


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
        name: value if np.isfinite(value) else None for name, value in interval._asdict().items()
    }
    return {"method": method, "clients": column.clients, "metric": column.metric, **numbers}


def compare_leads(exhibit: Exhibit, results: StudyResults) -> list[Comparison]:
    """Return a table for each group of parts, and for each metric of seen or unseen clients."""
    parts = {part.label: part for part in exhibit.study.parts if part.label in results.parts}
    tables: dict[tuple[str, str], list[Column]] = {}
    for column in exhibit.columns:
        if part := parts.get(column.part):
            tables.setdefault((part.group, heading(column)), []).append(column)
    return [
        _compare_group(exhibit, results.only(columns), [parts[c.part] for c in columns], columns)
        for columns in tables.values()
    ]


def _compare_group(
    exhibit: Exhibit, results: StudyResults, parts: Sequence[Part], columns: Sequence[Column]
) -> Comparison:
    """Return a table with a column for each part: a method's figures, below what it leads by."""
    baseline = exhibit.study.baseline
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
    headings = [part.heading for part in parts]
    remarks = [
        *data_remarks(results, parts[0].label),
        *(
            f"{name}: {_standing([(m, intervals[i]) for m, intervals in leads.items()], baseline)}."
            for i, name in enumerate(headings)
        ),
    ]
    title = f"{parts[0].group} ({results.summary['data'][parts[0].label]}): {heading(columns[0])}"
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
    """Return a lead and its interval; the lead alone where one seed allows no more.

    It has so many digits that an end which is shown as 0 is 0: a method is ahead or behind just
    where 0 lies outside of what is shown.
    """
    if not np.isfinite(interval.mean):
        return "n/a"
    digits = digits_of(column)
    while digits < DECIMALS and any(end and not round(end, digits) for end in interval[1:]):
        digits += 1
    mean, low, high = (signed(value, digits) for value in interval)
    return f"{mean} [{low}, {high}]" if np.isfinite(interval.low) else mean


def compare_best(exhibit: Exhibit, results: StudyResults) -> Comparison:
    """Return a table with a row for each part: the last method, the baseline, the best other one.

    Which one is best is known in hindsight, so that a lead over it is a lead over all of them.
    """
    *others, method = exhibit.method_labels
    baseline = exhibit.study.baseline
    columns = [column for column in exhibit.columns if column.part in results.parts]
    rows, furthest = [], []
    for column in columns:
        finals = {other: results.final(other, column) for other in others}
        means = {other: values.mean() for other, values in finals.items() if values.size}
        best = max(means, key=means.__getitem__)
        over = lead(results, method, best, column)
        if over.mean < 0:
            place = f"in {column.part}: {interval_cell(over, column)} to {best}"
            furthest.append((over.mean, place))
        rows.append([
            column.part,
            our_cell(results.final(method, column), column),
            interval_cell(lead(results, method, baseline, column), column),
            f"{best}: {our_cell(results.final(best, column), column)}",
            interval_cell(over, column),
        ])  # fmt: skip
    remark = (
        f"{method} is furthest behind the best of the others {min(furthest)[1]}."
        if furthest
        else f"{method} is behind none of the others."
    )
    headings = ["", method, f"lead over {baseline}", "best of the others", "lead over it"]
    title = f"{method} beside {' · '.join(others)}: {heading(columns[0])}"
    return Comparison(title, headings, rows, [remark])


class Phase(NamedTuple):
    """One part of a phase diagram, as it was run or not.

    Attributes:
        lead: The last method's over the baseline; NaN where the part was not run.
        levels: Means of the baseline and of the method, which the lead lies between.
    """

    lead: Interval
    levels: tuple[float, float]


NOT_RUN = Phase(Interval(np.nan, np.nan, np.nan), (np.nan, np.nan))


class Phases(NamedTuple):
    """The last method beside the baseline, by what two axes say.

    Attributes:
        rows: Groups of the parts.
        columns: Their headings.
        cells: One for each row and column.
    """

    rows: list[str]
    columns: list[str]
    cells: list[list[Phase]]


def phases(exhibit: Exhibit, results: StudyResults) -> Phases:
    """Lay the last method's leads over the baseline out by group and heading."""
    study, method = exhibit.study, exhibit.method_labels[-1]
    found = {
        (part.group, part.heading): _phase(results, method, study.baseline, column)
        for part, column in zip(study.parts, exhibit.columns, strict=True)
        if part.label in results.parts
    }
    rows, columns = (list(dict.fromkeys(key[i] for key in found)) for i in (0, 1))
    cells = [[found.get((row, column), NOT_RUN) for column in columns] for row in rows]
    return Phases(rows, columns, cells)


def _phase(results: StudyResults, method: str, baseline: str, column: Column) -> Phase:
    below, above = (float(np.mean(results.final(m, column))) for m in (baseline, method))
    return Phase(lead(results, method, baseline, column), (below, above))


def compare_phases(exhibit: Exhibit, results: StudyResults) -> list[Comparison]:
    """Return the last method's leads, and from where to where: a row a group, a column a part."""
    rows, columns, cells = phases(exhibit, results)
    column, method, baseline = exhibit.columns[0], exhibit.method_labels[-1], exhibit.study.baseline
    remarks = data_remarks(results, results.parts[0])

    def table(title: str, show: Callable[[Phase], str]) -> Comparison:
        lines = [[row, *map(show, line)] for row, line in zip(rows, cells, strict=True)]
        return Comparison(f"{title}: {heading(column)}", ["", *columns], lines, remarks)

    return [
        table(f"{method}, lead over {baseline}", lambda cell: interval_cell(cell.lead, column)),
        table(f"{baseline} → {method}", lambda cell: levels_cell(cell, column)),
    ]


def levels_cell(cell: Phase, column: Column) -> str:
    """Return the means that a lead lies between: the baseline's → the method's."""
    if not np.isfinite(cell.levels).all():
        return "n/a"
    return " → ".join(f"{level:.{digits_of(column)}f}" for level in cell.levels)
