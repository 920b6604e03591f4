"""Shakespeare by role: 80 characters of what a role says, and the next one.

Caldas et al. 2018, after McMahan et al. 2017. A sample begins one character after the one before
it, so neighbours have 79 characters in common.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxfl.data.dataset import Dataset, character_names
from maxfl.data.leaf.files import Pair, read_leaf
from maxfl.utils.errors import InputError

LENGTH = 80
LETTERS = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
"""LEAF's alphabet, in its order."""
LAST, UNKNOWN = len(LETTERS) - 1, 255


def shakespeare(path: Path) -> Dataset:
    """Load samples by role: x uint8[n, 80], numbers of letters; y int32[n], the next one's.

    Other characters count as the last letter, as LEAF's −1 for them does among its labels.
    """
    samples = read_leaf(path, _sequences)
    pairs = zip(samples.x, samples.y, strict=True)
    unknown = sum(int((a == UNKNOWN).sum()) for pair in pairs for a in pair)
    x, y = np.concatenate(samples.x), np.concatenate(samples.y)
    notes = samples.notes
    if unknown:
        share = unknown / (x.size + y.size)
        notes += (
            f"{share:.2%} of the characters are not among LEAF's {len(LETTERS)}, and count as the "
            f"last of them, {LETTERS[LAST]}",
        )
        np.minimum(x, LAST, out=x)
        np.minimum(y, LAST, out=y)
    return Dataset(
        "LEAF's Shakespeare", x, y, character_names(LETTERS),
        owner=samples.owner, owner_names=samples.names, is_test=samples.is_test,
        overlap=LENGTH - 1, vocabulary=tuple(LETTERS), notes=notes,
    )  # fmt: skip


def _sequences(x: list[Any], y: list[Any]) -> Pair:
    """Return a role's samples."""
    for values, length, what in ((x, LENGTH, "x"), (y, 1, "y")):
        wrong = next((v for v in values if not isinstance(v, str) or len(v) != length), None)
        if wrong is not None:
            found = f"{len(wrong)} characters" if isinstance(wrong, str) else repr(wrong)[:40]
            raise InputError(f"{what} has a text of {found} where LEAF's have {length}")
    return _numbers("".join(x)).reshape(-1, LENGTH), _numbers("".join(y)).astype(np.int32)


def _numbers(text: str) -> NDArray[np.uint8]:
    """Return the number of each character; ``UNKNOWN`` for others than LEAF's."""
    # JSON may hold half of a character, which no other encoding would take.
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    return np.append(_NUMBER, np.uint8(UNKNOWN))[np.minimum(codes, len(_NUMBER))]


_NUMBER = np.full(128, UNKNOWN, np.uint8)
_NUMBER[[ord(letter) for letter in LETTERS]] = np.arange(len(LETTERS))
