"""Columns of names: text, categories, numbers that stand for something."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types

MISSING = -1
"""The number of a category that is not there."""
EXACT = 2.0**53
"""Below it, floats that are whole are the whole numbers that they were made from."""


class Categories(NamedTuple):
    """A column as numbers of its different values.

    Attributes:
        number: Which value each row has, int32[n]; −1 where it is missing.
        names: The values as text.
    """

    number: NDArray[np.int32]
    names: list[str]


def is_text(kind: pa.DataType) -> bool:
    """Return whether a column holds text or categories."""
    return types.is_dictionary(kind) or _is_string(kind)


def categories(column: pa.ChunkedArray, *, in_order: bool = True) -> Categories:
    """Number the different values: sorted, or in the order in which they appear first.

    Text is sorted by its characters' codes, numbers by size.
    """
    coded = _plain(column).combine_chunks().dictionary_encode()
    number = coded.indices.fill_null(MISSING).to_numpy().astype(np.int32, copy=False)
    values = coded.dictionary
    if in_order and len(values):
        order = pc.sort_indices(values).to_numpy()
        rank = np.empty(len(order) + 1, np.int32)
        rank[order] = np.arange(len(order))
        rank[MISSING] = MISSING
        number, values = rank[number], values.take(pa.array(order))
    return Categories(number, values.cast(pa.string()).to_pylist())


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values of a type that can be numbered; NaN counts as missing.

    Views of strings, which polars gives, are not known to all functions; long texts need 64 bits.
    """
    if types.is_dictionary(column.type):
        chunks = [_decoded(chunk) for chunk in column.chunks]
        column = pa.chunked_array(chunks, type=_long(column.type.value_type))
    if types.is_floating(column.type):
        numbers = column.cast(pa.float64())
        column = pc.if_else(pc.is_nan(numbers), pa.scalar(None, pa.float64()), numbers)
        is_whole = pc.and_(pc.equal(column, pc.trunc(column)), pc.less(pc.abs(column), EXACT))
        if pc.all(is_whole).as_py():
            column = column.cast(pa.int64())
    return column.cast(_long(column.type))


def _decoded(chunk: pa.DictionaryArray) -> pa.Array:
    values = chunk.dictionary.cast(_long(chunk.dictionary.type))
    return pa.DictionaryArray.from_arrays(chunk.indices, values).dictionary_decode()


def _long(kind: pa.DataType) -> pa.DataType:
    return pa.large_string() if _is_string(kind) else kind


def _is_string(kind: pa.DataType) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))
