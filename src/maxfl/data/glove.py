"""Word vectors in GloVe's text format: a word and its numbers on each line.

Pennington, Socher, Manning, "GloVe: Global Vectors for Word Representation", 2014.
"""

from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.data.locate import Place, opened
from maxfl.utils.errors import InputError

CHUNK = 2_000
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
    """Read a file of vectors, plain, gzipped, or in a zip file, of any dimension.

    The first line tells the dimension; in every line, that many fields at the end are numbers, and
    what is before them is the word, which may have spaces in it.
    """
    row: dict[str, int] = {}
    chunks: list[NDArray[np.float32]] = []
    with opened(place) as file:
        first = file.readline()
        dimension = _dimension(first, place)
        rest = chain([first], file)
        begin = 0
        while lines := list(islice(rest, CHUNK)):
            fields = [line.rstrip().rsplit(b" ", dimension) for line in lines]
            chunks.append(_parse(fields, begin, dimension, place))
            for number, (word, *_) in enumerate(fields, begin):
                row.setdefault(word.decode("utf-8", "replace"), number)
            begin += len(lines)
    return Vectors(row, np.concatenate(chunks))


def _dimension(line: bytes, place: Place) -> int:
    """Count the numbers behind the first word."""
    if not line:
        raise InputError(f"{place} is empty; expected lines of a word and its numbers")
    fields = line.rstrip().split(b" ")
    if len(fields) == 2 and all(field.isdigit() for field in fields):
        raise InputError(
            f"{place}, line 1: {line.decode().strip()!r} is a heading of word2vec; delete that line"
        )
    if len(fields) < 2:
        raise InputError(
            f"{place}, line 1: no numbers; expected a word and its numbers, single spaces between"
        )
    return len(fields) - 1


def _parse(
    fields: list[list[bytes]], begin: int, dimension: int, place: Place
) -> NDArray[np.float32]:
    """Parse the numbers of some lines, float32[lines, dimension]."""
    try:
        values = _floats([texts for _, *texts in fields])
    except ValueError:
        raise InputError(_first_mistake(fields, begin, dimension, place)) from None
    if values.shape != (len(fields), dimension) or not np.isfinite(values).all():
        raise InputError(_first_mistake(fields, begin, dimension, place))
    return values


def _first_mistake(fields: list[list[bytes]], begin: int, dimension: int, place: Place) -> str:
    """Say what is wrong, and in which line."""
    for number, (_, *found) in enumerate(fields, begin + 1):
        where = f"{place}, line {number}"
        if len(found) != dimension:
            return f"{where}: {len(found)} numbers where line 1 has {dimension}; get the file again"
        try:
            finite = np.isfinite(_floats(found)).all()
        except ValueError as error:
            return (
                f"{where}: {error}: expected a word and {dimension} numbers, single spaces between"
            )
        if not finite:
            return f"{where}: a number that is NaN, infinite or too large for float32"
    raise AssertionError("no mistake")


def _floats(texts: Any) -> NDArray[np.float32]:
    """Parse numbers; those that are too large become infinite."""
    with np.errstate(over="ignore"):
        return np.array(texts, np.float32)
