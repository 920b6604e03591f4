"""Two methods against each other, of histories or folders: what ``maxfl compare`` prints."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maxfl.report.statistics.compare import Difference, few_seeds
from maxfl.report.statistics.sides import Side, parse_side, read_sides
from maxfl.report.statistics.two_methods import GROUPS, TwoMethods, as_json, compare_two
from maxfl.report.table import Probability
from maxfl.runs.inline import Result, result_folder
from maxfl.utils.display import Rows, html_table, one_line
from maxfl.utils.errors import InputError, check_choice


@dataclass(frozen=True, repr=False)
class Comparison:
    """A against B, paired by seed and client.

    Attributes:
        cases: One for each data set that both ran on.
        notes: What could not be paired, in words.
    """

    cases: tuple[TwoMethods, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return all differences, intervals and tests as plain data, as ``--json`` prints them."""
        return as_json(self.cases, self.notes)

    def __repr__(self) -> str:
        """Return a line with every difference and its interval."""
        return one_line("Comparison", lambda: "; ".join(f"{k}: {v}" for k, v in self._rows()))

    def _repr_html_(self) -> str:
        """Return a small table for notebooks."""
        return html_table("A − B (95 % interval)", self._rows)

    def _rows(self) -> Rows:
        for one in self.cases:
            if one.pair.case:
                yield "data", one.pair.case
            yield "A", one.a
            yield "B", f"{one.b}, {len(one.pair.seeds)} seeds"
            for found in one.differences:
                yield f"{found.measure.heading}, {found.clients}", _written(found)
            for group, tests in one.satisfied.items():
                yield f"McNemar's p, {group}", Probability(tests.all_seeds.p).texts[0]
            if little := few_seeds(len(one.pair.seeds)):
                yield "note", little
        for note in self.notes:
            yield "note", note


def compare(
    a: Result,
    b: Result,
    *,
    measures: Sequence[str] = (),
    clients: str = "both",
    only_global: bool = False,
) -> Comparison:
    """Compare two methods over the seeds and clients that both had.

    Each difference is A − B client by client, with a 95 % interval of a bootstrap over seeds and
    clients; whom only one of them satisfies is tested (McNemar).

    Args:
        a: A history, or a folder as ``maxfl compare`` takes it, such as ``"runs/two:maxfl"``.
        b: Likewise.
        measures: Names as in metrics.parquet; by default GM-Appeal, the first metric, and that of
            the preferred model.
        clients: ``"seen"``, ``"unseen"`` or ``"both"``.
        only_global: Whether to compare global models also where clients have personal ones.
    """
    groups = {"both": GROUPS} | {group: (group,) for group in GROUPS}
    chosen = groups[check_choice("clients", clients, groups)]
    if isinstance(measures, str):
        raise InputError(f"measures = {measures!r}: expected a list of names, as [{measures!r}]")
    with tempfile.TemporaryDirectory() as place, _without_place(place):
        sides = read_sides(*(_side(side, name, Path(place)) for side, name in ((a, "A"), (b, "B"))))
        compared = compare_two(sides, measures, chosen, only_global=only_global)
    return Comparison(tuple(compared), tuple(sides.notes))


@contextmanager
def _without_place(place: str) -> Iterator[None]:
    """Name histories in messages as A and B, not by where they are for a moment."""
    try:
        yield
    except InputError as error:
        raise InputError(str(error).replace(f"{place}/", "")) from None


def _side(result: Result, name: str, place: Path) -> Side:
    """Return one side, a history written below a place."""
    if isinstance(result, str | Path):
        return parse_side(str(result))
    return Side(name, (result_folder(result, place / name),), "")


def _written(found: Difference) -> str:
    """Write a difference, its interval and where A stands."""
    if found.refused:
        return found.refused
    estimate = found.measure.estimate(found.interval)
    return " ".join(filter(None, (estimate.texts[0], estimate.aside, found.word)))
