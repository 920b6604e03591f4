"""Word vectors in GloVe's text format: a word and its numbers on each line.

Pennington, Socher, Manning, "GloVe: Global Vectors for Word Representation", 2014.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.data.locate import Place, opened
from maxfl.errors import InputError

AT_ONCE = 20_000
"""Lines whose numbers are parsed at a time."""


class Vectors(NamedTuple):
    """Word vectors.

    Attributes:
        row: The row of each word.
        table: The vectors, float32[words, dimension].
    """

    row: dict[str, int]
    table: NDArray[np.float32]


def read_vectors(place: Place) -> Vectors:
    """Read a file of vectors, plain, gzipped, or in a zip file, of any dimension."""
    row: dict[str, int] = {}
    numbers: list[bytes] = []
    with opened(place) as file:
        for line in file:
            word, _, rest = line.partition(b" ")
            row.setdefault(word.decode("utf-8", "replace"), len(numbers))
            numbers.append(rest)
    if not numbers:
        raise InputError(f"{place} is empty; want lines of a word and its numbers")
    dimension = len(numbers[0].split())
    chunks = [
        _parse(numbers[begin : begin + AT_ONCE], begin, dimension, place)
        for begin in range(0, len(numbers), AT_ONCE)
    ]
    return Vectors(row, np.concatenate(chunks))


def _parse(lines: list[bytes], begin: int, dimension: int, place: Place) -> NDArray[np.float32]:
    """Numbers of some lines, float32[lines, dimension]."""
    try:
        values = np.array(b" ".join(lines).split(), np.float32)
    except ValueError:
        values = np.empty(0, np.float32)
    fits = values.size == len(lines) * dimension and np.isfinite(values).all()
    if not fits or any(line.count(b" ") != dimension - 1 for line in lines):
        raise InputError(_first_mistake(lines, begin, dimension, place))
    return values.reshape(len(lines), dimension)


def _first_mistake(lines: list[bytes], begin: int, dimension: int, place: Place) -> str:
    """What is wrong, and in which line."""
    for number, line in enumerate(lines, begin + 1):
        found = line.split()
        if len(found) != dimension:
            return f"{place}, line {number}: {len(found)} numbers where line 1 has {dimension}"
        try:
            finite = np.isfinite(np.array(found, np.float32)).all()
        except ValueError as error:
            return f"{place}, line {number}: {error}"
        if not finite:
            return f"{place}, line {number}: a number that is NaN or infinite"
    return f"{place}: words and numbers must be separated by single spaces"
