"""A user's own arrays from a NumPy .npz file."""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxfl.data.dataset import Dataset
from maxfl.errors import InputError
from maxfl.federation import MANY_CLASSES


def load_arrays(path: Path) -> Dataset:
    """Load ``x`` [n, ...], integer labels ``y`` [n] and, if there, ``client`` [n] from a file."""
    arrays = _read(path)
    if missing := {"x", "y"} - arrays.keys():
        raise InputError(
            f"data.file = {path} has the arrays {sorted(arrays)}, but not {sorted(missing)}: "
            f"save it with numpy.savez(file, x=..., y=...)"
        )
    x, y, owner = arrays["x"], arrays["y"], arrays.get("client")
    if x.ndim < 1 or len(x) == 0:
        raise InputError(f"data.file = {path} holds no samples: x has shape {list(x.shape)}")
    for name, array in (("y", y), ("client", owner)):
        kinds, words = ("iu", "integer") if name == "y" else ("iuU", "integer or string")
        if array is not None and (array.shape != x.shape[:1] or array.dtype.kind not in kinds):
            raise InputError(
                f"data.file = {path}: {name} is {array.dtype}{list(array.shape)}; want one "
                f"{words} for each of the {len(x)} samples of x"
            )
    if y.min() < 0 or y.max() >= max(len(y), MANY_CLASSES):
        raise InputError(
            f"data.file = {path}: labels run from {y.min()} to {y.max()} in {len(y)} samples; "
            f"they count from 0"
        )
    return Dataset(x, y.astype(np.int32), int(y.max()) + 1, owner=owner)


def _read(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of a file."""
    try:
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if isinstance(archive, np.ndarray):
                raise InputError(f"data.file = {path} holds one array; want an .npz with x and y")
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise InputError(f"data.file = {path}: there is no such file") from None
    except InputError:
        raise
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"data.file = {path} is not a readable .npz file: {error}") from error
