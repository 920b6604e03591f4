"""The idx format of MNIST and its relatives, unpacked once and then memory-mapped."""

import hashlib
import math
import os
import shutil
import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from maxfl.data.locate import Place, opened
from maxfl.errors import InputError
from maxfl.folders import user_cache

UNSIGNED_BYTES = 0x08


def read_labels(place: Place) -> NDArray[np.uint8]:
    """Labels of one file, uint8[n]."""
    with opened(place) as file:
        (count,) = _header(file, place, dimensions=1)
        content = file.read()
    _check_length(len(content), count, place)
    return np.frombuffer(content, np.uint8)


def map_images(places: Sequence[Place]) -> NDArray[np.uint8]:
    """Images of some files, one after another, memory-mapped, uint8[n, height, width].

    A packed file can't be mapped: its images are unpacked into the user's cache the first time.
    """
    unpacked = user_cache() / "unpacked" / f"{_fingerprint(places)}.npy"
    if not unpacked.exists():
        unpacked.parent.mkdir(parents=True, exist_ok=True)
        _unpack(places, unpacked)
    return np.load(unpacked, mmap_mode="r")


def _fingerprint(places: Sequence[Place]) -> str:
    """Tells one version of some files from another, without reading them."""
    sha = hashlib.sha256()
    for place in places:
        info = place.path.stat()
        sha.update(
            f"{place.path.resolve()}|{place.member}|{info.st_size}|{info.st_mtime_ns}".encode()
        )
    return f"{places[0].path.name.partition('.')[0]}-{sha.hexdigest()[:16]}"


def _unpack(places: Sequence[Place], target: Path) -> None:
    """Write the images of some files as one .npy file, whole or not at all."""
    shapes = []
    for place in places:
        with opened(place) as file:
            shapes.append(_header(file, place, dimensions=3))
        if shapes[-1][1:] != shapes[0][1:]:
            raise InputError(f"{place} has images of {shapes[-1][1:]} pixels, not {shapes[0][1:]}")
    shape = (sum(count for count, *_ in shapes), *shapes[0][1:])
    # A name of its own, since two processes may unpack the same file at once.
    handle, name = tempfile.mkstemp(dir=target.parent, suffix=".partial")
    try:
        with os.fdopen(handle, "wb") as out:
            header: Any = {"descr": "|u1", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(out, header)
            for place, own in zip(places, shapes, strict=True):
                with opened(place) as file:
                    _header(file, place, dimensions=3)
                    before = out.tell()
                    shutil.copyfileobj(file, out, 1 << 20)
                _check_length(out.tell() - before, math.prod(own), place)
        Path(name).replace(target)
    finally:
        Path(name).unlink(missing_ok=True)


def _header(file: BinaryIO, place: Place, dimensions: int) -> tuple[int, ...]:
    """Sizes of the array that follows."""
    magic = file.read(4)
    if magic != bytes((0, 0, UNSIGNED_BYTES, dimensions)):
        raise InputError(
            f"{place} is not an idx file of {dimensions} dimension(s): it starts with "
            f"{magic.hex(' ')} where 00 00 08 0{dimensions} is expected"
        )
    sizes = file.read(4 * dimensions)
    if len(sizes) < 4 * dimensions:
        raise InputError(f"{place} ends within its header")
    return struct.unpack(f">{dimensions}I", sizes)


def _check_length(actual: int, expected: int, place: Place) -> None:
    if actual != expected:
        raise InputError(f"{place} holds {actual} bytes of data where its header says {expected}")
