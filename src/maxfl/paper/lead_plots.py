"""What methods are ahead of a baseline by, drawn: with intervals, or as a phase diagram."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from maxfl.paper.common import FLIP, MULTIPLE
from maxfl.paper.declare import Exhibit
from maxfl.paper.leads import interval_cell, lead
from maxfl.paper.results import StudyResults
from maxfl.report.statistics.bootstrap import Interval
from maxfl.report.style import STYLE, line_style

WIDEST = 0.5
"""Leads of so much or more have the darkest colour."""


def draw_leads(exhibit: Exhibit, results: StudyResults, path: Path) -> None:
    """Write a figure with a row for each part: every method's lead over the baseline."""
    columns = [column for column in exhibit.columns if column.part in results.parts]
    baseline = exhibit.study.baseline
    methods = [method for method in exhibit.method_labels if method != baseline]
    ours = [method for method in methods if method.startswith("MaxFL")]
    others = [method for method in methods if method not in ours]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8, 1.4 + 0.5 * len(columns)), layout="constrained")
        axis = figure.subplots()
        for i, method in enumerate([*ours, *others]):
            leads = [lead(results, method, baseline, column) for column in columns]
            _row(axis, leads, i, len(methods), method, is_ours=method in ours)
        axis.axvline(0, color="black", lw=0.8)
        axis.set_yticks(range(len(columns)), [column.part for column in columns])
        axis.invert_yaxis()
        axis.grid(axis="y", visible=False)
        axis.set_xlabel(f"GM-Appeal of unseen clients, lead over {baseline} with its 95 % interval")
        figure.legend(loc="outside lower center", ncols=4)
        figure.savefig(path, dpi=150)


def _row(
    axis: Axes, leads: Sequence[Interval], i: int, methods: int, label: str, *, is_ours: bool
) -> None:
    """Draw one method's leads, a little below those of the method before."""
    mean, low, high = (np.array(values) for values in zip(*leads, strict=True))
    place = np.arange(len(leads)) + 0.7 * ((i + 0.5) / methods - 0.5)
    colour = line_style(i)["color"] if is_ours else "0.65"
    axis.errorbar(
        mean, place, xerr=np.nan_to_num([mean - low, high - mean]), fmt="osD^v<>Pp*h"[i % 11],
        ms=4 if is_ours else 3, lw=1.2, color=colour, label=label,
    )  # fmt: skip


def draw_phases(exhibit: Exhibit, results: StudyResults, path: Path) -> None:
    """Write the phase diagram: conflict upwards, strictness to the right, colour for the lead.

    Cells whose interval contains 0 are hatched.
    """
    study, method = exhibit.study, exhibit.method_labels[-1]
    cells = {
        (part.settings[FLIP], part.settings[MULTIPLE]): lead(
            results, method, study.baseline, column
        )
        for part, column in zip(study.parts, exhibit.columns, strict=True)
        if part.label in results.parts
    }
    shares = sorted({share for share, _ in cells})
    multiples = sorted({multiple for _, multiple in cells}, reverse=True)
    missing = Interval(np.nan, np.nan, np.nan)
    grid = [[cells.get((share, multiple), missing) for multiple in multiples] for share in shares]
    means: NDArray[Any] = np.array([[cell.mean for cell in row] for row in grid])
    with mpl.rc_context({**STYLE, "axes.grid": False}):
        size = (1.9 + 1.25 * len(multiples), 1.2 + 0.72 * len(shares))
        figure = Figure(figsize=size, layout="constrained")
        axis = figure.subplots()
        image = axis.imshow(
            means, cmap="RdBu", vmin=-WIDEST, vmax=WIDEST, origin="lower", aspect="auto"
        )
        for i, row in enumerate(grid):
            for j, cell in enumerate(row):
                _cell(axis, i, j, cell, interval_cell(cell, exhibit.columns[0]))
        axis.set_xticks(range(len(multiples)), [f"{multiple:g} ×" for multiple in multiples])
        axis.set_yticks(range(len(shares)), [f"{100 * share:.0f} %" for share in shares])
        axis.set_xlabel(
            "lenient  ←  loss that clients demand, in terms of their own model's  →  strict"
        )
        axis.set_ylabel("clients with conflicting labels")
        axis.spines[:].set_visible(False)
        bar = figure.colorbar(image, ax=axis, extend="both")
        bar.set_label(f"GM-Appeal of unseen clients,\n{method} − {study.baseline}")
        figure.savefig(path, dpi=150)


def _cell(axis: Axes, i: int, j: int, cell: Interval, text: str) -> None:
    """Write a lead above its interval, and hatch a cell that is not told apart from 0."""
    if not np.isfinite(cell.mean):
        return
    if not (cell.low > 0 or cell.high < 0):
        frame = (j - 0.5, i - 0.5)
        axis.add_patch(Rectangle(frame, 1, 1, fill=False, hatch="////", lw=0, ec="0.75"))
    mean, _, interval = text.partition(" ")
    colour = "white" if abs(cell.mean) > 0.7 * WIDEST else "black"
    box = {"facecolor": "white", "alpha": 0.75, "lw": 0, "pad": 1.0} if colour == "black" else None
    axis.text(j, i + 0.14, mean, ha="center", va="center", color=colour, weight="bold", bbox=box)
    axis.text(j, i - 0.2, interval, ha="center", va="center", color=colour, fontsize=7, bbox=box)
