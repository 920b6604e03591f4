"""A user's arrays from a NumPy .npz file."""

import zipfile
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from maxfl.core.federation import MANY_CLASSES, are_classes, checked_samples
from maxfl.data.dataset import Dataset, numbered
from maxfl.utils.errors import InputError

NPY = b"\x93NUMPY"
"""How a file of a single array begins."""


def load_arrays(path: Path) -> Dataset:
    """Load ``x`` [n, ...], labels ``y`` [n, ...] and, if there, ``client`` [n] from a file."""
    arrays = _read(path)
    if missing := {"x", "y"} - arrays.keys():
        raise InputError(
            f"data.file = {path} has the arrays {sorted(arrays)}, but not {sorted(missing)}: "
            f"save it with numpy.savez(file, x=..., y=...)"
        )
    x, y, owner = arrays["x"], arrays["y"], arrays.get("client")
    x, y = checked_samples(x, y, f"data.file = {path}")
    if owner is not None and (owner.shape != (len(y),) or owner.dtype.kind not in "iuU"):
        raise InputError(
            f"data.file = {path}: client is {owner.dtype}{list(owner.shape)}; expected one integer "
            f"or string for each of the {len(y)} samples"
        )
    if not are_classes(y):
        return Dataset(path.name, x, y, (), owner=owner)
    classes = int(y.max()) + 1
    if classes > max(len(y), MANY_CLASSES):
        raise InputError(
            f"data.file = {path}: label {classes - 1} in {len(y)} samples; renumber the labels "
            f"from 0"
        )
    return Dataset(path.name, x, y, numbered(classes), owner=owner)


def _read(path: Path) -> dict[str, NDArray[Any]]:
    """Read all arrays of a file."""
    try:
        with path.open("rb") as file:
            if not (zipfile.is_zipfile(file) or _starts_with(file, NPY)):
                raise InputError(
                    f"data.file = {path} is not an .npz file, or was cut off; save it again"
                )
            file.seek(0)
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise InputError(
                    f"data.file = {path} holds one array: expected an .npz with x and y"
                )
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise InputError(f"data.file = {path}: there is no such file") from None
    except InputError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(
            f"data.file = {path} is not a readable .npz file of numbers and strings: {error}; "
            f"of a pandas column, save column.to_numpy(str)"
        ) from error


def _starts_with(file: BinaryIO, magic: bytes) -> bool:
    """Return whether these are a file's first bytes."""
    file.seek(0)
    return file.read(len(magic)) == magic
