"""Columns of numbers, and lists of as many numbers in every row."""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types

from maxfl.data.tables.table import listed
from maxfl.utils.errors import InputError

EXACT = 2**24
"""Up to here float32 has every whole number; beyond, it leaves out ever more of them."""


def is_number(kind: pa.DataType) -> bool:
    """Return whether a column holds numbers, or yes and no."""
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_boolean(kind)
    )


def numbers_of(
    column: pa.ChunkedArray, where: str, subtract: int | None = None
) -> NDArray[np.float32]:
    """Return a column as float32[n], with NaN for missing values.

    What is infinite, or too large for float32, is refused. What is to be subtracted is subtracted
    before the numbers become float32.
    """
    if types.is_decimal(column.type):
        column = column.cast(pa.float64())
    elif types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    if subtract is not None:
        column = pc.subtract(column, pa.scalar(subtract, column.type))
    with np.errstate(over="ignore"):
        numbers = column.to_numpy().astype(np.float32, copy=False)
    infinite = np.flatnonzero(np.isinf(numbers))
    if infinite.size:
        raise InputError(
            f"{where} has {infinite.size} value(s) that are infinite or too large for float32, the "
            f"first in row {infinite[0] + 1}: correct them, or leave the column out"
        )
    return numbers


def whole_of(column: pa.ChunkedArray, where: str) -> NDArray[np.int32]:
    """Return whole numbers, or yes and no, as int32[n], with 0 for missing values."""
    whole = column.cast(pa.uint8()) if types.is_boolean(column.type) else column
    try:
        return whole.fill_null(0).cast(pa.int32()).to_numpy()
    except pa.ArrowInvalid:
        raise InputError(
            f"{where} has whole numbers beyond 32 bits: subtract the smallest, or divide them, as "
            f"seconds into days"
        ) from None


class LargeNumbers(NamedTuple):
    """Whole numbers of which float32 would round some: the smallest and the largest."""

    low: int
    high: int


def large_numbers(column: pa.ChunkedArray) -> LargeNumbers | None:
    """Return the range of whole numbers that float32 would round, as seconds since 1970.

    None where it rounds nothing, and of floats with fractions, whose last digits nobody counts.
    """
    kind = column.type
    if types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif not (types.is_integer(kind) or types.is_float64(kind)):
        return None
    low, high = pc.min_max(column).as_py().values()
    if low is None or max(abs(low), abs(high)) <= EXACT or not np.isfinite([low, high]).all():
        return None
    numbers = column.drop_null().to_numpy()
    numbers = numbers[~np.isnan(numbers)]
    with np.errstate(over="ignore", invalid="ignore"):
        is_exact = np.array_equal(numbers.astype(np.float32).astype(numbers.dtype), numbers)
    if is_exact or (types.is_floating(column.type) and first_fraction(column) is not None):
        return None
    return LargeNumbers(int(low), int(high))


def first_fraction(column: pa.ChunkedArray) -> float | None:
    """Return the first number that is not whole; None where all are."""
    numbers = column.cast(pa.float64()).to_numpy()
    fractions = numbers[np.isfinite(numbers) & (numbers != np.floor(numbers))]
    return float(fractions[0]) if fractions.size else None


def always_increases(column: pa.ChunkedArray) -> bool:
    """Return whether whole numbers grow from row to row, as those of identifiers do."""
    if not types.is_integer(column.type) or column.null_count or len(column) <= 2:
        return False
    begin = column[:100].to_numpy()
    return bool((np.diff(begin) > 0).all() and (np.diff(column.to_numpy()) > 0).all())


def is_list(kind: pa.DataType) -> bool:
    """Return whether a column holds lists of numbers, or lists of such lists."""
    inner = _storage(kind)
    return _is_any_list(inner) and (
        is_list(inner.value_type)
        or (is_number(inner.value_type) and not types.is_decimal(inner.value_type))
    )


def lists_of(column: pa.ChunkedArray, where: str) -> NDArray[Any]:
    """Return lists as an array [n, ...]: bytes as uint8, other whole numbers as int32, else floats.

    All of them have to be of one length.
    """
    array = column.combine_chunks()
    shape = [len(array)]
    while _is_any_list(_storage(array.type)):
        array = array.storage if isinstance(array, pa.ExtensionArray) else array
        lengths = pc.list_value_length(array)
        least, most = pc.min_max(lengths).as_py().values()
        if array.null_count or least != most:
            sizes = listed([str(least), str(most)]) if least != most else "some are missing"
            raise InputError(
                f"{where} has lists of different lengths ({sizes}): make them equally long, or "
                f"leave the column out"
            )
        shape.append(most)
        array = array.flatten()
    if array.null_count:
        raise InputError(f"{where} has lists with missing numbers: fill them in first")
    return _as_stored(array.to_numpy(zero_copy_only=False), where).reshape(shape)


def _as_stored(numbers: NDArray[Any], where: str) -> NDArray[Any]:
    """Return numbers in a type of at most 32 bits, or refuse those that do not fit."""
    if numbers.dtype == np.uint8:
        return numbers
    kind = np.int32 if numbers.dtype.kind in "iu" else np.float32
    with np.errstate(over="ignore"):
        short = numbers.astype(kind, copy=False)
    fits = np.array_equal(short, numbers) if kind is np.int32 else np.isfinite(short).all()
    if not fits:
        what = "whole numbers beyond 32 bits" if kind is np.int32 else "NaN or infinite numbers"
        raise InputError(f"{where} has lists with {what}: correct them, or leave the column out")
    return short


def _is_any_list(kind: pa.DataType) -> bool:
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _storage(kind: pa.DataType) -> pa.DataType:
    return kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
