"""Samples split over clients, and the source of what is drawn for it."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.utils.display import counted, one_line, span
from maxfl.utils.errors import InputError, shorten

Rows = NDArray[np.int64]
Parts = list[Rows]
Labels = NDArray[np.int64]
Seed = int | np.random.Generator
PARTITION_STREAM = 0xDA7A
"""Keeps the partition's random numbers apart from everything else drawn with the same seed."""


class Split(NamedTuple):
    """Samples split over clients.

    Attributes:
        parts: Sample numbers of each client.
        names: What the data call each client, where they do.
        notes: What people should know about how it came out.
    """

    parts: Parts
    names: NDArray[Any] | None = None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Return a line that says how many clients there are, and how large."""
        return one_line("Split", lambda: "; ".join((self._sizes(), *self.notes)))

    def _sizes(self) -> str:
        sizes = span([len(part) for part in self.parts], "{:,}".format)
        return f"{counted(len(self.parts), 'client')}, {sizes} samples each"


def check_rows(split: Split, samples: int, where: str) -> None:
    """Refuse a split of other samples than those that are there."""
    used = np.concatenate(split.parts) if split.parts else np.zeros(0, np.int64)
    if used.size == 0 or used.min() < 0 or used.max() >= samples:
        raise InputError(
            f"client is a split of other samples than the {samples} {where}: make it of their "
            f"labels"
        )


def generator(seed: int) -> np.random.Generator:
    """Return the source of all that is drawn when data are split over clients with a seed."""
    return np.random.default_rng([seed, PARTITION_STREAM])


def as_generator(rng: Seed) -> np.random.Generator:
    """Return a generator as it is, or that of a seed."""
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer) or rng < 0:
        raise InputError(
            f"rng = {shorten(rng)}: expected a seed, a whole number from 0, or a generator of "
            f"numpy.random.default_rng"
        )
    return np.random.default_rng(rng)
