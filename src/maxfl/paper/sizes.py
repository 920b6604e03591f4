"""Portfolios of several sizes beside each other: a row for each part and number of models."""

from maxfl.paper.declare import Column, Exhibit
from maxfl.paper.leads import interval_cell, lead
from maxfl.paper.results import StudyResults
from maxfl.paper.words import Comparison, data_remarks, heading, our_cell

MODELS = "portfolio.models"


def compare_sizes(exhibit: Exhibit, results: StudyResults) -> Comparison:
    """Return a table of all methods by number of models, and the last one's lead over the first.

    With one model, a method that is meant for several is the study's baseline.
    """
    labels = _labels(exhibit)
    families = list(dict.fromkeys(family for family, models in labels if models > 1))
    first, last = families[0], families[-1]
    columns = [column for column in exhibit.columns if column.part in results.parts]
    rows = []
    for column in columns:
        for models in sorted({models for _, models in labels}):
            names = {f: labels.get((f, models), exhibit.study.baseline) for f in families}
            cells = [our_cell(results.final(names[f], column), column) for f in families]
            ahead = interval_cell(lead(results, names[last], names[first], column), column)
            rows.append([column.part if models == 1 else "", str(models), *cells, ahead])
    remarks = [note for column in columns for note in data_remarks(results, column.part)]
    remarks += [_standing(exhibit, results, column) for column in columns]
    several = [family for family in families if (family, 1) not in labels]
    remarks.append(f"{' and '.join(several)} with one model: {exhibit.study.baseline}.")
    headings = ["", "models", *families, f"{last}, lead over {first}"]
    return Comparison(heading(columns[0]), headings, rows, remarks)


def _labels(exhibit: Exhibit) -> dict[tuple[str, int], str]:
    """Return the labels of an exhibit's methods, by what their sizes have in common and K."""
    return {
        (method.label.partition(",")[0], int(method.settings.get(MODELS, 1))): method.label
        for method in exhibit.study.methods
        if method.label in exhibit.method_labels
    }


def _standing(exhibit: Exhibit, results: StudyResults, column: Column) -> str:
    """Say which portfolios of the last method are told apart from its one model."""
    labels = _labels(exhibit)
    last = list(dict.fromkeys(family for family, models in labels if models > 1))[-1]
    sizes = sorted(models for family, models in labels if family == last and models > 1)
    over = {k: lead(results, labels[last, k], labels[last, 1], column) for k in sizes}
    ahead = [str(k) for k, interval in over.items() if interval.low > 0]
    behind = [str(k) for k, interval in over.items() if interval.high < 0]
    sides = (("ahead of", ahead), ("behind", behind))
    words = [f"{side} one: {', '.join(which)} models" for side, which in sides if which]
    return f"{column.part}: {last}, {'; '.join(words) or 'no portfolio is told apart from one'}."
