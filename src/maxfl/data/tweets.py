"""Texts as the mean of their words' vectors."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from maxfl.data.glove import Vectors

AT_ONCE = 50_000
"""Texts whose words are held in memory at a time."""
NOISE = re.compile(r"https?://\S+|www\.\S+|@\w+|&(?:amp|lt|gt|quot);")
"""Links, names of other users, and what HTML left: no words."""
WORD = re.compile(r"[a-z]+(?=n't)|n't|'(?:s|m|re|ve|ll|d)\b|[a-z]+|[0-9]+|[!?.,:;()]")
"""Words as GloVe's tokeniser cuts them: don't is do + n't, it's is it + 's; signs stand alone."""


class Averaged(NamedTuple):
    """Texts as vectors.

    Attributes:
        x: Mean vector of each text's known words, zero if it has none, float32[n, dimension].
        found: Share of all words that have a vector.
    """

    x: NDArray[np.float32]
    found: float


def words(text: str) -> list[str]:
    """The words of a text, in lower case."""
    return WORD.findall(NOISE.sub(" ", text.lower()))


def average(texts: Sequence[str], vectors: Vectors) -> Averaged:
    """Mean vectors of some texts."""
    x = np.empty((len(texts), vectors.table.shape[1]), np.float32)
    known = total = 0
    for begin in range(0, len(texts), AT_ONCE):
        counts, words_there = _count(texts[begin : begin + AT_ONCE], vectors)
        known += counts.nnz
        total += words_there
        lengths = np.maximum(np.diff(counts.indptr), 1)[:, None]
        x[begin : begin + AT_ONCE] = (counts @ vectors.table) / lengths
    return Averaged(x, known / max(total, 1))


def _count(texts: Iterable[str], vectors: Vectors) -> tuple[csr_array, int]:
    """A row per text with a one for every known word, and the number of all words."""
    rows: list[int] = []
    ends = [0]
    total = 0
    get = vectors.row.get
    for text in texts:
        own = words(text)
        total += len(own)
        rows += [row for row in map(get, own) if row is not None]
        ends.append(len(rows))
    # Words that occur twice in a text are two entries of its row; the product adds them up.
    entries = (np.ones(len(rows), np.float32), np.array(rows, np.int32), np.array(ends, np.int32))
    return csr_array(entries, shape=(len(ends) - 1, len(vectors.table))), total
