"""What tests of data sets share: files made up by hand, and real ones where they are."""

import struct

import numpy as np
import pytest

from maxfl.data.locate import find

VECTORS = "glove.6B.100d.top50k"


def need(*files):
    """Skip the test where a data set is not here, and say so."""
    if missing := [file.name for file in files if find(file) is None]:
        pytest.skip(f"{', '.join(missing)} not here: MAXFL_DATA")


def idx(array):
    """Content of an idx file."""
    header = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()
