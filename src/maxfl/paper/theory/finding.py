"""What a part of the theory shows: a sentence, a table, numbers and a figure."""

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure

from maxfl.report.style import STYLE

SIZE = (8, 3.8)


class Finding(NamedTuple):
    """What a part of the theory shows.

    Attributes:
        name: Its files' names.
        sentence: What it shows, in one sentence.
        headings: The table's headings.
        rows: The table's rows, as people read them.
        columns: The numbers behind it, one name and one sequence each, all of one length.
        draw: Draws it into a figure.
    """

    name: str
    sentence: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    columns: Mapping[str, Sequence[Any]]
    draw: Callable[[Figure], None]


def write(finding: Finding, folder: Path) -> list[Path]:
    """Write the figure as PNG and SVG, and the numbers as CSV."""
    folder.mkdir(parents=True, exist_ok=True)
    png, svg, table = (folder / f"{finding.name}.{kind}" for kind in ("png", "svg", "csv"))
    with mpl.rc_context({**STYLE, "svg.hashsalt": "maxfl"}):  # the same figure, the same bytes
        figure = Figure(figsize=SIZE, layout="constrained")
        finding.draw(figure)
        figure.savefig(png, dpi=150)
        figure.set_layout_engine("none")  # it is laid out by now
        figure.savefig(svg, metadata={"Date": None})
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(finding.columns)
        for row in zip(*finding.columns.values(), strict=True):
            writer.writerow([f"{v:.7g}" if isinstance(v, float) else v for v in row])
    return [png, svg, table]
