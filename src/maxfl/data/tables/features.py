"""Columns of features: numbers, yes and no, categories and lists, side by side in float32."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types

from maxfl.data.tables.categories import MISSING, Categories, categories, is_text
from maxfl.data.tables.numbers import (
    always_increases,
    is_list,
    is_number,
    lists_of,
    numbers_of,
)
from maxfl.data.tables.roles import TableOptions
from maxfl.data.tables.table import Table, listed
from maxfl.utils.errors import InputError

MANY_CATEGORIES = 1000
"""More than this are not encoded one-hot: each is a number in every row."""
DROP = "leave them out of the features (drop_columns; in Python, drop)"
NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
COMMA = r"^\s*[-+]?\d+,\d+\s*$"
"""Numbers in text, with a point or, as some countries write them, a comma."""


class Features(NamedTuple):
    """Features of all rows.

    Attributes:
        x: float32[n, d], NaN where missing; one column of lists keeps its shape and type, [n, ...].
        names: What each number of a row is, d of them; () for a column of lists alone.
        standardized: Which of them are to be brought to mean 0 and deviation 1, bool[d].
        missing: How many values each column lacks, of those that lack some.
        notes: What people should know of them.
    """

    x: NDArray[Any]
    names: tuple[str, ...]
    standardized: NDArray[np.bool_] | None
    missing: dict[str, int]
    notes: tuple[str, ...]


class Plan(NamedTuple):
    """How a column is written.

    Attributes:
        column: Its name.
        names: What each of its numbers is.
        standardized: Whether they are to be brought to mean 0 and standard deviation 1.
        write: Writes them, float32[n, width], and returns how many rows lack a value.
        note: What people should know of it, if anything.
    """

    column: str
    names: list[str]
    standardized: bool
    write: Callable[[NDArray[np.float32]], int]
    note: str = ""


def read_features(table: Table, names: list[str], options: TableOptions) -> Features:
    """Read the columns of features, one after another."""
    _check_types(table, names)
    _check_text(table, names, options)
    if len(names) == 1 and is_list(table.schema.field(names[0]).type):
        lists = lists_of(table.column(names[0]), f"{table.where}: column '{names[0]}'")
        return Features(lists, (), None, {}, ())
    plans = [_plan(table, name, options) for name in names]
    x = np.empty((table.rows, sum(len(plan.names) for plan in plans)), np.float32)
    missing, begin = {}, 0
    for plan in plans:
        end = begin + len(plan.names)
        if count := plan.write(x[:, begin:end]):
            missing[plan.column] = count
        begin = end
    return Features(
        x,
        tuple(name for plan in plans for name in plan.names),
        np.concatenate([np.full(len(plan.names), plan.standardized) for plan in plans]),
        missing,
        tuple(plan.note for plan in plans if plan.note),
    )


def _check_types(table: Table, names: list[str]) -> None:
    """Refuse columns that are no numbers, and would not become some."""
    for holds, what in (
        (_is_time, "are dates or times: turn them into numbers, as days since a date, or"),
        (types.is_null, "have no value at all:"),
        (_is_other, "can't be features: turn them into numbers, or"),
    ):
        found = [name for name in names if holds(table.schema.field(name).type)]
        if found:
            kinds = sorted({str(table.schema.field(name).type) for name in found})
            raise InputError(
                f"{table.where}: columns {listed(found)} ({', '.join(kinds)}) {what} {DROP}"
            )


def _is_time(kind: pa.DataType) -> bool:
    return bool(types.is_temporal(kind) or types.is_interval(kind))


def _is_other(kind: pa.DataType) -> bool:
    return not (is_number(kind) or is_text(kind) or is_list(kind))


def _check_text(table: Table, names: list[str], options: TableOptions) -> None:
    """Refuse text unless it is to be encoded; say why a column of numbers is text."""
    found = [name for name in names if is_text(table.schema.field(name).type)]
    if not found or options.encode is not None:
        return
    examples = "; ".join(_example(table.column(name), name) for name in found[:5])
    raise InputError(
        f"{table.where}: columns {listed(found)} hold text or categories ({examples}). Encode "
        f'them with encode = "one-hot" (a 0 or 1 for each value) or encode = "ordinal" (the number '
        f"of each value in sorted order), or {DROP}"
    )


def _example(column: pa.ChunkedArray, name: str) -> str:
    """Show values of a text column; where most are numbers, the first that is none."""
    number, names = categories(column)
    values = pa.array(names, pa.string())
    if pc.all(pc.match_substring_regex(values, COMMA)).as_py():
        return f"'{name}': {listed(names, 1)}, a decimal comma where a point is expected"
    is_odd = ~pc.match_substring_regex(values, NUMBER).to_numpy(zero_copy_only=False).astype(bool)
    odd_rows = np.flatnonzero(np.append(is_odd, False)[number])
    if 0 < len(odd_rows) < len(number) / 2:
        first = odd_rows[0]
        return f"'{name}': numbers, but for '{names[number[first]]}' in row {first + 1}"
    return f"'{name}': {listed(names, 3)}"


def _plan(table: Table, name: str, options: TableOptions) -> Plan:
    """Decide how a column becomes numbers."""
    kind, where = table.schema.field(name).type, f"{table.where}: column '{name}'"
    zero = options.missing == "zero"
    if is_text(kind):
        return _plan_text(categories(table.column(name)), name, options, where)
    if is_list(kind):
        lists = lists_of(table.column(name), where).reshape(table.rows, -1)
        return Plan(
            name, [f"{name}[{i}]" for i in range(lists.shape[1])], False, partial(_copy, lists)
        )
    note = ""
    if types.is_integer(kind) and always_increases(table.column(name)):
        note = f"column '{name}' grows from row to row, as identifiers do: if it is one, drop it"
    write = partial(_write_numbers, table, name, where, zero)
    return Plan(name, [name], not types.is_boolean(kind), write, note)


def _plan_text(found: Categories, name: str, options: TableOptions, where: str) -> Plan:
    values = found.names
    shown = ", ".join(values[:20]) + (f" and {len(values) - 20} more" if len(values) > 20 else "")
    if options.encode == "one-hot":
        if len(values) > MANY_CATEGORIES:
            raise InputError(
                f"{where} has {len(values):,} different values, as {listed(values, 3)}; one-hot "
                f'takes at most {MANY_CATEGORIES}: leave it out, or take encode = "ordinal"'
            )
        write = partial(_write_one_hot, found.number, options.missing == "zero")
        note = f"column '{name}' is encoded one-hot: {shown}"
        return Plan(name, [f"{name}={value}" for value in values], False, write, note)
    if options.missing == "zero" and (found.number == MISSING).any():
        raise InputError(
            f"{where} has missing values, and of ordinal codes 0 is '{values[0]}': choose "
            f'missing = "drop-rows" or encode = "one-hot", where 0 is none of them'
        )
    note = f"column '{name}' is encoded from 0: {shown}"
    return Plan(name, [name], True, partial(_write_codes, found.number), note)


def _copy(lists: NDArray[Any], out: NDArray[np.float32]) -> int:
    out[:] = lists
    return 0


def _write_numbers(
    table: Table, name: str, where: str, zero: bool, out: NDArray[np.float32]
) -> int:
    numbers = numbers_of(table.column(name), where)
    is_missing = np.isnan(numbers)
    count = int(is_missing.sum())
    out[:, 0] = np.where(is_missing, np.float32(0), numbers) if zero and count else numbers
    return count


def _write_one_hot(number: NDArray[np.int32], zero: bool, out: NDArray[np.float32]) -> int:
    out[:] = 0
    known = np.flatnonzero(number != MISSING)
    out[known, number[known]] = 1
    if not zero and len(known) < len(number):
        out[number == MISSING] = np.nan
    return len(number) - len(known)


def _write_codes(number: NDArray[np.int32], out: NDArray[np.float32]) -> int:
    is_missing = number == MISSING
    out[:, 0] = np.where(is_missing, np.float32(np.nan), number)
    return int(is_missing.sum())
