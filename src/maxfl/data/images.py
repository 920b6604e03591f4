"""Image data sets that come as pairs of idx files: images and labels."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.data.idx import count_images, map_images, read_labels
from maxfl.data.locate import Place, obtain
from maxfl.data.registry import ImageFiles
from maxfl.utils.errors import InputError


class Images(NamedTuple):
    """Images, uint8[n, height, width], and their labels from 0, int32[n]."""

    x: NDArray[np.uint8]
    y: NDArray[np.int32]


def load_images(pairs: Sequence[ImageFiles], numbers: range, data_dir: Path | None) -> Images:
    """Load all images and labels of some pairs of files, one pair after another.

    Args:
        pairs: The files.
        numbers: How the publisher numbers the labels.
        data_dir: Folder to look in first.
    """
    places = [(obtain(pair.images, data_dir), obtain(pair.labels, data_dir)) for pair in pairs]
    y = [_labels(images, labels, numbers) for images, labels in places]
    x = map_images([images for images, _ in places])
    return Images(x, np.concatenate(y).astype(np.int32) - numbers[0])


def _labels(images: Place, labels: Place, numbers: range) -> NDArray[np.uint8]:
    """Read the labels of one pair, if they can be those of its images."""
    y, count = read_labels(labels), count_images(images)
    if len(y) != count:
        raise InputError(
            f"{count} images in {images} but {len(y)} labels in {labels}: one is not what its name "
            f"says; get both again"
        )
    if y.min() < numbers[0] or y.max() > numbers[-1]:
        raise InputError(
            f"{labels} has labels {y.min()} to {y.max()} where {numbers[0]} to {numbers[-1]} are "
            f"expected: it is of another split or data set; get it again"
        )
    return y
