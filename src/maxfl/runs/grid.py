"""The configurations of a sweep: every combination of some settings."""

import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from maxfl.runs.configs.file import override_all, validate
from maxfl.runs.configs.run import RunConfig
from maxfl.utils.dicts import flatten
from maxfl.utils.errors import InputError


class Grid(NamedTuple):
    """The configurations of a sweep, and what is special about each."""

    values: list[dict[str, Any]]
    configs: list[RunConfig]


MOST_CONFIGURATIONS = 10_000
"""Of a sweep; more are taken for a mistake."""


def expand(
    raw: dict[str, Any],
    where: str,
    *,
    force: bool = False,
    announce: Callable[[str], None] | None = None,
) -> Grid:
    """Return every combination of the lists under ``[sweep]``, on top of the rest of the file.

    With several tables ``[[sweep]]``, the combinations of each, one after another.

    Args:
        raw: The file's content.
        where: What it is called in messages.
        force: Whether more than ``MOST_CONFIGURATIONS`` are meant.
        announce: Called with a line where checking them will take time.
    """
    base = {key: value for key, value in raw.items() if key != "sweep"}
    axes = [_axes(table, where) for table in sweep_tables(raw, where)]
    count = sum(math.prod(map(len, table.values())) for table in axes)
    if count > MOST_CONFIGURATIONS and not force:
        raise InputError(
            f"{where} has {count:,} combinations, more than {MOST_CONFIGURATIONS:,}: shorten the "
            f"lists of its sweep, or add --force if that is meant"
        )
    if count > MOST_CONFIGURATIONS and announce:
        announce(f"checking {count:,} combinations, which takes a second for every 15,000 or so")
    values = [
        dict(zip(table, combination, strict=True))
        for table in axes
        for combination in itertools.product(*table.values())
    ]
    known = set()
    for chosen in values:
        if (key := _hashable(chosen)) in known:
            raise InputError(
                f"{where} has a combination twice in its sweep: {describe_values(chosen)}"
            )
        known.add(key)
    return Grid(values, [_configure(base, chosen, where) for chosen in values])


def _hashable(value: Any) -> Any:
    """Return something that is equal for equal values, and can be looked up."""
    if isinstance(value, dict):
        return frozenset((key, _hashable(inner)) for key, inner in value.items())
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def refuse_swept(grid: Grid, settings: Iterable[str]) -> None:
    """Refuse settings that would do nothing, because the sweep has a list for them."""
    for key in settings:
        if all(key in values for values in grid.values):
            raise InputError(
                f"--set {key}: this sweep has a list for it; leave --set out, or change the list"
            )


def sweep_tables(raw: dict[str, Any], where: str) -> list[dict[str, Any]]:
    """Return the tables of a sweep: one ``[sweep]``, or several ``[[sweep]]``."""
    given = raw.get("sweep", {})
    tables = given if isinstance(given, list) else [given]
    if not all(isinstance(table, dict) for table in tables):
        raise InputError(f"{where}: sweep = {given!r}; expected a table [sweep] with lists")
    return tables


def _axes(table: dict[str, Any], where: str) -> dict[str, list[Any]]:
    """Return the lists of a sweep table, by dotted key."""
    axes = flatten(table)
    if not axes:
        raise InputError(
            f"{where} has nothing to sweep over: add a table [sweep] with lists, for instance "
            f"training.local_lr = [0.1, 0.05], or use --over"
        )
    for key, choices in axes.items():
        if choices == []:
            raise InputError(f"{where}: sweep.{key} is an empty list; give it at least one value")
        if not isinstance(choices, list):
            raise InputError(
                f"{where}: sweep.{key} = {choices!r}; expected a list of values, words in quotes, "
                f'as ["maxfl", "fedavg"]'
            )
    return axes


def _configure(base: dict[str, Any], chosen: dict[str, Any], where: str) -> RunConfig:
    """Return the configuration with some settings chosen."""
    base = override_all(base, chosen)
    return validate(base, f"{where} with {describe_values(chosen)}")


def describe_values(chosen: dict[str, Any]) -> str:
    """Return what is special about a configuration, in words."""
    return ", ".join(f"{key} = {value}" for key, value in chosen.items())
