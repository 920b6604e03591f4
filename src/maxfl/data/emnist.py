"""EMNIST: handwritten digits and letters, 28 x 28 pixels, in six splits.

Cohen, Afshar, Tapson, van Schaik, "EMNIST: an extension of MNIST to handwritten letters", 2017.
"""

import string
from pathlib import Path

from maxfl.data.dataset import Dataset, image_scaling
from maxfl.data.images import load_images
from maxfl.data.registry import EMNIST_SPLITS, Part, emnist_files
from maxfl.utils.errors import check_choice

MEAN, STD = 0.1736, 0.3317
"""Of the pixels of ByClass, scaled to [0, 1]."""
MERGED = string.digits + string.ascii_uppercase + "abdefghnqrt"
"""Lower-case letters that look like their upper case are one label with it."""
LABELS = {
    "byclass": string.digits + string.ascii_uppercase + string.ascii_lowercase,
    "bymerge": MERGED,
    "balanced": MERGED,
    "letters": string.ascii_uppercase,
    "digits": string.digits,
    "mnist": string.digits,
}
FIRST_LABEL = {"letters": 1}
"""The publisher counts letters from 1; all else from 0."""


def emnist(split: str = "byclass", part: Part = "both", data_dir: Path | None = None) -> Dataset:
    """Load a split: x uint8[n, 28, 28], upright; labels as in ``LABELS``."""
    check_choice("split", split, EMNIST_SPLITS)
    first, labels = FIRST_LABEL.get(split, 0), tuple(LABELS[split])
    images, y = load_images(emnist_files(split, part), range(first, first + len(labels)), data_dir)
    # The files hold each image mirrored at its diagonal.
    upright = images.transpose(0, 2, 1)
    title = f"EMNIST {split}" + ("" if part == "both" else f" ({part})")
    return Dataset(title, upright, y, labels, image_scaling(MEAN, STD))
