"""Words and cells that all tables of a study share."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.paper.declare import Column, Exhibit
from maxfl.paper.results import PERCENT, StudyResults
from maxfl.report.table import decimal_text

WORDS = {
    "test_accuracy": "test accuracy",
    "gm_appeal": "GM-Appeal",
    "preferred_accuracy": "preferred-model accuracy",
    "judging_loss": "training loss",
    "test_loss": "test loss",
}
MULTIPLE = "requirement.multiple"


class Comparison(NamedTuple):
    """One part of an exhibit as a table.

    Attributes:
        title: The part, with the data that were used.
        headings: One for each column.
        rows: Method, then a cell for each column; a method's row is followed by the paper's.
        remarks: Where the order of methods differs from the paper's, or that it does not.
    """

    title: str
    headings: list[str]
    rows: list[list[str]]
    remarks: list[str]


def heading(column: Column) -> str:
    """Return what a column shows, of whom."""
    finetuned = ", fine-tuned" if column.model == "personal" else ""
    unit = ", %" if column.metric in PERCENT else ""
    return f"{column.clients}{finetuned}: {WORDS[column.metric]}{unit}"


def our_cell(values: NDArray[Any], column: Column) -> str:
    """Return mean ± standard deviation, or the one value of a single seed."""
    digits = digits_of(column)
    mean = decimal_text(float(np.mean(values)), digits)
    return f"{mean} ± {decimal_text(std(values), digits)}" if len(values) > 1 else mean


def std(values: NDArray[Any]) -> float:
    """Return the standard deviation over seeds, 0 for one."""
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def digits_of(column: Column) -> int:
    """Return one digit for percentages, two for shares and losses."""
    return 1 if column.metric in PERCENT else 2


def signed(value: float, digits: int) -> str:
    """Return a difference with its sign; what rounds to 0 has none."""
    rounded = round(value, digits) + 0.0  # −0.0 is 0
    return f"{rounded:{'+' if rounded else ''}.{digits}f}".replace("-", "\N{MINUS SIGN}")


def gm_appeal_note(exhibit: Exhibit) -> str:
    """Say what GM-Appeal is in an exhibit; "" if it shows none."""
    columns = [column for column in exhibit.columns if column.metric == "gm_appeal"]
    if not columns:
        return ""
    finetuned = ", fine-tuned," if columns[0].model == "personal" else ""
    multiples = {part.settings.get(MULTIPLE, 1.0) for part in exhibit.study.parts}
    below = (
        "that of a model trained alone"
        if multiples == {1.0}
        else f"ρ, {max(multiples):g} to {min(multiples):g} times that of a model trained alone"
    )
    return f"share of clients whose test loss with the global model{finetuned} is below {below}"


def data_remarks(results: StudyResults, part: str) -> list[str]:
    """Say what the data of a part are not."""
    note = results.summary["data_notes"][part]
    return [note] if note else []
