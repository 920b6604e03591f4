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
        y: Labels, int32[n] where they are classes; [n, ...] else.
        labels: What the classes mean, one name each; () where labels are something else.
        input_scaling: From stored features to the model's input; None for the federation's default.
        owner: The client that each sample belongs to, where the data say so, [n].
        owner_names: What numbers of owners stand for, [owners]; None where ``owner`` has names.
        is_test: Whether each sample is for testing, where the data say so for every owner, bool[n].
        overlap: How many samples of an owner after another one share some of its features, as
            windows of a text do; they are in their order then.
        vocabulary: What numbers of tokens stand for, where features are tokens.
        notes: What people should know of the data.
        features: What each feature is, d of them, where the data name them.
        standardized: Which features are brought to mean 0 and standard deviation 1 of the training
            rows, bool[d]; None for the input scaling above.
        fills_missing: Whether features have NaN, to be filled with means of the training rows.
        is_judging: Whether each sample is for its client to judge by, of those that are not for
            testing, where the data say so for every owner, bool[n].
    """

    title: str
    x: NDArray[Any]
    y: NDArray[Any]
    labels: tuple[str, ...]
    input_scaling: InputScaling | None = None
    owner: NDArray[Any] | None = None
    owner_names: NDArray[Any] | None = None
    is_test: NDArray[np.bool_] | None = None
    overlap: int = 0
    vocabulary: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    standardized: NDArray[np.bool_] | None = None
    fills_missing: bool = False
    is_judging: NDArray[np.bool_] | None = None

    @property
    def classes(self) -> int | None:
        """Number of classes; None where labels are something else."""
        return len(self.labels) or None


def image_scaling(mean: float, std: float) -> InputScaling:
    """Scale bytes to mean 0 and standard deviation 1, given both for pixels in [0, 1]."""
    return InputScaling(np.float32(255 * mean), np.float32(1 / (255 * std)))


def numbered(classes: int) -> tuple[str, ...]:
    """Name labels by their numbers."""
    return tuple(map(str, range(classes)))


def character_names(characters: str) -> tuple[str, ...]:
    """Name labels that are characters by themselves, but for those that can't be seen."""
    return tuple({"\n": "newline", " ": "space", "\t": "tab"}.get(c, c) for c in characters)
