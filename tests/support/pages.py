"""Tables of the documents, and results beside them."""

import csv
import json

from support.commands import ROOT


def rows_of(page, heading):
    """Cells of the rows of the table with a heading in its first line, without ** and `."""
    text = (ROOT / page).read_text(encoding="utf-8").replace("**", "").replace("`", "")
    lines = text[text.index(heading) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def read_csv(name):
    with (ROOT / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def words_of(page):
    """Text of a page, without line breaks."""
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


def read_results(name):
    return json.loads((ROOT / f"benchmarks/results/{name}.json").read_text())


def read_rounds(name):
    return read_results(name)["rounds"]


def shown(ms):
    """Milliseconds with three digits."""
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:.1f}" if ms >= 10 else f"{ms:.2f}"
