"""A table of results, once for all forms: page, Markdown, LaTeX and CSV print the same digits."""

import csv
import html
import io
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Statistic(NamedTuple):
    """A mean with its standard deviation over seeds.

    Attributes:
        mean: NaN if there is none.
        std: Sample standard deviation; None for a single seed.
        digits: Printed after the point.
        signed: Whether a plus is printed too.
    """

    mean: float
    std: float | None
    digits: int
    signed: bool = False

    @classmethod
    def of(
        cls,
        values: Sequence[float | None] | NDArray[Any],
        digits: int | None,
        percent: bool = False,
        signed: bool = False,
    ) -> "Statistic":
        """Compute both from the values of all seeds; shares in per cent if so chosen.

        Without ``digits``, the larger of the two gets three significant ones.
        """
        # float32 has seven digits: without the rest, halves are rounded alike wherever they stand.
        numbers = np.array([np.nan if v is None else float(f"{v:.7g}") for v in values])
        numbers = numbers * (100 if percent else 1)
        std = float(numbers.std(ddof=1)) if len(numbers) > 1 else None
        mean = float(numbers.mean()) if len(numbers) else np.nan
        if digits is None:
            digits = _significant(max(abs(mean), std or 0.0))
        return cls(mean, std, digits, signed)

    @property
    def printed(self) -> tuple[str, str]:
        """Mean and standard deviation as text; the latter empty for a single seed."""
        if not np.isfinite(self.mean):
            return "n/a", ""
        mean = f"{self.mean:{'+' if self.signed else ''}.{self.digits}f}"
        if float(mean) == 0:  # no minus before a zero
            mean = mean.replace("-", "+" if self.signed else "")
        return mean, "" if self.std is None else f"{self.std:.{self.digits}f}"


def _significant(value: float, count: int = 3) -> int:
    """Return the digits after the point that show so many significant ones."""
    if not np.isfinite(value) or value == 0:
        return count
    power = int(f"{value:.{count - 1}e}".partition("e")[2])  # of the number as it is rounded
    return max(0, count - 1 - power)


Cell = str | int | Statistic


class Table(NamedTuple):
    """Headings and rows.

    Attributes:
        name: Of its files.
        title: What it shows.
        headings: One for each column; percentages say so.
        rows: Cells.
        notes: What a reader must know.
    """

    name: str
    title: str
    headings: tuple[str, ...]
    rows: list[tuple[Cell, ...]]
    notes: tuple[str, ...] = ()


def to_markdown(table: Table) -> str:
    """Write a table in Markdown, with the title above and the notes below."""
    ruler = ["---:" if _numeric(table, i) else "---" for i in range(len(table.headings))]
    rows = [[_plain(cell).replace("|", "\\|") for cell in row] for row in table.rows]
    lines = [list(table.headings), ruler, *rows]
    notes = "".join(f"\n{note}\n" for note in table.notes)
    body = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return f"**{table.title}**\n\n{body}{notes}"


def to_csv(table: Table) -> str:
    """Write a table as CSV, with a column for the mean and one for the standard deviation."""
    is_split = [any(isinstance(row[i], Statistic) for row in table.rows) for i in _columns(table)]
    headings: list[str] = []
    for heading, split in zip(table.headings, is_split, strict=True):
        headings += [heading, f"{heading} (std)"] if split else [heading]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(headings)
    for row in table.rows:
        cells: list[str] = []
        for cell, split in zip(row, is_split, strict=True):
            if split:
                cells += ["" if c == "n/a" else c for c in _printed(cell)]
            else:
                cells.append(str(cell))
        writer.writerow(cells)
    return file.getvalue()


