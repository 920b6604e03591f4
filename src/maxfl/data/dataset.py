"""A data set before it is split over clients."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.core.federation import Decoding


class Dataset(NamedTuple):
    """Labelled samples.

    Attributes:
        title: What it is, for people; a stand-in says so here.
        x: Features, [n, ...]; images as uint8, memory-mapped where they come from a file.
        y: Labels, int32[n].
        labels: What the labels mean, one name each.
        decoding: From stored features to the model's input; None for the federation's default.
        owner: The client that each sample belongs to, where the data say so, [n].
    """

    title: str
    x: NDArray[Any]
    y: NDArray[np.int32]
    labels: tuple[str, ...]
    decoding: Decoding | None = None
    owner: NDArray[Any] | None = None

    @property
    def classes(self) -> int:
        """Number of labels."""
        return len(self.labels)


def image_decoding(mean: float, std: float) -> Decoding:
    """Bytes to numbers of mean 0 and deviation 1, given both for pixels in [0, 1]."""
    return Decoding(np.float32(255 * mean), np.float32(1 / (255 * std)))


def numbered(classes: int) -> tuple[str, ...]:
    """Labels that have no other name than their number."""
    return tuple(map(str, range(classes)))
