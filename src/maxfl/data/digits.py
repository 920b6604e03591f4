"""The digits of scikit-learn: 1,797 images of 8 x 8 pixels; quick to train on.

Alpaydin, Kaynak, "Optical Recognition of Handwritten Digits", UCI, 1998.
"""

import numpy as np

from maxfl.core.federation import InputScaling
from maxfl.data.dataset import Dataset, numbered
from maxfl.utils.errors import InputError

MEAN, STD = 4.884, 6.017
"""Of the pixels, which run from 0 to 16."""


def digits() -> Dataset:
    """Load the digits: x uint8[1797, 8, 8], ten labels."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise InputError(
            'data.source = "digits" needs scikit-learn, which brings them: pip install scikit-learn'
        ) from None
    images, y = load_digits().images, load_digits().target
    input_scaling = InputScaling(np.float32(MEAN), np.float32(1 / STD))
    return Dataset(
        "Digits", images.astype(np.uint8), y.astype(np.int32), numbered(10), input_scaling
    )
