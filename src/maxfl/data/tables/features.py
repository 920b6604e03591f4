"""Columns of features: numbers, yes and no, categories and lists, side by side in float32.

Of all rows, test rows and those of unseen clients too: a value that only they have is a category as
any other, with a weight that is never trained. That it exists, and with ordinal codes what stands
before it, is all that becomes known of it.
"""

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
    EXACT,
    always_increases,
    is_list,
    is_number,
    large_numbers,
    lists_of,
    numbers_of,
)
from maxfl.data.tables.roles import TableOptions
from maxfl.data.tables.table import Table, listed
from maxfl.utils.errors import InputError

MANY_CATEGORIES = 1000
"""More than this are not encoded one-hot: each is a number in every row."""
DROP = "leave them out of the features (drop_columns; in Python, drop)"
DROP_IT = "leave it out of the features (drop_columns; in Python, drop)"
NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
COMMA = r"^\s*[-+]?\d+(,\d+)?\s*$"
"""Numbers in text, with a point or, as some countries write them, a comma."""
FEW_NUMBERS = 20
"""So few different numbers may be categories, as the stages 1, 2 and 3+ of a disease."""
IDENTIFIERS = 0.9
"""Text with more different values than this share of the rows names rows."""
FEW_ROWS = 20
"""Of so few rows nothing is said by how many values differ."""


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
    """Show values of a text column; where they are numbers, why it is text."""
    found = categories(column)
    comma, odd = _decimal_comma(found), _odd_number(found)
    if comma:
        return f"'{name}': '{comma}', a decimal comma where a point is expected"
    return f"'{name}': {odd or listed(found.names, 3)}"


def _decimal_comma(found: Categories) -> str:
    """Return a number with a decimal comma, where all values are numbers; else nothing."""
    if not _matches(found.names, COMMA).all():
        return ""
    return next((value for value in found.names if "," in value), "")


def _odd_number(found: Categories, least: float = 0) -> str:
    """Say which value of a column is no number, where most rows have one; else nothing.

    Args:
        found: Its values.
        least: Of how many different numbers more are needed.
    """
    number, names = found
    is_odd = ~_matches(names, NUMBER)
    odd_rows = np.flatnonzero(np.append(is_odd, False)[number])
    if not 0 < len(odd_rows) < len(number) / 2 or (~is_odd).sum() <= least:
        return ""
    first = odd_rows[0]
    return f"numbers, but for '{names[number[first]]}' in row {first + 1}"


def _matches(values: list[str], pattern: str) -> NDArray[np.bool_]:
    matches = pc.match_substring_regex(pa.array(values, pa.string()), pattern)
    return matches.to_numpy(zero_copy_only=False).astype(bool)


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
    return _plan_numbers(table, name, where, zero)


def _plan_numbers(table: Table, name: str, where: str, zero: bool) -> Plan:
    """Say what looks like an identifier; take from large whole numbers the smallest of them."""
    column = table.column(name)
    notes = []
    if always_increases(column):
        notes.append(
            f"column '{name}' grows from row to row, as identifiers do: if it is one, {DROP_IT}"
        )
    subtract = None
    if large := large_numbers(column):
        low, high = large
        subtract = low if high - low < 2**63 else 0  # what 64 bits hold
        rounded = ", and what is left is rounded to 24 bits" if high - low > EXACT else ""
        notes.append(
            f"column '{name}' has whole numbers from {low:,} to {high:,}, of which float32 would "
            f"round some: {subtract:,} is subtracted from each{rounded}"
        )
    write = partial(_write_numbers, table, name, where, zero, subtract)
    return Plan(name, [name], not types.is_boolean(column.type), write, "; ".join(notes))


def _check_categories(found: Categories, where: str) -> None:
    """Refuse text that is to be encoded, but holds numbers or names of single rows."""
    rows, different = int((found.number != MISSING).sum()), len(found.names)
    if comma := _decimal_comma(found):
        raise InputError(
            f"{where} holds numbers with a decimal comma, as '{comma}', which are not encoded: "
            f'write a point (pandas: read_csv(..., decimal=",")), or {DROP_IT}'
        )
    if odd := _odd_number(found, min(FEW_NUMBERS, rows / 2)):
        raise InputError(
            f"{where} holds {odd}: correct such values, or leave them empty, so that it is read as "
            f"numbers, or {DROP_IT}"
        )
    if rows > FEW_ROWS and different > IDENTIFIERS * rows:
        raise InputError(
            f"{where} has {different:,} different values in {rows:,} rows, as "
            f"{listed(found.names, 3)}: it looks like an identifier; {DROP_IT}"
        )


def _plan_text(found: Categories, name: str, options: TableOptions, where: str) -> Plan:
    _check_categories(found, where)
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
    table: Table, name: str, where: str, zero: bool, subtract: int | None, out: NDArray[np.float32]
) -> int:
    numbers = numbers_of(table.column(name), where, subtract)
    is_missing = np.isnan(numbers)
    count = int(is_missing.sum())
    filled = np.float32(-(subtract or 0))  # 0, before the others were made smaller
    out[:, 0] = np.where(is_missing, filled, numbers) if zero and count else numbers
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
