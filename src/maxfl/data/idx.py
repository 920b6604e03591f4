"""The idx format of MNIST and its relatives, unpacked once and then memory-mapped."""

import hashlib
import math
import os
import struct
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from maxfl.data.locate import Place, opened, writing
from maxfl.utils.errors import InputError
from maxfl.utils.paths import user_cache

UNSIGNED_BYTES = 0x08
CHUNK = 1 << 20
STALE = 24 * 60 * 60
"""Seconds after which nobody is still writing a file of the cache."""


def read_labels(place: Place) -> NDArray[np.uint8]:
    """Read the labels of one file, uint8[n]."""
    with opened(place) as file:
        (count,) = _header(file, place, dimensions=1)
        content = file.read()
    _check_length(len(content), count, place)
    return np.frombuffer(content, np.uint8)


def count_images(place: Place) -> int:
    """Count the images in one file."""
    return _shape(place)[0]


def map_images(places: Sequence[Place]) -> NDArray[np.uint8]:
    """Map the images of some files, one after another, into memory, uint8[n, height, width].

    A single plain file is mapped as it is. Packed files can't be mapped, nor can several as one:
    their images are unpacked into the user's cache the first time.
    """
    if len(places) == 1 and places[0].plain:
        return _map_plain(places[0])
    unpacked = user_cache() / "unpacked" / f"{_stem(places)}-{_fingerprint(places)}.npy"
    with writing(unpacked.parent):
        if not unpacked.exists():
            _unpack(places, unpacked)
        try:
            return np.load(unpacked, mmap_mode="r")
        except (ValueError, EOFError):  # cut off by a crash, or no array at all
            _unpack(places, unpacked)
            return np.load(unpacked, mmap_mode="r")


def _map_plain(place: Place) -> NDArray[np.uint8]:
    """Map the images behind the header of a file that is not packed."""
    shape = _shape(place)
    header = 4 * (1 + len(shape))
    _check_length(place.path.stat().st_size - header, math.prod(shape), place)
    return np.memmap(place.path, np.uint8, "r", header, shape)


def _stem(places: Sequence[Place]) -> str:
    """Name what some files hold, in all their versions."""
    return "+".join(Path(p.member or p.path).name.partition(".")[0] for p in places)


def _fingerprint(places: Sequence[Place]) -> str:
    """Return what tells one version of some files from another, without reading them."""
    sha = hashlib.sha256()
    for place in places:
        info = place.path.stat()
        sha.update(
            f"{place.path.resolve()}|{place.member}|{info.st_size}|{info.st_mtime_ns}".encode()
        )
    return sha.hexdigest()[:16]


def _unpack(places: Sequence[Place], target: Path) -> None:
    """Write the images of some files as one .npy file, whole or not at all."""
    shapes = [_shape(place) for place in places]
    for place, shape in zip(places, shapes, strict=True):
        if shape[1:] != shapes[0][1:]:
            raise InputError(
                f"{place} has images of {shape[1:]} pixels where {places[0]} has {shapes[0][1:]}: "
                f"they are not of one data set; get them again"
            )
    header: Any = {
        "descr": "|u1",
        "fortran_order": False,
        "shape": (sum(count for count, *_ in shapes), *shapes[0][1:]),
    }
    target.parent.mkdir(parents=True, exist_ok=True)
    _delete_stale(target.parent, _stem(places))
    # A name that no other has, since two processes may unpack the same file at once.
    handle, name = tempfile.mkstemp(".partial", f"{_stem(places)}-", target.parent)
    try:
        with os.fdopen(handle, "wb") as out:
            np.lib.format.write_array_header_1_0(out, header)
            for place, shape in zip(places, shapes, strict=True):
                before = out.tell()
                for block in _blocks(place):
                    out.write(block)
                _check_length(out.tell() - before, math.prod(shape), place)
            out.flush()
            os.fsync(out.fileno())
        Path(name).replace(target)
    finally:
        Path(name).unlink(missing_ok=True)


def _delete_stale(folder: Path, stem: str) -> None:
    """Delete older versions of some images, and what a killed process left of them."""
    for path in folder.glob(f"{stem}-*"):
        with suppress(FileNotFoundError):  # another process was faster
            if path.stat().st_mtime < time.time() - STALE:
                path.unlink()


def _blocks(place: Place) -> Iterator[bytes]:
    """Read the data of a file piece by piece, so that errors of writing are not the file's."""
    with opened(place) as file:
        _header(file, place, dimensions=3)
        while block := file.read(CHUNK):
            yield block


def _shape(place: Place) -> tuple[int, ...]:
    """Return number, height and width of the images in a file."""
    with opened(place) as file:
        return _header(file, place, dimensions=3)


def _header(file: BinaryIO, place: Place, dimensions: int) -> tuple[int, ...]:
    """Read the sizes of the array that follows."""
    magic = file.read(4)
    if magic != bytes((0, 0, UNSIGNED_BYTES, dimensions)):
        raise InputError(
            f"{place} is not an idx file of {dimensions} dimension(s): it starts with "
            f"{magic.hex(' ')} where 00 00 08 0{dimensions} is expected; get it again"
        )
    sizes = file.read(4 * dimensions)
    if len(sizes) < 4 * dimensions:
        raise InputError(f"{place} ends within its header; get it again")
    shape = struct.unpack(f">{dimensions}I", sizes)
    if 0 in shape:
        raise InputError(f"{place} is empty: its header says {shape}; get it again")
    return shape


def _check_length(actual: int, expected: int, place: Place) -> None:
    if actual != expected:
        raise InputError(
            f"{place} holds {actual} bytes of data where its header says {expected}; get it again"
        )
