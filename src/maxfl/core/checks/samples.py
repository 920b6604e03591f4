"""What a user's samples must be like: types that the engine computes with, labels, sizes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxfl.utils.errors import InputError, check_count

Arrays = tuple[ArrayLike, ArrayLike]
INT32 = np.iinfo(np.int32)
MOST_SAMPLES = 2**31 - 2**20
"""Of a split: they are numbered in int32, with room to count on past the last of them."""
MANY_CLASSES = 10_000
"""More labels than this, and than there are samples, are taken for a mistake."""


def checked_client(pair: Arrays, where: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return one client's arrays x and y, checked; the message of an error names the client."""
    try:
        x, y = map(np.asarray, pair)
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: expected a pair of arrays (x, y): {error}") from None
    return checked_samples(x, y, where)


def checked_samples(
    x: NDArray[Any], y: NDArray[Any], where: str
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Convert samples to types that the engine computes with, or say which are wrong."""
    if y.ndim < 1 or x.ndim < 1 or len(x) != len(y):
        raise InputError(
            f"{where}: x has shape {x.shape} and y {y.shape}; expected [n, ...] and [n, ...], a "
            f"label for each sample"
        )
    if len(y) == 0:
        raise InputError(f"{where} is empty: give it at least one sample, or leave the client out")
    if x.size == 0:
        raise InputError(f"{where}: x has shape {x.shape}, samples without any feature; give some")
    y = _checked_labels(y, where)
    if np.issubdtype(x.dtype, np.floating):
        x = _finite(x, "feature", where)
    elif np.issubdtype(x.dtype, np.integer):
        if x.dtype.itemsize > 4 or x.dtype == np.uint32:  # the engine computes with 32 bits
            if x.min() < INT32.min or x.max() > INT32.max:
                raise InputError(f"{where}: integer features beyond 32 bits")
            x = x.astype(np.int32)
    else:
        raise InputError(f"{where}: features are {x.dtype}; expected floats or integers")
    return x, y


def _checked_labels(y: NDArray[Any], where: str) -> NDArray[Any]:
    """Return classes and other integers as int32, numbers as float32."""
    if y.size == 0:
        raise InputError(f"{where}: y has shape {y.shape}, labels without any number; give some")
    if np.issubdtype(y.dtype, np.floating):
        return _finite(y, "label", where)
    if not (np.issubdtype(y.dtype, np.integer) or y.dtype == bool):
        raise InputError(f"{where}: labels are {y.dtype}; expected integers or floats")
    if are_classes(y) and y.min() < 0:
        raise InputError(
            f"{where}: labels run from {y.min()} to {y.max()}; classes count from 0. If they are "
            f"numbers to be predicted, give floats"
        )
    if y.min() < INT32.min or y.max() > INT32.max:
        raise InputError(f"{where}: labels run from {y.min()} to {y.max()}, beyond 32 bits")
    return y.astype(np.int32, copy=False)


def are_classes(y: NDArray[Any]) -> bool:
    """Return whether labels are classes: one integer, or yes or no, for each sample."""
    return y.ndim == 1 and (np.issubdtype(y.dtype, np.integer) or y.dtype == bool)


def _finite(values: NDArray[Any], what: str, where: str) -> NDArray[np.float32]:
    """Return numbers as float32, or say that some are none."""
    with np.errstate(over="ignore"):  # what does not fit is found below
        values = values.astype(np.float32, copy=False)
    bad = int((~np.isfinite(values)).sum())
    if bad:
        raise InputError(
            f"{where}: {bad} {what} value(s) are NaN, infinite or too large for float32"
        )
    return values


def check_all_alike(
    clients: Sequence[tuple[NDArray[Any], NDArray[Any]]], where: Sequence[str]
) -> None:
    """Refuse clients whose samples differ in shape or type."""
    for pair, place in zip(clients, where, strict=True):
        check_alike(pair, clients[0], place, where[0])


def check_alike(
    pair: tuple[NDArray[Any], NDArray[Any]],
    like: tuple[NDArray[Any], NDArray[Any]],
    where: str,
    first: str,
) -> None:
    """Refuse features or labels (x, y) that differ from the first ones in shape or type."""
    for what, array, other in zip(("features", "labels"), pair, like, strict=True):
        if array.shape[1:] != other.shape[1:] or array.dtype != other.dtype:
            raise InputError(
                f"{where}: {what} are {array.dtype}{list(array.shape[1:])}, but those of the "
                f"{first} are {other.dtype}{list(other.shape[1:])}: all samples must be alike"
            )


def count_classes(
    labels: Sequence[NDArray[Any]], where: Sequence[str], classes: int | None
) -> int | None:
    """Return the number of classes, as given or the largest label plus one; None without any."""
    if not are_classes(labels[0]):
        if classes is not None:
            raise InputError(
                f"classes = {classes}, but labels are {labels[0].dtype}"
                f"{list(labels[0].shape[1:])}: only one integer per sample is a class"
            )
        return None
    tops = [int(y.max()) for y in labels]
    top = max(tops)
    place = where[tops.index(top)]
    if classes is None:
        classes = top + 1
        if classes > max(MANY_CLASSES, sum(map(len, labels))):
            raise InputError(
                f"{place}: label {top}, more than there are samples; labels count from 0. If it "
                f"is meant, give classes = {classes}"
            )
    check_count("classes", classes, least=1)
    if top >= classes:
        raise InputError(
            f"{place}: label {top}, but classes = {classes} allows labels 0 to {classes - 1}"
        )
    return classes


def client_offsets(sizes: ArrayLike, where: str) -> NDArray[np.int32]:
    """Return where the samples of each client begin, int32[K + 1], or refuse too many."""
    offsets = np.concatenate([[0], np.cumsum(np.asarray(sizes, np.int64))])
    check_sample_count(int(offsets[-1]), where)
    return offsets.astype(np.int32)


def check_sample_count(total: int, where: str) -> None:
    """Refuse more samples than can be numbered."""
    if total > MOST_SAMPLES:
        raise InputError(
            f"{where}: {total:,} samples in all, but at most {MOST_SAMPLES:,} can be numbered: "
            f"leave some out, or make several federations"
        )
