"""Which part of its client's data each sample is in, where the data say so themselves."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.utils.errors import InputError

PARTS = {
    "train": "train",
    "test": "test",
    "judging": "judging",
    "validation": "judging",
    "val": "judging",
}
"""What a sample's word means. Validation data are what models are judged by, and not tested on."""
EXPECTED = "expected 'train', 'test' or 'judging' (or 'validation', 'val')"
MOST_NAMED = 5


class OwnParts(NamedTuple):
    """What each of n samples is for; for training, where it is for nothing else.

    Attributes:
        is_test: For testing, bool[n].
        is_judging: For clients to judge by, bool[n]; None where none is.
    """

    is_test: NDArray[np.bool_]
    is_judging: NDArray[np.bool_] | None = None


def own_parts(words: Sequence[str], number: NDArray[np.integer], where: str, rows: str) -> OwnParts:
    """Return what each sample is for, as words of the data say.

    Args:
        words: That occur.
        number: Which of them each sample has, int[n]; negative where it has none.
        where: How an error begins.
        rows: What samples are called there.
    """
    odd = [repr(str(word)) for word in words if word not in PARTS]
    wordless = int((number < 0).sum())
    if odd or wordless:
        more = ", ..." if len(odd) > MOST_NAMED else ""
        what = ", ".join(odd[:MOST_NAMED]) + more if odd else f"no value in {wordless} {rows}"
        raise InputError(
            f"{where} has {what}; {EXPECTED} in every one of the {rows}: rename them, or leave "
            f"other {rows} out"
        )
    meant = np.array([PARTS[word] for word in words])
    is_judging = (meant == "judging")[number]
    return OwnParts((meant == "test")[number], is_judging if is_judging.any() else None)
