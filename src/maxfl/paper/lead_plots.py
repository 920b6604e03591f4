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

from maxfl.paper.declare import Column, Exhibit
from maxfl.paper.leads import Phase, interval_cell, lead, levels_cell, phases
from maxfl.paper.results import StudyResults
from maxfl.report.statistics.bootstrap import Interval
from maxfl.report.style import STYLE, line_style

WIDEST = 0.5
"""Leads of so much or more have the darkest colour."""


def draw_leads(exhibit: Exhibit, results: StudyResults, path: Path) -> None:
    """Write a figure with a row for each part: every method's lead over the baseline.

    Variants of MaxFL have intervals, the last one thick; other methods are grey points, at the edge
    where they are further off.
    """
    columns = [column for column in exhibit.columns if column.part in results.parts]
    baseline = exhibit.study.baseline
    leads = {
        method: [lead(results, method, baseline, column) for column in columns]
        for method in exhibit.method_labels
        if method != baseline
    }
    ours = [method for method in leads if method.startswith("MaxFL")]
    others = [method for method in leads if method not in ours]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(8, 1.4 + 0.42 * len(columns)), layout="constrained")
        axis = figure.subplots()
        for i, method in enumerate(ours):
            offset = 0.7 * ((i + 0.5) / len(ours) - 0.5)
            _draw_intervals(axis, leads[method], method, i, offset, is_last=method == ours[-1])
        edges = axis.get_xlim()
        for i, method in enumerate(others):
            place = np.arange(len(columns)) + 0.5 * ((i + 0.5) / len(others) - 0.5)
            means = np.clip([interval.mean for interval in leads[method]], *edges)
            label = ", ".join(others) if i == 0 else None
            axis.plot(means, place, ".", color="0.6", ms=4, label=label, clip_on=False, zorder=1)
        axis.set_xlim(edges)
        axis.axvline(0, color="black", lw=0.8)
        axis.set_yticks(range(len(columns)), [column.part for column in columns])
        axis.invert_yaxis()
        axis.grid(axis="y", visible=False)
        axis.set_xlabel(f"GM-Appeal of unseen clients, lead over {baseline} with its 95 % interval")
        figure.legend(loc="outside lower center", ncols=3)
        figure.savefig(path, dpi=150)


def _draw_intervals(
    axis: Axes, leads: Sequence[Interval], label: str, i: int, offset: float, *, is_last: bool
) -> None:
    """Draw one method's leads and intervals, a little below those of the method before."""
    mean, low, high = (np.array(values) for values in zip(*leads, strict=True))
    axis.errorbar(
        mean, np.arange(len(leads)) + offset, xerr=np.nan_to_num([mean - low, high - mean]),
        fmt="o^vsDP"[i % 6], ms=6 if is_last else 3.5, lw=2.5 if is_last else 1,
        color="black" if is_last else line_style(i)["color"], label=label,
    )  # fmt: skip


def draw_phases(exhibit: Exhibit, results: StudyResults, path: Path) -> None:
    """Write the phase diagram: groups upwards, their parts to the right, colour for the lead.

    Below a lead are its interval and, in italics, the baseline's → the method's mean. Cells whose
    interval contains 0 are hatched.
    """
    rows, columns, cells = phases(exhibit, results)
    means: NDArray[Any] = np.array([[cell.lead.mean for cell in row] for row in cells])
    with mpl.rc_context({**STYLE, "axes.grid": False}):
        size = (1.9 + 1.25 * len(columns), 1.2 + 0.8 * len(rows))
        figure = Figure(figsize=size, layout="constrained")
        axis = figure.subplots()
        image = axis.imshow(
            means, cmap="RdBu", vmin=-WIDEST, vmax=WIDEST, origin="lower", aspect="auto"
        )
        for i, row in enumerate(cells):
            for j, cell in enumerate(row):
                _draw_cell(axis, i, j, cell, exhibit.columns[0])
        axis.set_xticks(range(len(columns)), columns, fontsize=9)
        axis.set_yticks(range(len(rows)), rows, fontsize=9)
        axis.set_ylabel(exhibit.axes[0])
        axis.set_xlabel(f"lenient  ←  {exhibit.axes[1]}  →  strict")
        axis.spines[:].set_visible(False)
        bar = figure.colorbar(image, ax=axis, extend="both")
        method, baseline = exhibit.method_labels[-1], exhibit.study.baseline
        bar.set_label(f"GM-Appeal of unseen clients, {method} − {baseline}\n"
                      f"(in italics: {baseline} → {method})")  # fmt: skip
        figure.savefig(path, dpi=150)


def _draw_cell(axis: Axes, i: int, j: int, cell: Phase, column: Column) -> None:
    """Write a lead, its interval and its levels; hatch a cell that is not told apart from 0."""
    mean, low, high = cell.lead
    if not np.isfinite(mean):
        return
    is_told = low > 0 or high < 0
    if not is_told:
        frame = (j - 0.5, i - 0.5)
        axis.add_patch(Rectangle(frame, 1, 1, fill=False, hatch="////", lw=0, ec="0.8"))
    box = None if is_told else {"facecolor": "white", "alpha": 0.8, "lw": 0, "pad": 1.0}
    look: dict[str, Any] = {
        "ha": "center", "va": "center", "bbox": box,
        "color": "white" if abs(mean) > 0.55 * WIDEST else "black",
    }  # fmt: skip
    bold, _, interval = interval_cell(cell.lead, column).partition(" ")
    axis.text(j, i + 0.25, bold, weight="bold", **look)
    axis.text(j, i - 0.03, interval, fontsize=7, **look)
    axis.text(j, i - 0.29, levels_cell(cell, column), fontsize=7, style="italic", **look)
