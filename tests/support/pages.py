"""Tables of the documents, and results beside them."""

import csv

from support.commands import ROOT


def rows_of(page, heading):
    """Cells of the rows of the table with a heading in its first line, without ** and `."""
    text = (ROOT / page).read_text(encoding="utf-8").replace("**", "").replace("`", "")
    lines = text[text.index(heading) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def read_csv(name):
    with (ROOT / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))
