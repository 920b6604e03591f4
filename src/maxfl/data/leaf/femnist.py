"""FEMNIST: handwritten digits and letters by writer, 28 x 28 pixels, dark on light.

Caldas et al. 2018, of EMNIST's originals, NIST Special Database 19.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxfl.data.dataset import Dataset
from maxfl.data.emnist import LABELS
from maxfl.data.leaf.files import Pair, read_leaf
from maxfl.utils.errors import InputError

SIDE = 28
CLASSES = tuple(LABELS["byclass"])
EXACT = 1e-3
"""Of a step of 1/255: what rounding to bytes may change."""


def femnist(path: Path) -> Dataset:
    """Load images by writer: x [n, 28, 28], uint8 if that loses nothing, else float32 in [0, 1]."""
    samples = read_leaf(path, _images)
    x = samples.x
    if len({images.dtype for images in x}) > 1:
        x = [i / np.float32(255) if i.dtype == np.uint8 else i for i in x]
    return Dataset(
        "LEAF's FEMNIST", np.concatenate(x), np.concatenate(samples.y), CLASSES,
        owner=samples.owner, owner_names=samples.names, is_test=samples.is_test,
        notes=samples.notes,
    )  # fmt: skip


def _images(x: list[Any], y: list[Any]) -> Pair:
    """Return a writer's images and labels."""
    pixels, labels = _numbers(x, np.float32), _numbers(y, None)
    if len(y) == 0:
        return np.empty((0, SIDE, SIDE), np.uint8), np.empty(0, np.int32)
    if pixels.shape != (len(y), SIDE * SIDE):
        raise InputError(
            f"x has shape {list(pixels.shape)}; expected {SIDE * SIDE} pixels for each image"
        )
    if not (pixels.min() >= 0 and pixels.max() <= 1):
        raise InputError(f"pixels run from {pixels.min():g} to {pixels.max():g}; expected 0 to 1")
    whole = labels.dtype.kind == "i" and labels.shape == (len(y),)
    if not whole or labels.min() < 0 or labels.max() >= len(CLASSES):
        raise InputError(
            f"labels are {labels.dtype}{list(labels.shape)} from {labels.min()} to "
            f"{labels.max()}; expected whole numbers from 0 to {len(CLASSES) - 1}, one for each "
            f"image"
        )
    images = pixels.reshape(-1, SIDE, SIDE)
    rounded = np.rint(255 * images)
    exact = np.abs(255 * images - rounded).max() < EXACT
    return rounded.astype(np.uint8) if exact else images, labels.astype(np.int32)


def _numbers(values: list[Any], dtype: Any) -> NDArray[Any]:
    try:
        array = np.array(values, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"numbers are expected: {error}") from None
    if array.dtype.kind not in "if":
        raise InputError(f"numbers are expected, not {array.dtype}")
    return array
