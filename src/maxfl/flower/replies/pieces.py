"""Large arrays a piece at a time: what fits a core's cache is worked on there, by every core.

NumPy lets other threads go on while it computes. Each piece is worked on by one of them, so results
have the same bits on any number of cores.
"""

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from numpy.typing import NDArray

PIECE = 1 << 17
"""Numbers that are worked on at a time."""
MAX_THREADS = 8
"""Memory is what limits these loops; more threads would only wait for it."""

Item = TypeVar("Item")
Result = TypeVar("Result")


def places(size: int) -> list[slice]:
    """Return the pieces of a flat array."""
    return [slice(start, min(start + PIECE, size)) for start in range(0, size, PIECE)]


def piece_of(array: NDArray[Any], place: slice) -> NDArray[Any]:
    """Return a piece of an array, row by row, where it lies if it lies so; never a whole copy."""
    return array.reshape(-1)[place] if array.flags.c_contiguous else array.flat[place]


def in_threads(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Work on items by all cores; results come in the items' order."""
    todo = list(items)
    threads = min(len(todo), os.cpu_count() or 1, MAX_THREADS)
    if threads <= 1:
        return [work(item) for item in todo]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, todo, chunksize=1))
