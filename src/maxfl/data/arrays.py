"""A user's own arrays from a NumPy .npz file."""

import zipfile
from pathlib import Path

import numpy as np

from maxfl.data.dataset import Dataset
from maxfl.errors import InputError
from maxfl.federation import Decoding


def load_arrays(path: Path) -> Dataset:
    """Load ``x`` [n, ...], integer labels ``y`` [n] and, if there, ``client`` [n] from a file."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise InputError(f"data.file = {path}: there is no such file") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"data.file = {path} is not a readable .npz file: {error}") from error
    except AttributeError:  # np.load gives a bare array for a .npy file
        raise InputError(f"data.file = {path} holds one array; want an .npz with x and y") from None
    if missing := {"x", "y"} - arrays.keys():
        raise InputError(
            f"data.file = {path} has the arrays {sorted(arrays)}, but not {sorted(missing)}: "
            f"save it with numpy.savez(file, x=..., y=...)"
        )
    x, y, owner = arrays["x"], arrays["y"], arrays.get("client")
    for name, array in (("y", y), ("client", owner)):
        if array is not None and (array.shape != x.shape[:1] or array.dtype.kind not in "iu"):
            raise InputError(
                f"data.file = {path}: {name} is {array.dtype}{list(array.shape)}; want one "
                f"integer for each of the {len(x)} samples of x"
            )
    if len(y) == 0:
        raise InputError(f"data.file = {path} holds no samples")
    decoding = Decoding(scale=np.float32(1 / 255)) if x.dtype == np.uint8 else Decoding()
    return Dataset(path.stem, x, y.astype(np.int32), int(y.max()) + 1, decoding, owner)
