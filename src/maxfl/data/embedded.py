"""The Fashion-MNIST subset inside the package: 12,000 images, 1,200 of each label.

Made by scripts/make_embedded_data.py. Xiao, Rasul, Vollgraf, "Fashion-MNIST: a Novel Image Dataset
for Benchmarking Machine Learning Algorithms", 2017; MIT licence, Zalando SE.
"""

from importlib.resources import files

import numpy as np

from maxfl.data.dataset import Dataset, image_decoding

MEAN, STD = 0.2860, 0.3530
"""Of the pixels of all of Fashion-MNIST, scaled to [0, 1]."""


def fashion_mnist_12k() -> Dataset:
    """Load the embedded subset: x uint8[12000, 28, 28], ten labels."""
    with (
        files("maxfl.data").joinpath("fashion_mnist_12k.npz").open("rb") as file,
        np.load(file) as arrays,
    ):
        x, y = arrays["x"], arrays["y"].astype(np.int32)
    return Dataset(x, y, 10, image_decoding(MEAN, STD))
