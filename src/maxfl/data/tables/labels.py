"""The column to be predicted: classes, numbers, or several numbers."""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types

from maxfl.data.tables.categories import MISSING, categories, is_text
from maxfl.data.tables.numbers import (
    first_fraction,
    is_number,
    large_numbers,
    numbers_of,
    whole_of,
)
from maxfl.data.tables.roles import TableOptions, Task
from maxfl.data.tables.table import Table, class_names, listed
from maxfl.utils.errors import InputError

MANY_CLASSES = 1000
"""More different values are taken for numbers or names, unless ``task`` says otherwise."""
FEW_NUMBERS = 20
"""So few different floats that are all whole may be classes; then ``task`` has to say."""
CHOOSE = 'say what is meant, task = "classification" or task = "regression"'


class Labels(NamedTuple):
    """Labels of all rows.

    Attributes:
        y: int32[n] where they are classes, −1 where missing; else float32 or int32 [n] or
            [n, columns].
        names: What the classes mean; () where labels are something else.
        missing: Whether each row lacks a label, bool[n].
    """

    y: NDArray[np.int32] | NDArray[np.float32]
    names: tuple[str, ...]
    missing: NDArray[np.bool_]


def read_labels(table: Table, options: TableOptions) -> Labels:
    """Read the column, or columns, to be predicted."""
    for name in options.labels:
        kind = table.schema.field(name).type
        if not (is_text(kind) or is_number(kind)):
            raise InputError(
                f"{table.where}: label column '{name}' is {kind}: expected text, whole numbers or "
                f"yes and no for classes, or numbers to be predicted"
            )
    if not isinstance(options.label, str):
        return _several(table, options.label, options.task)
    column, where = table.column(options.label), f"{table.where}: label column '{options.label}'"
    if names := class_names(table.schema, options.label):
        if options.task == "regression":
            raise InputError(
                f"{where} has the classes {listed(names, 3)}, no numbers (a ClassLabel of Hugging "
                f'Face): leave task = "regression" out, or cast the column to numbers'
            )
        return _named(column, names, where)
    if _task(column, options.task, where) == "classification":
        return _classes(column, options.task, where)
    y = _to_predict(column, where)
    return Labels(y, (), np.isnan(y))


def _to_predict(column: pa.ChunkedArray, where: str) -> NDArray[np.float32]:
    """Return numbers to be predicted; whole ones that float32 would round are refused."""
    if large := large_numbers(column):
        raise InputError(
            f"{where} has whole numbers from {large.low:,} to {large.high:,}, which float32 can't "
            f"tell apart: subtract the smallest, or divide them, as seconds into days"
        )
    return numbers_of(column, where)


def _task(column: pa.ChunkedArray, task: Task | None, where: str) -> Task:
    """Tell classes from numbers by their type, or refuse what may be either."""
    kind = column.type
    if is_text(kind):
        if task == "regression":
            raise InputError(f'{where} is text, no numbers: leave task = "regression" out')
        return "classification"
    if task is not None:
        return task
    if _is_fractional(kind):
        different = [] if first_fraction(column) is not None else categories(column).names
        if 0 < len(different) <= FEW_NUMBERS:
            raise InputError(
                f"{where} is {kind}, but all values are whole: {listed(different)}; {CHOOSE}"
            )
        return "regression"
    if not types.is_boolean(kind):
        low, high = pc.min_max(column).as_py().values()
        if low is not None and low < 0 and (low, high) != (-1, 1):
            raise InputError(
                f"{where} has whole numbers from {low} to {high}, below 0 too; {CHOOSE}"
            )
    return "classification"


def _is_fractional(kind: pa.DataType) -> bool:
    return bool(types.is_floating(kind) or types.is_decimal(kind))


def _classes(column: pa.ChunkedArray, task: Task | None, where: str) -> Labels:
    """Make the different values, in their order, classes."""
    if _is_fractional(column.type):
        fraction = first_fraction(column)
        if fraction is not None:
            raise InputError(
                f'{where} has fractions, as {fraction:g}, which are no classes: task = "regression"'
            )
        column = column.cast(pa.float64())
    number, names = categories(column)
    if len(names) == 1:
        raise InputError(f"{where} has one value only, '{names[0]}': there is nothing to predict")
    if len(names) > MANY_CLASSES and task is None:
        raise InputError(
            f"{where} has {len(names):,} different values, as {listed(names, 3)}: if they are "
            f'classes, say so by task = "classification"; numbers need task = "regression", and '
            f"names of single rows are no label"
        )
    return Labels(number, tuple(names), number == MISSING)


def _named(column: pa.ChunkedArray, names: tuple[str, ...], where: str) -> Labels:
    """Return classes that have their numbers and names already."""
    y = column.fill_null(MISSING).to_numpy()
    if y.max() >= len(names):
        raise InputError(
            f"{where} has the number {y.max()}, but only {len(names)} classes have names: correct "
            f"the features of the data set"
        )
    y = np.maximum(y, MISSING).astype(np.int32)
    return Labels(y, names, y == MISSING)


def _several(table: Table, names: tuple[str, ...], task: Task | None) -> Labels:
    """Return several numbers for each row; whole ones, as yes and no, as int32."""
    kinds = [table.schema.field(name).type for name in names]
    wrong = [name for name, kind in zip(names, kinds, strict=True) if not is_number(kind)]
    if wrong or task == "classification":
        what = f"{listed(wrong)} hold text" if wrong else 'task = "classification" takes one column'
        raise InputError(
            f"{table.where}: of several label columns each is a number, or yes and no, but {what}"
        )
    whole = task is None and all(types.is_boolean(k) or types.is_integer(k) for k in kinds)
    read = whole_of if whole else _to_predict
    columns = [table.column(name) for name in names]
    y: NDArray[Any] = np.stack(
        [
            read(column, f"{table.where}: label column '{name}'")
            for name, column in zip(names, columns, strict=True)
        ],
        axis=1,
    )
    is_missing = [column.is_null(nan_is_null=True).to_numpy() for column in columns]
    return Labels(y, (), np.logical_or.reduce(is_missing))
