"""A and B, as a person names them: run folders, patterns of them, or one method of a sweep."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from maxfl.report.configurations import Configuration
from maxfl.report.names import NAME
from maxfl.report.source import Source, read
from maxfl.report.statistics.pairing import Pair, federation_of, pair
from maxfl.utils.errors import InputError, did_you_mean

MOST_LISTED = 8
"""Methods or settings that a message lists."""


class Side(NamedTuple):
    """One of two sides.

    Attributes:
        text: As it was named.
        folders: Of its runs.
        method: The method among those in the folders; "" if there is only one.
    """

    text: str
    folders: tuple[Path, ...]
    method: str


class Sides(NamedTuple):
    """Two methods, read.

    Attributes:
        source: Their configurations, and no others of the folders.
        pairs: Of the two, one for each case that both have.
        notes: What could not be paired, in words.
    """

    source: Source
    pairs: list[Pair]
    notes: list[str]


def parse_side(text: str) -> Side:
    """Read DIR, DIR:METHOD, or a pattern of folders as runs/maxfl-*."""
    ends = [len(text), *(n for n in range(len(text) - 1, 0, -1) if text[n] == ":")]
    # The longest that is there, since a method of one's own has colons too, as may a folder.
    end = next((end for end in ends if _folders(text[:end])), ends[-1])
    path, method = text[:end], text[end + 1 :]
    folders = _folders(path)
    if not folders and _is_pattern(path):
        raise InputError(f"{path}: there is no folder of that pattern")
    return Side(text, folders or (Path(path),), method)


def _folders(path: str) -> tuple[Path, ...]:
    """Return the folder, or those of a pattern; () if there is none."""
    folder = Path(path)
    if folder.exists() or not _is_pattern(path):
        return (folder,) if folder.exists() else ()
    return tuple(sorted(found for found in folder.parent.glob(folder.name) if found.is_dir()))


def _is_pattern(path: str) -> bool:
    return bool(set("*?[") & set(Path(path).name))


def read_sides(first: Side, second: Side) -> Sides:
    """Read two sides, and pair them; or say why they can't be compared."""
    source = read(list(dict.fromkeys([*first.folders, *second.folders])))
    a, b = (_choose(source, side) for side in (first, second))
    if a[0].method == b[0].method and {c.case for c in a} & {c.case for c in b}:
        raise InputError(
            f"A ({first.text}) and B ({second.text}) are both {a[0].method}: name two methods, or "
            f"runs whose settings differ"
        )
    source = _only(source, [*a, *b])
    cases = [case for case in source.cases if all(case in _cases(side) for side in (a, b))]
    if not cases:
        raise InputError(
            f"A ({first.text}) and B ({second.text}) ran on other data: {_differing(a[0], b[0])}. "
            f"Only runs on the same clients can be compared"
        )
    pairs, notes = [], []
    for case in cases:
        found = pair(source, case, a[0].method, b[0].method)
        why = _unpaired(*([c for c in side if c.case == case] for side in (a, b)))
        if found.seeds:
            pairs.append(found)
        if why:
            notes.append(f"{case}: {why}" if case else why)
    if not pairs:
        raise InputError(
            f"{a[0].method} and {b[0].method} have no seed with the same clients: "
            f"{'; '.join(notes)}. Run both with the same seeds and data, since only paired runs "
            f"are compared"
        )
    return Sides(source, pairs, [f"Left out: {note}" for note in notes])


def _choose(source: Source, side: Side) -> list[Configuration]:
    """Return the configurations of a side, all of one method."""
    inside = [c for c in source.configurations if c.named in side.folders]
    methods = list(dict.fromkeys(c.method for c in inside))
    chosen = _named(inside, side.method) if side.method else methods
    if len(chosen) == 1:
        return [c for c in inside if c.method == chosen[0]]
    where = side.text.removesuffix(f":{side.method}")
    listed = "; ".join((chosen or methods)[:MOST_LISTED])
    if not chosen:
        raise InputError(
            f"{where} has no method {side.method!r}. It has: {listed}"
            f"{did_you_mean(side.method, methods)}"
        )
    raise InputError(
        f'{side.text} holds {len(chosen)} methods: {listed}. Name one, as "{where}:{chosen[0]}"'
    )


def _only(source: Source, chosen: Sequence[Configuration]) -> Source:
    """Return what a source has of some configurations."""
    case, method, seed = (source.metrics[n].cast(pa.string()) for n in ("case", "method", "seed"))
    rows = pc.binary_join_element_wise(case, method, seed, "\0")
    wanted = pa.array([f"{c.case}\0{c.method}\0{c.seed}" for c in chosen])
    metrics = source.metrics.filter(pc.is_in(rows, wanted))
    return source._replace(configurations=list(chosen), metrics=metrics)


def _named(inside: Sequence[Configuration], name: str) -> list[str]:
    """Return the methods of that name: as tables have it, or the setting algorithm.name."""
    wanted = name.strip().lower()
    methods = dict.fromkeys(c.method for c in inside)
    exact = [m for m in methods if m.lower() == wanted]
    settings = dict.fromkeys(
        c.method for c in inside if str(c.settings.get(NAME, "")).lower() == wanted
    )
    parts = [m for m in methods if m.lower().startswith(f"{wanted},")]
    return exact or list(settings) or parts


def _cases(side: Sequence[Configuration]) -> set[str]:
    return {c.case for c in side}


def _differing(a: Configuration, b: Configuration) -> str:
    """Say how the data of two configurations differ."""
    keys = [k for k in {**a.settings, **b.settings} if k.startswith("data.")]
    found = [
        f"{key} is {a.settings.get(key)} and {b.settings.get(key)}"
        for key in keys
        if repr(a.settings.get(key)) != repr(b.settings.get(key))
    ]
    return ", ".join(found[:MOST_LISTED]) or f"{a.data}, and {b.data}"


def _unpaired(a: Sequence[Configuration], b: Sequence[Configuration]) -> str:
    """Say which seeds can't be paired, and why; "" if all are."""
    first, second = ({c.seed: federation_of(c) for c in side} for side in (a, b))
    alone = [
        f"{_seeds(sorted(set(x) - set(y)))} of {name} alone"
        for x, y, name in ((first, second, a[0].method), (second, first, b[0].method))
        if set(x) - set(y)
    ]
    other = [s for s in sorted(set(first) & set(second)) if first[s] != second[s]]
    clients = [f"{_seeds(other)}, in which they had different clients"] if other else []
    return "; ".join([*alone, *clients])


def _seeds(seeds: Sequence[int]) -> str:
    listed = ", ".join(map(str, seeds[:MOST_LISTED]))
    return (
        f"seed{'s' if len(seeds) > 1 else ''} {listed}{', …' if len(seeds) > MOST_LISTED else ''}"
    )
