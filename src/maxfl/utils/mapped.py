"""Arrays that may lie in a file (``numpy.memmap``), read without filling memory."""

import mmap
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

PIECE = 2**22
"""Numbers that are read at once."""


class Range(NamedTuple):
    """The smallest and the largest of some numbers."""

    low: Any
    high: Any


def forget(array: Any) -> None:
    """Give mapped pages back, which would otherwise count as this process's memory."""
    if isinstance(array, np.memmap) and hasattr(mmap, "MADV_DONTNEED"):
        array._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]


def value_range(arrays: Iterable[Any], without: Any = None) -> Range:
    """Return the range of all numbers but ``without``; from 0 to 0 if there are no others."""
    low: list[Any] = []
    high: list[Any] = []
    for array in arrays:
        flat = array.reshape(-1)
        for start in range(0, len(flat), PIECE):
            piece = flat[start : start + PIECE]
            numbers = piece if without is None else piece[piece != without]
            if len(numbers):
                low.append(numbers.min())
                high.append(numbers.max())
            forget(array)
    return Range(min(low), max(high)) if low else Range(0, 0)
