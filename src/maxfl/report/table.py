"""A table of results, once for all forms: page, Markdown, LaTeX and CSV print the same digits."""

import csv
import html
import io
import textwrap
from collections.abc import Iterator, Sequence
from decimal import ROUND_HALF_EVEN, Decimal
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
        mean = decimal_text(self.mean, self.digits, self.signed)
        return mean, "" if self.std is None else decimal_text(self.std, self.digits)

    @property
    def texts(self) -> tuple[str, ...]:
        """What columns of a file hold."""
        return self.printed

    @property
    def aside(self) -> str:
        """What stands beside the mean."""
        return f"± {self.printed[1]}" if self.printed[1] else ""


class Estimate(NamedTuple):
    """A difference with its interval.

    Attributes:
        mean: NaN if there is none.
        low: Lower end; NaN without an interval.
        high: Upper end.
        digits: Printed after the point.
        signed: Whether a plus is printed too.
    """

    mean: float
    low: float
    high: float
    digits: int
    signed: bool = True

    @classmethod
    def of(cls, interval: Sequence[float], digits: int | None, percent: bool = False) -> "Estimate":
        """Take mean, low and high; without ``digits``, the largest gets three significant ones."""
        mean, low, high = (v * (100 if percent else 1) for v in interval)
        if digits is None:
            finite = [abs(v) for v in (mean, low, high) if np.isfinite(v)]
            digits = _significant(max(finite, default=0.0))
        return cls(mean, low, high, digits)

    @property
    def texts(self) -> tuple[str, ...]:
        """What columns of a file hold."""
        return tuple(
            decimal_text(v, self.digits, self.signed) if np.isfinite(v) else "n/a" if i == 0 else ""
            for i, v in enumerate((self.mean, self.low, self.high))
        )

    @property
    def aside(self) -> str:
        """What stands beside the mean."""
        _, low, high = self.texts
        return f"({low} to {high})" if low and high else ""


class Probability(NamedTuple):
    """A p-value; NaN if there is none."""

    value: float

    @property
    def texts(self) -> tuple[str, ...]:
        """What columns of a file hold."""
        if not np.isfinite(self.value):
            return ("n/a",)
        return (f"{self.value:.3f}" if self.value >= LEAST_P else f"<{LEAST_P}",)

    @property
    def aside(self) -> str:
        """Nothing stands beside it."""
        return ""


LEAST_P = 0.001
"""Smaller p-values are not printed: no assumption holds that well."""


def decimal_text(value: float, digits: int, signed: bool = False) -> str:
    """Write a number, halves to even, without a minus before a zero.

    As a decimal of ten digits: 0.415 is 0.42 and 41.5 is 42, whatever the last bits of a float.
    """
    rounded = Decimal(f"{value:.10g}").quantize(Decimal(1).scaleb(-digits), ROUND_HALF_EVEN)
    text = f"{rounded:{'+' if signed else ''}f}"
    return text.replace("-", "+" if signed else "") if float(text) == 0 else text


def _significant(value: float, count: int = 3) -> int:
    """Return the digits after the point that show so many significant ones."""
    if not np.isfinite(value) or value == 0:
        return count
    power = int(f"{value:.{count - 1}e}".partition("e")[2])  # of the number as it is rounded
    return max(0, count - 1 - power)


Figure = Statistic | Estimate | Probability
Cell = str | int | Figure
SUFFIXES = {Statistic: ("", " (std)"), Estimate: ("", " (low)", " (high)"), Probability: ("",)}
"""Of the columns that a cell has in a file."""


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
    rows = [[plain(cell).replace("|", "\\|") for cell in row] for row in table.rows]
    lines = [list(table.headings), ruler, *rows]
    notes = "".join(f"\n{note}\n" for note in table.notes)
    body = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return f"**{table.title}**\n\n{body}{notes}"


def to_csv(table: Table) -> str:
    """Write a table as CSV, with columns for standard deviations and the ends of intervals."""
    suffixes = [_suffixes(table, i) for i in _columns(table)]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(
        f"{heading}{suffix}"
        for heading, endings in zip(table.headings, suffixes, strict=True)
        for suffix in endings
    )
    for row in table.rows:
        cells: list[str] = []
        for cell, endings in zip(row, suffixes, strict=True):
            texts = _texts(cell)
            if not isinstance(cell, str):
                texts = tuple("" if text == "n/a" else text for text in texts)
            cells += [*texts, *[""] * (len(endings) - len(texts))]
        writer.writerow(cells)
    return file.getvalue()


def _suffixes(table: Table, column: int) -> tuple[str, ...]:
    """Return what is added to a heading for each of its columns in a file."""
    kinds = {type(row[column]) for row in table.rows}
    return next((endings for kind, endings in SUFFIXES.items() if kind in kinds), ("",))


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
    title = html.escape(table.title)
    return (
        f'<div class=scroll tabindex=0 role=region aria-label="{title}">'
        f'<table class=sortable id="table-{table.name}">'
        f"<caption>{title}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div>{notes}"
    )


def _columns(table: Table) -> range:
    return range(len(table.headings))


def _numeric(table: Table, column: int) -> bool:
    return any(not isinstance(row[column], str) for row in table.rows)


def _numeric_class(table: Table, column: int) -> str:
    return " class=number" if _numeric(table, column) else ""


def _texts(cell: Cell) -> tuple[str, ...]:
    return (str(cell),) if isinstance(cell, str | int) else cell.texts


def _aside(cell: Cell) -> str:
    return "" if isinstance(cell, str | int) else cell.aside


def plain(cell: Cell) -> str:
    """Write a cell in one line."""
    return f"{_texts(cell)[0]} {_aside(cell)}".rstrip()


def _sort_key(cell: Cell) -> str:
    key = str(cell.value) if isinstance(cell, Probability) else _texts(cell)[0]
    return html.escape(key, quote=True)


def _html_cell(cell: Cell) -> str:
    first, aside = html.escape(_texts(cell)[0]), html.escape(_aside(cell))
    return f"{first} <small>{aside}</small>" if aside else first


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
    first, *rest = _texts(cell)
    if isinstance(cell, str | Probability) or first == "n/a":
        return _tex(first)
    if not _aside(cell):
        return f"${first}$"
    if isinstance(cell, Estimate):
        return f"${first}$ (${rest[0]}$ to ${rest[1]}$)"
    return f"${first} \\pm {rest[0]}$"


def narrow(table: Table) -> Table:
    """Drop the column of the data where there is only one case."""
    if any(row[0] for row in table.rows):
        return table
    return table._replace(headings=table.headings[1:], rows=[row[1:] for row in table.rows])
