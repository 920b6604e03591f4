"""Each client's samples split into training and test data."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxfl.data.partition.split import Parts, Rows, Seed, Split, as_generator
from maxfl.utils.errors import InputError, check_number, shorten


class TrainTest(NamedTuple):
    """Sample numbers of each client's training data, and of its test data."""

    train: Parts
    test: Parts


def train_test_split(
    split: Split | Sequence[ArrayLike],
    train_fraction: float = 0.6,
    rng: Seed = 0,
    *,
    is_test: ArrayLike | None = None,
    overlap: int = 0,
) -> TrainTest:
    """Split each client's samples into training and test data, at random.

    Args:
        split: Samples of each client.
        train_fraction: Fraction of a client's samples that is for training; at least one is on
            each side.
        rng: A seed, or a generator.
        is_test: Whether each sample of the data is for testing, where they say so, bool[n].
        overlap: How many samples after another one share something with it; those are split in
            their order, and what would be shared by both sides is left out.
    """
    parts, names = _parts(split), split.names if isinstance(split, Split) else None
    mask = None if is_test is None else _mask(is_test, parts)
    check_number("train_fraction", train_fraction, above=0, below=1)
    rng = as_generator(rng)
    train: Parts = []
    test: Parts = []
    for k, part in enumerate(parts):
        client = f"client {k if names is None else names[k]}"
        rows = part if overlap else rng.permutation(part)
        if mask is None:
            sides = cut(rows, train_fraction, overlap, client)
        else:
            sides = _as_given(rows, mask, client)
        train.append(sides[0])
        test.append(sides[1])
    return TrainTest(train, test)


def _parts(split: Split | Sequence[ArrayLike]) -> Parts:
    """Return the sample numbers of each client, or say that these are none."""
    if isinstance(split, Split):
        return split.parts
    parts = [np.asarray(part) for part in split] if isinstance(split, Sequence) else []
    if not parts or any(part.ndim != 1 or part.dtype.kind not in "iu" for part in parts):
        raise InputError(
            f"split = {shorten(split)}: expected a split of maxfl.partition, or a list with the "
            f"sample numbers of each client"
        )
    return parts


def _mask(is_test: ArrayLike, parts: Parts) -> NDArray[np.bool_]:
    """Return which samples are for testing, or say that it does not tell of each."""
    mask = np.asarray(is_test)
    last = max((int(part.max()) for part in parts if part.size), default=-1)
    if mask.dtype != bool or mask.ndim != 1 or last >= len(mask):
        raise InputError(
            f"is_test is {mask.dtype}{list(mask.shape)}, but the split has sample {last}: expected "
            f"True or False for each sample of the data"
        )
    return mask


def cut(
    rows: Rows, fraction: float, overlap: int, client: str, kind: str = ""
) -> tuple[Rows, Rows]:
    """Return about a fraction of a client's rows, and the others: at least one on each side.

    Of samples that overlap, those between the two sides are left out.
    """
    needed, count = overlap + 2, len(rows)
    if count < needed:
        many = "two" if overlap == 0 else f"{needed}, of which {overlap} overlap with others,"
        raise InputError(
            f"{client} has {count} {kind}sample(s) where {many} are needed, to hold one out: "
            f"raise samples, or min_samples where clients differ in size"
        )
    size = min(max(round(fraction * (count - overlap)), 1), count - overlap - 1)
    return rows[:size], rows[size + overlap :]


def cut_judging(
    train: Parts, is_judging: NDArray[np.bool_], names: NDArray[Any] | None = None
) -> tuple[Parts, Parts]:
    """Return what clients train on, and what they judge by, as the data say.

    Args:
        train: Samples of each client that are not for testing.
        is_judging: Whether each sample of the data is for its client to judge by, bool[n].
        names: What the data call each client, [K]; by default their numbers.
    """
    sides = [
        _as_given(rows, is_judging, f"client {k if names is None else names[k]}", "judging")
        for k, rows in enumerate(train)
    ]
    return [rows for rows, _ in sides], [rows for _, rows in sides]


def _as_given(
    rows: Rows, is_other: NDArray[np.bool_], client: str, other: str = "test"
) -> tuple[Rows, Rows]:
    """Return rows as the data split them, those for training and the others."""
    others = is_other[rows]
    if others.all() or not others.any():
        raise InputError(
            f"{client} has no {'training' if others.all() else other} samples in the data's own "
            f"split: leave it out of the files, or split its samples otherwise"
        )
    return rows[~others], rows[others]
