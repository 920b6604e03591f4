"""Fashion-MNIST: 70,000 images of 28 x 28 pixels, ten kinds of clothing, and its embedded subset.

Xiao, Rasul, Vollgraf, "Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine Learning
Algorithms", 2017; MIT licence, Zalando SE.
"""

from importlib.resources import files
from pathlib import Path

import numpy as np

from maxfl.data.dataset import Dataset, image_scaling
from maxfl.data.images import load_images
from maxfl.data.registry import Part, fashion_mnist_files

MEAN, STD = 0.2860, 0.3530
"""Of the pixels of the training images, scaled to [0, 1]."""
LABELS = (
    "T-shirt", "trouser", "pullover", "dress", "coat",
    "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip


def fashion_mnist(part: Part = "both", data_dir: Path | None = None) -> Dataset:
    """Load the publisher's files: x uint8[n, 28, 28], ten labels."""
    x, y = load_images(fashion_mnist_files(part), range(len(LABELS)), data_dir)
    title = "Fashion-MNIST" + ("" if part == "both" else f" ({part})")
    return Dataset(title, x, y, LABELS, image_scaling(MEAN, STD))


def fashion_mnist_12k() -> Dataset:
    """Load the subset inside this package: 12,000 images, 1,200 of each label.

    Made by scripts/make_embedded_data.py.
    """
    with (
        files("maxfl.data").joinpath("fashion_mnist_12k.npz").open("rb") as file,
        np.load(file) as arrays,
    ):
        x, y = arrays["x"], arrays["y"].astype(np.int32)
    title = "Fashion-MNIST (12,000 images)"
    return Dataset(title, x, y, LABELS, image_scaling(MEAN, STD))
