"""Image data sets that come as pairs of idx files: images and labels."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.data.idx import map_images, read_labels
from maxfl.data.locate import Progress, obtain
from maxfl.data.sources import File
from maxfl.errors import InputError

Part = Literal["train", "test", "both"]


class Images(NamedTuple):
    """Images, uint8[n, height, width], and their labels, uint8[n]."""

    x: NDArray[np.uint8]
    y: NDArray[np.uint8]


def parts(part: Part) -> tuple[str, ...]:
    """The publisher's parts that are meant."""
    return ("train", "test") if part == "both" else (part,)


def load_pairs(
    pairs: Sequence[tuple[File, File]], data_dir: Path | None, progress: Progress | None
) -> Images:
    """All images and labels of some pairs of files, one pair after another."""
    places = [[obtain(file, data_dir, progress) for file in pair] for pair in pairs]
    x = map_images([images for images, _ in places])
    y = [read_labels(labels) for _, labels in places]
    if len(x) != sum(map(len, y)):
        files = ", ".join(str(place) for pair in places for place in pair)
        raise InputError(f"{len(x)} images but {sum(map(len, y))} labels in {files}")
    return Images(x, np.concatenate(y))
