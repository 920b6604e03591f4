"""Where one method leads: two methods beside each other on all data of a report."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from maxfl.report.configurations import SEEDS, Configuration
from maxfl.report.measures import APPEAL
from maxfl.report.names import setting_name
from maxfl.report.series import shown_name
from maxfl.report.source import Source
from maxfl.report.statistics.bootstrap import Interval
from maxfl.report.statistics.compare import Results, difference
from maxfl.report.statistics.pairing import Pair

AXES = ("data.", "requirement.", "participation.", "attack.")
"""Sections of settings that make axes; rates are chosen for each data set, and make none."""


class Grid(NamedTuple):
    """Where the data of a report lie in a phase diagram.

    Attributes:
        axes: The settings in which rows and columns differ; "" where there is one row.
        rows: Values of the first setting.
        columns: Values of the second, or all data.
        cases: The index of a case for each row and column; None where it was not run.
    """

    axes: tuple[str, str]
    rows: list[str]
    columns: list[str]
    cases: list[list[int | None]]


class Lead(NamedTuple):
    """By how much A is ahead of B on one data set, in GM-Appeal of seen clients.

    Attributes:
        case: Its index.
        a: One method.
        b: Another.
        interval: Of A − B.
        levels: B's mean and A's.
    """

    case: int
    a: str
    b: str
    interval: Interval
    levels: tuple[float, float]


class Phases(NamedTuple):
    """What a phase diagram shows, for every pair of methods."""

    grid: Grid
    leads: list[Lead]


def phases(results: Results, compared: Sequence[Pair]) -> Phases | None:
    """Compare methods on all data; None where there is one data set, or nothing to compare."""
    cases = results.source.cases
    if len(cases) < 2 or not compared:
        return None
    leads = [lead for pair in compared if (lead := _lead(results, pair, cases.index(pair.case)))]
    return Phases(grid(results.source), leads) if leads else None


def _lead(results: Results, pair: Pair, case: int) -> Lead | None:
    found = difference(results, pair, "seen", APPEAL)
    if found is None or found.refused:
        return None
    a, b = (shown_name(results.series, pair.case, m) for m in (pair.first, pair.second))
    return Lead(case, a, b, found.interval, (float(np.mean(found.b)), float(np.mean(found.a))))


def grid(source: Source) -> Grid:
    """Lay cases out by the two settings in which they differ; if those are not two, in one row."""
    cases = source.cases
    first = [next(c for c in source.configurations if c.case == case) for case in cases]
    keys = _differing(first)
    if len(keys) != 2:
        return _row(cases)
    placed = {tuple(c.settings[key] for key in keys): i for i, c in enumerate(first)}
    if len(placed) < len(cases):  # they differ in something else too, such as a list
        return _row(cases)
    rows, columns = (_ordered(place[axis] for place in placed) for axis in (0, 1))
    found = [[placed.get((row, column)) for column in columns] for row in rows]
    rows_by, columns_by = (setting_name(key.removeprefix("data.")) for key in keys)
    return Grid((rows_by, columns_by), list(map(str, rows)), list(map(str, columns)), found)


def _row(cases: list[str]) -> Grid:
    return Grid(("", "data"), [""], cases, [list(range(len(cases)))])


def _differing(configurations: Sequence[Configuration]) -> list[str]:
    """Return settings of data and clients whose value is not the same in all cases."""
    settings = [c.settings for c in configurations]
    shared = [key for key in settings[0] if all(key in other for other in settings)]
    return [
        key
        for key in shared
        if key.startswith(AXES)
        and key not in SEEDS
        and len({str(one[key]) for one in settings}) > 1
        and all(isinstance(one[key], int | float | str) for one in settings)
    ]


def _ordered(values: Any) -> list[Any]:
    """Return different values, numbers by size and others as they come."""
    different = list(dict.fromkeys(values))
    is_numeric = all(isinstance(value, int | float) for value in different)
    return sorted(different) if is_numeric else different
