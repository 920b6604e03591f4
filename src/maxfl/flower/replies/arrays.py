"""Models as Flower sends them: read where they lie, and subtracted piece by piece.

A round's replies are in memory as bytes. They are looked at there, and sums grow by a piece at a
time, so that a server needs room for the model and not for every client's copy of it.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from threading import Lock
from typing import Any, Literal, NamedTuple

import numpy as np
from flwr.app import Array, ArrayRecord
from numpy.lib import format as npy
from numpy.typing import NDArray

from maxfl.flower.replies.pieces import PIECE, piece_of, places
from maxfl.utils.errors import InputError

Arrays = dict[str, NDArray[Any]]
"""A model, or an update of one, by the names of its arrays."""
HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
READS_HEADER = Lock()
"""Held by the thread that reads one. NumPy does it by ``ast.literal_eval``, which up to Python
3.11.7 may raise SystemError where threads call it at once (python/cpython#106905)."""


def to_record(model: Arrays) -> ArrayRecord:
    """Return a model as Flower sends it."""
    return ArrayRecord({name: Array(array) for name, array in model.items()})


def to_arrays(record: ArrayRecord) -> Arrays:
    """Return a model that Flower sends; not to be written to, since it lies in the message."""
    return {name: _view(array.data, _read_header(array.data)) for name, array in record.items()}


def stack(models: Sequence[Arrays]) -> Arrays:
    """Return models as one of arrays with a leading axis [models]."""
    return {name: np.stack([model[name] for model in models]) for name in models[0]}


def of_model(models: Arrays, number: int) -> Arrays:
    """Return one of such models, where it lies."""
    return {name: array[number, ...] for name, array in models.items()}


def check_kinds(model: Mapping[str, NDArray[Any]], *, secure: bool) -> None:
    """Refuse a model with arrays that can't be averaged, before anybody trains it."""
    for name, array in model.items():
        if secure and array.ndim == 0:
            raise InputError(
                f"the model's array {name} is a single number without a dimension, which Flower's "
                f"secure aggregation can't sum: send it with the shape (1,)"
            )
        if is_trained(array):
            continue
        if array.dtype.kind not in "biu":
            raise InputError(
                f"the model's array {name} is of type {array.dtype}: expected numbers that can be "
                f"averaged (float16, float32, float64), or integers or booleans, which stay as "
                f"they are. bfloat16 does not survive NumPy's format: send it as float32"
            )
        if secure:
            raise InputError(
                f"the model's array {name} is of type {array.dtype}, which can't be summed "
                f"securely: leave it out of what is sent, or send it as float32"
            )


def is_trained(array: NDArray[Any]) -> bool:
    """Return whether an array is averaged: integers and booleans stay as the server has them."""
    return bool(np.issubdtype(array.dtype, np.floating))


def sum_type(array: NDArray[Any]) -> np.dtype[Any]:
    """Return the type in which updates of an array are added up: half precision is too coarse."""
    return np.result_type(array.dtype, np.float32)


def read_array(data: bytes, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any] | str:
    """Return the array in some bytes of NumPy's format, or what is wrong with it.

    NumPy believes the header: one that claims a million gigabytes would end the server.
    """
    try:
        header = _read_header(data)
    except Exception as error:  # whatever a forged header may raise
        return f"can't be read: {type(error).__name__}"
    if header.shape != shape or header.dtype != dtype:
        return f"is {header.dtype}{header.shape}; expected {dtype}{shape}"
    size = math.prod(shape) * dtype.itemsize
    if len(data) - header.size != size:
        return f"has {len(data) - header.size} bytes; expected {size}"
    # The expected shape: (True, 1) equals (1, 1), and is none.
    return _view(data, header._replace(shape=shape, dtype=dtype))


class _Header(NamedTuple):
    """What bytes of NumPy's format say of themselves, and where the numbers begin."""

    shape: tuple[int, ...]
    by_column: bool
    dtype: np.dtype[Any]
    size: int


def _read_header(data: bytes) -> _Header:
    stream = BytesIO(data)
    with READS_HEADER:
        found = HEADERS[npy.read_magic(stream)](stream)
    return _Header(*found, stream.tell())


def _view(data: bytes, header: _Header) -> NDArray[Any]:
    """Return the array in some bytes of NumPy's format."""
    order: Literal["F", "C"] = "F" if header.by_column else "C"
    return np.ndarray(header.shape, header.dtype, buffer=data, offset=header.size, order=order)


def norm_of_update(model: Arrays, after: Arrays, *, exact: bool) -> float:
    """Compute ‖w − w_k‖ over the trained arrays; NaN or infinite where w_k is not finite.

    Within a piece squares are summed in the array's own precision, which is right to a few digits
    and fast; ``exact`` is for norms that updates are clipped by.
    """
    squares = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for name, before in model.items():
            if is_trained(before):
                for _, piece in update_pieces(before, after[name]):
                    wide = piece.astype(np.float64) if exact else piece
                    # Not wide @ wide: BLAS may share so small a sum among threads that are busy.
                    squares += float(np.einsum("i,i->", wide, wide))
    return math.sqrt(squares) if squares >= 0 else math.nan


def update_pieces(
    before: NDArray[Any], after: NDArray[Any], dtype: np.dtype[Any] | None = None
) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Give w − w_k of an array, flat and piece by piece, with the place of each.

    The next piece is written over the last. The type is that of sums, if no other is given.
    """
    room = np.empty(min(PIECE, before.size), sum_type(before) if dtype is None else dtype)
    for place in places(before.size):
        yield place, subtract_piece(before, after, place, room)


def subtract_piece(
    before: NDArray[Any], after: NDArray[Any], place: slice, room: NDArray[Any]
) -> NDArray[Any]:
    """Return a piece of w − w_k, written into ``room`` and in its type."""
    piece = room[: place.stop - place.start]
    # By the type of the piece: half precision would subtract in half precision.
    return np.subtract(
        piece_of(before, place), piece_of(after, place), out=piece, dtype=piece.dtype
    )


def update_of(model: Arrays, after: Arrays) -> Arrays:
    """Return w − w_k of the trained arrays, whole."""
    return {
        name: np.subtract(before, after[name], dtype=sum_type(before))
        for name, before in model.items()
        if is_trained(before)
    }
