"""What a reader of a study's tables has to know: what was not run, and what went wrong."""

import re
from typing import NamedTuple

from maxfl.paper.declare import Exhibit, Part
from maxfl.paper.results import StudyResults

DIVERGED, EVERYBODY_LEFT = "diverged", "everybody left"
STALLED = re.compile(r"nobody willing from round (\d+) on")
"""How ``study.json`` says that everybody left."""


class Trouble(NamedTuple):
    """One mishap of a method on a part.

    Attributes:
        seeds: In how many seeds.
        rounds: From which rounds on nobody was willing, first and last; () if it diverged.
    """

    seeds: int
    rounds: tuple[int, ...]


def describe_trouble(stalled_from: int | None) -> str:
    """Say for ``study.json`` what went wrong in a run: nobody was willing, or it diverged."""
    return f"nobody willing from round {stalled_from} on" if stalled_from else DIVERGED


def trouble_lines(exhibit: Exhibit, results: StudyResults) -> list[str]:
    """Say what went wrong with methods that an exhibit shows, a line for each part and mishap."""
    return [
        line
        for part in _shown_parts(exhibit)
        for what in (EVERYBODY_LEFT, DIVERGED)
        if (line := _part_line(exhibit, results, part.label, what))
    ]


def _part_line(exhibit: Exhibit, results: StudyResults, part: str, what: str) -> str:
    """Say of one mishap which methods had it; those of the same seeds and rounds together."""
    methods: dict[str, list[str]] = {}
    column = next(column for column in exhibit.columns if column.part == part)
    for method in exhibit.method_labels:
        if trouble := _trouble(results, part, method, what):
            seeds = len(results.final(method, column))
            methods.setdefault(_in_words(trouble, seeds), []).append(method)
    which = "; ".join(f"{' · '.join(alike)} {words}" for words, alike in methods.items())
    return f"{part}: {what}: {which}" if which else ""


def _trouble(results: StudyResults, part: str, method: str, what: str) -> Trouble | None:
    """Return one mishap of a method on a part; None if it had none."""
    mishaps = [
        STALLED.fullmatch(trouble["what"])
        for trouble in results.summary["troubles"]
        if (trouble["part"], trouble["method"]) == (part, method)
    ]
    found = [mishap for mishap in mishaps if bool(mishap) == (what == EVERYBODY_LEFT)]
    rounds = sorted({int(mishap[1]) for mishap in found if mishap})
    return Trouble(len(found), (*rounds[:1], *rounds[1:][-1:])) if found else None


def _in_words(trouble: Trouble, seeds: int) -> str:
    count = f"in {trouble.seeds} of {seeds} seed{'s' if seeds > 1 else ''}"
    if not trouble.rounds:
        return count
    rounds = " to ".join(map(str, trouble.rounds))
    return f"{count} (round{'s' if len(trouble.rounds) > 1 else ''} {rounds})"


def not_run(exhibit: Exhibit, results: StudyResults) -> list[str]:
    """Name the parts of an exhibit that a run of its study has not; a group that is missing once.

    A run may have some parts alone (``maxfl paper run --part``).
    """
    shown = _shown_parts(exhibit)
    run = {part.group for part in shown if part.label in results.parts}
    missing = [part for part in shown if part.label not in results.parts]
    return list(dict.fromkeys(p.label if p.group in run else p.group for p in missing))


def _shown_parts(exhibit: Exhibit) -> list[Part]:
    """Return the parts that an exhibit has columns of, in the study's order."""
    labels = {column.part for column in exhibit.columns}
    return [part for part in exhibit.study.parts if part.label in labels]