def to_latex(table: Table, label: str = "maxfl") -> str:
    r"""Write a table in LaTeX; the document needs \usepackage{booktabs}."""
    columns = "".join("r" if _numeric(table, i) else "l" for i in _columns(table))
    headings = " & ".join(
        _stacked(heading, "r" if _numeric(table, i) else "l")
        for i, heading in enumerate(table.headings)
    )
    rows = "".join(
        f"    {' & '.join(map(_tex_cell, row))} \\\\\n" for row in _without_repeats(table.rows)
    )
    notes = " ".join(map(_tex, table.notes))
    return (
        "\\begin{table}\n  \\centering\\footnotesize\\setlength{\\tabcolsep}{4pt}\n"
        f"  \\caption{{{_tex(table.title)}. {notes}}}\n  \\label{{tab:{label}-{table.name}}}\n"
        f"  \\begin{{tabular}}{{{columns}}}\n    \\toprule\n    {headings} \\\\\n    \\midrule\n"
        f"{rows}    \\bottomrule\n  \\end{{tabular}}\n\\end{{table}}\n"
    )


def to_html(table: Table) -> str:
    """Write a table in HTML whose headings are buttons that sort it."""
    head = "".join(
        f'<th scope="col"{_numeric_class(table, i)}><button type="button">'
        f"{html.escape(heading)}</button></th>"
        for i, heading in enumerate(table.headings)
    )
    rows = "".join(
        "<tr>"
        + "".join(
            f'<td{_numeric_class(table, i)} data-sort="{_sort_key(cell)}">{_html_cell(cell)}</td>'
            for i, cell in enumerate(row)
        )
        + "</tr>"
        for row in table.rows
    )
    notes = "".join(f"<p class=note>{html.escape(note)}</p>" for note in table.notes)
    return (
        f'<div class=scroll><table class=sortable id="table-{table.name}">'
        f"<caption>{html.escape(table.title)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div>{notes}"
    )


def _columns(table: Table) -> range:
    return range(len(table.headings))


def _numeric(table: Table, column: int) -> bool:
    return any(not isinstance(row[column], str) for row in table.rows)


def _numeric_class(table: Table, column: int) -> str:
    return " class=number" if _numeric(table, column) else ""


def _printed(cell: Cell) -> tuple[str, str]:
    return cell.printed if isinstance(cell, Statistic) else (str(cell), "")


def _plain(cell: Cell) -> str:
    mean, std = _printed(cell)
    return f"{mean} ± {std}" if std else mean


def _sort_key(cell: Cell) -> str:
    return html.escape(_printed(cell)[0] if not isinstance(cell, str) else cell, quote=True)


def _html_cell(cell: Cell) -> str:
    mean, std = (html.escape(text) for text in _printed(cell))
    return f"{mean} <small>± {std}</small>" if std else mean


_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "±": r"$\pm$", "×": r"$\times$", "−": r"$-$", "η": r"$\eta$", "ε": r"$\varepsilon$",
    "ρ": r"$\rho$", "σ": r"$\sigma$", "τ": r"$\tau$", "μ": r"$\mu$", "α": r"$\alpha$",
    "λ": r"$\lambda$", "<": r"$<$", ">": r"$>$", "|": r"\textbar{}", "≤": r"$\le$",
}  # fmt: skip


def _tex(text: str) -> str:
    return "".join(_SPECIAL.get(letter, letter) for letter in text)


def _stacked(heading: str, side: str) -> str:
    """Break a heading into narrow lines."""
    lines = textwrap.wrap(heading, 12, break_long_words=False)
    return rf"\shortstack[{side}]{{" + r" \\ ".join(map(_tex, lines)) + "}"


def _without_repeats(rows: Sequence[tuple[Cell, ...]]) -> Iterator[tuple[Cell, ...]]:
    """Leave out the first words of a row that are those of the row above."""
    above: tuple[Cell, ...] = ()
    for row in rows:
        same = 0
        while same < len(above) and isinstance(row[same], str) and row[same] == above[same]:
            same += 1
        yield ("",) * same + row[same:]
        above = row


def _tex_cell(cell: Cell) -> str:
    mean, std = _printed(cell)
    if isinstance(cell, str) or mean == "n/a":
        return _tex(mean)
    return f"${mean} \\pm {std}$" if std else f"${mean}$"


def narrow(table: Table) -> Table:
    """Drop the column of the data where there is only one case."""
    if any(row[0] for row in table.rows):
        return table
    return table._replace(headings=table.headings[1:], rows=[row[1:] for row in table.rows])
