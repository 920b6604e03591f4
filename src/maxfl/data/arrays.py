"""A user's arrays, from a NumPy .npz file or from memory."""

import zipfile
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxfl.core.checks.samples import MANY_CLASSES, are_classes, checked_samples
from maxfl.core.federation import Federation, InputScaling
from maxfl.data.assemble import assemble, split_by_owner
from maxfl.data.dataset import Dataset, numbered
from maxfl.data.partition import OwnParts, Split, check_rows, generator, own_parts
from maxfl.data.partition.own_parts import EXPECTED
from maxfl.utils.errors import InputError, check_count

NPY = b"\x93NUMPY"
"""How a file of a single array begins."""
CLIENT, PART = "client", "part"
"""What a file's arrays may be called that say whose samples are, and what they are for."""


def arrays_in(path: Path) -> frozenset[str]:
    """Return what the arrays of a file are called; nothing of one that ``load_arrays`` refuses."""
    try:
        with zipfile.ZipFile(path) as archive:
            return frozenset(name.removesuffix(".npy") for name in archive.namelist())
    except (OSError, ValueError, zipfile.BadZipFile):
        return frozenset()


def load_arrays(path: Path) -> Dataset:
    """Load ``x`` [n, ...] and labels ``y`` [n, ...] from a file, and ``client``, ``part`` [n]."""
    arrays = _read(path)
    if missing := {"x", "y"} - arrays.keys():
        raise InputError(
            f"data.file = {path} has the arrays {sorted(arrays)}, but not {sorted(missing)}: "
            f"save it with numpy.savez(file, x=..., y=...)"
        )
    owner, where = arrays.get(CLIENT), f"data.file = {path}"
    dataset = arrays_dataset(arrays["x"], arrays["y"], owner, path.name, where)
    if PART not in arrays:
        return dataset
    return _with_parts(dataset, _parts(arrays[PART], len(dataset.y), f"{where}: the array {PART}"))


def arrays_dataset(
    x: NDArray[Any], y: NDArray[Any], owner: NDArray[Any] | None, title: str, where: str
) -> Dataset:
    """Check samples, and whose they are."""
    x, y = checked_samples(x, y, where)
    if owner is not None and (owner.shape != (len(y),) or owner.dtype.kind not in "iuU"):
        raise InputError(
            f"{where}: client is {owner.dtype}{list(owner.shape)}; expected one integer "
            f"or string for each of the {len(y)} samples"
        )
    if not are_classes(y):
        return Dataset(title, x, y, (), owner=owner)
    classes = int(y.max()) + 1
    if classes > max(len(y), MANY_CLASSES):
        raise InputError(
            f"{where}: label {classes - 1} in {len(y)} samples; renumber the labels from 0"
        )
    return Dataset(title, x, y, numbered(classes), owner=owner)


def federation_from_arrays(
    x: ArrayLike,
    y: ArrayLike,
    client: ArrayLike | Split,
    is_test: ArrayLike | None,
    part: ArrayLike | None,
    input_scaling: InputScaling | None,
    *,
    unseen: int,
    min_samples: int,
    train_fraction: float,
    seed: int,
) -> Federation:
    """Make a federation of samples and their clients; see ``Federation.from_arrays``."""
    check_count("unseen", unseen, least=0)
    check_count("min_samples", min_samples, least=2)
    check_count("seed", seed, least=0)
    owner = None if isinstance(client, Split) else _names(client)
    dataset = arrays_dataset(np.asarray(x), np.asarray(y), owner, "own data", "x and y")
    dataset = dataset._replace(input_scaling=input_scaling)
    if is_test is not None and part is not None:
        raise InputError("is_test and part both say what samples are for: give one of them")
    if is_test is not None:
        dataset = _with_parts(dataset, OwnParts(_mask(is_test, len(dataset.y))))
    if part is not None:
        dataset = _with_parts(dataset, _parts(part, len(dataset.y), "part"))
    rng = generator(seed)
    if isinstance(client, Split):
        check_rows(client, len(dataset.y), "samples of x and y")
        split = client
    else:
        split = split_by_owner(dataset, unseen, min_samples, rng)
    return assemble(dataset, split, rng, unseen=unseen, train_fraction=train_fraction)


def _names(client: ArrayLike) -> NDArray[Any]:
    """Return whose samples are; text in Python's objects, as pandas has it, as NumPy's."""
    owner = np.asarray(client)
    return owner.astype(str) if owner.dtype.kind == "O" else owner


def _with_parts(dataset: Dataset, own: OwnParts) -> Dataset:
    return dataset._replace(is_test=own.is_test, is_judging=own.is_judging)


def _parts(part: ArrayLike, samples: int, where: str) -> OwnParts:
    """Return what each sample is for, as its word says."""
    words = _names(part)
    if words.dtype.kind != "U" or words.shape != (samples,):
        raise InputError(
            f"{where} is {words.dtype}{list(words.shape)}; {EXPECTED} for each of the {samples} "
            f"samples"
        )
    found, number = np.unique(words, return_inverse=True)
    return own_parts(found.tolist(), number, where, "samples")


def _mask(is_test: ArrayLike, samples: int) -> NDArray[np.bool_]:
    """Return which samples are for testing, or say that it does not tell."""
    mask = np.asarray(is_test)
    if mask.dtype != bool or mask.shape != (samples,):
        raise InputError(
            f"is_test is {mask.dtype}{list(mask.shape)}; expected True or False for each of the "
            f"{samples} samples"
        )
    return mask


def _read(path: Path) -> dict[str, NDArray[Any]]:
    """Read all arrays of a file."""
    try:
        with path.open("rb") as file:
            if not (zipfile.is_zipfile(file) or _starts_with(file, NPY)):
                raise InputError(
                    f"data.file = {path} is not an .npz file, or was cut off; save it again, or "
                    f"if it is a table, leave data.source out"
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
