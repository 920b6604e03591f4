"""A data set before it is split over clients."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.core.federation import InputScaling


class Dataset(NamedTuple):
    """Labelled samples.

    Attributes:
        title: What it is, for people; a stand-in says so here.
        x: Features, [n, ...]; images as uint8, memory-mapped where they come from a file.
        y: Labels, int32[n].
        labels: What the labels mean, one name each.
        input_scaling: From stored features to the model's input; None for the federation's default.
        owner: The client that each sample belongs to, where the data say so, [n].
    """

    title: str
    x: NDArray[Any]
    y: NDArray[np.int32]
    labels: tuple[str, ...]
    input_scaling: InputScaling | None = None
    owner: NDArray[Any] | None = None

    @property
    def classes(self) -> int:
        """Number of labels."""
        return len(self.labels)


def image_scaling(mean: float, std: float) -> InputScaling:
    """Scale bytes to mean 0 and standard deviation 1, given both for pixels in [0, 1]."""
    return InputScaling(np.float32(255 * mean), np.float32(1 / (255 * std)))


def numbered(classes: int) -> tuple[str, ...]:
    """Name labels by their numbers."""
    return tuple(map(str, range(classes)))
