"""Arrays as they come over the wire, read only if they are what they must be.

NumPy believes the header of a file: one that claims a million gigabytes would end the server.
"""

from io import BytesIO
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def read_array(data: bytes, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any] | str:
    """The array in some bytes of NumPy's format, or what is wrong with it."""
    try:
        stream = BytesIO(data)
        found, _, kind = HEADERS[npy.read_magic(stream)](stream)
    except Exception as error:  # whatever a forged header may raise
        return f"can't be read: {type(error).__name__}"
    if found != shape or kind != dtype:
        return f"is {kind}{found}; want {dtype}{shape}"
    wanted = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if len(data) - stream.tell() != wanted:
        return f"has {len(data) - stream.tell()} bytes; want {wanted}"
    return np.load(BytesIO(data), allow_pickle=False)
