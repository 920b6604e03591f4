"""A data set before it is split over clients."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.federation import Decoding


class Dataset(NamedTuple):
    """Labelled samples.

    Attributes:
        x: Features, [n, ...]; images as uint8.
        y: Labels, int32[n].
        classes: Number of labels.
        decoding: From stored features to the model's input; None for the federation's default.
        owner: The client that each sample belongs to, where the data say so, [n].
    """

    x: NDArray[Any]
    y: NDArray[np.int32]
    classes: int
    decoding: Decoding | None = None
    owner: NDArray[Any] | None = None


def image_decoding(mean: float, std: float) -> Decoding:
    """Bytes to numbers of mean 0 and deviation 1, given both for pixels in [0, 1]."""
    return Decoding(np.float32(255 * mean), np.float32(1 / (255 * std)))
