"""Texts as the mean of their words' vectors."""

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from maxfl.data.glove import Vectors

CHUNK = 50_000
"""Texts whose words are held in memory at a time."""
NOISE = re.compile(r"https?://\S+|www\.\S+|@\w+")
"""Links and names of other users: no words."""
NOT = "n't"
LETTERS = r"[^\W\d_]+(?:-[^\W\d_]+)*"
WORD = re.compile(rf"{NOT}\b|'(?:s|m|re|ve|ll|d)\b|{LETTERS}|\d+(?:[.,:]\d+)*|[^\w\s]")
"""What is one word: don't is do + n't and it's is it + 's, as in GloVe's vocabulary; co-op, café
and 10,000 are whole; every sign stands alone."""
IN_FULL = {
    NOT: "not", "'m": "am", "'re": "are", "'ve": "have", "'ll": "will", "'d": "would",
}  # fmt: skip
"""What short words stand for: files of the most frequent words may leave out those with a sign, and
without n't a text would say the opposite of what it means."""


class Averaged(NamedTuple):
    """Texts as vectors.

    Attributes:
        x: Mean vector of each text's known words, zero if it has none, float32[n, dimension].
        found: Share of all words that have a vector.
    """

    x: NDArray[np.float32]
    found: float


def words(text: str) -> list[str]:
    """Cut a text into words, in lower case."""
    plain = NOISE.sub(" ", html.unescape(text).lower())
    return WORD.findall(plain.replace(NOT, f" {NOT}"))


def average(texts: Sequence[str], vectors: Vectors) -> Averaged:
    """Average the vectors of texts; short words without a vector have that of the full word."""
    full = {short: vectors.row[word] for short, word in IN_FULL.items() if word in vectors.row}
    row = {**full, **vectors.row}
    x = np.empty((len(texts), vectors.table.shape[1]), np.float32)
    known = total = 0
    for begin in range(0, len(texts), CHUNK):
        counts, word_count = _count(texts[begin : begin + CHUNK], row, len(vectors.table))
        known += counts.nnz
        total += word_count
        lengths = np.maximum(np.diff(counts.indptr), 1)[:, None]
        x[begin : begin + CHUNK] = (counts @ vectors.table) / lengths
    return Averaged(x, known / max(total, 1))


def _count(texts: Iterable[str], row: Mapping[str, int], known: int) -> tuple[csr_array, int]:
    """Return a row per text with a one for every known word, and the number of all words."""
    rows: list[int] = []
    ends = [0]
    total = 0
    for text in texts:
        found = words(text)
        total += len(found)
        rows += [row[word] for word in found if word in row]
        ends.append(len(rows))
    # Words that occur twice in a text are two entries of its row; the product adds them up.
    entries = (np.ones(len(rows), np.float32), np.array(rows, np.int32), np.array(ends, np.int32))
    return csr_array(entries, shape=(len(ends) - 1, known)), total
