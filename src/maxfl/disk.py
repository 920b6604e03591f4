"""A federation on disk: written client by client, mapped into memory, read a cohort at a time.

federation.json                     shapes, types, and what else there is to know
train-x.bin train-y.bin             samples of all clients, one client after another
train-offsets.bin                   where each client's begin
test-x.bin test-y.bin test-offsets.bin
"""

import mmap
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.errors import InputError
from maxfl.federation import (
    About,
    Arrays,
    Decoding,
    Federation,
    Samples,
    checked_samples,
    default_decoding,
)  # fmt: skip
from maxfl.files import read_json, write_json

ABOUT = "federation.json"
SPLITS = ("train", "test")


class Pair(NamedTuple):
    """One client's training and test data: (x [n, ...], y int[n]) each."""

    train: Arrays
    test: Arrays


def write_federation(
    folder: str | Path,
    clients: Iterable[Pair | tuple[Arrays, Arrays]],
    *,
    classes: int,
    unseen: int = 0,
    decoding: Decoding | None = None,
    title: str = "own data",
) -> Path:
    """Write a federation that need not fit into memory, one client after another.

    Args:
        folder: A new or empty folder.
        clients: Training and test data of each; a generator will do.
        classes: Number of labels.
        unseen: How many of the last clients take no part in training.
        decoding: From stored features to the model's input; see ``Federation.from_clients``.
        title: What the data are.
    """
    folder = Path(folder)
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty: choose another folder")
    folder.mkdir(parents=True, exist_ok=True)
    like: NDArray[Any] | None = None
    ends: dict[str, list[int]] = {split: [0] for split in SPLITS}
    with _Files(folder) as files:
        for k, client in enumerate(clients):
            for split, pair in zip(SPLITS, client, strict=True):
                where = f"{split} data of client {k}"
                x, y = checked_samples(np.asarray(pair[0]), np.asarray(pair[1]), where)
                like = x if like is None else like
                _check_alike(x, y, like, classes, where)
                files.append(split, x, y)
                ends[split].append(ends[split][-1] + len(y))
    count = len(ends["train"]) - 1
    if like is None or not 0 <= unseen < count:
        raise InputError(
            f"{count} clients, of which {unseen} are unseen: at least one must be seen"
        )
    for split in SPLITS:
        np.asarray(ends[split], np.int32).tofile(folder / f"{split}-offsets.bin")
    own = decoding or default_decoding(like.dtype)
    write_json(folder / ABOUT, {
        "clients": count, "seen": count - unseen, "classes": classes, "title": title,
        "dtype": like.dtype.str, "features": list(like.shape[1:]),
        "samples": {split: ends[split][-1] for split in SPLITS},
        "decoding": {name: np.asarray(v).tolist() for name, v in own._asdict().items()},
    })  # fmt: skip
    return folder


class _Files:
    """Open files that samples are appended to."""

    def __init__(self, folder: Path) -> None:
        names = [f"{split}-{part}" for split in SPLITS for part in "xy"]
        self._files = {name: (folder / f"{name}.bin").open("wb") for name in names}

    def __enter__(self) -> "_Files":
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files.values():
            file.close()

    def append(self, split: str, x: NDArray[Any], y: NDArray[np.int32]) -> None:
        self._files[f"{split}-x"].write(np.ascontiguousarray(x).data)
        self._files[f"{split}-y"].write(np.ascontiguousarray(y).data)


def _check_alike(
    x: NDArray[Any], y: NDArray[np.int32], like: NDArray[Any], classes: int, where: str
) -> None:
    if x.shape[1:] != like.shape[1:] or x.dtype != like.dtype:
        raise InputError(
            f"{where}: features are {x.dtype}{list(x.shape[1:])}, but the first client's are "
            f"{like.dtype}{list(like.shape[1:])}: all samples must be alike"
        )
    if int(y.max()) >= classes:
        raise InputError(f"{where}: label {int(y.max())}, but classes = {classes}")


def open_federation(folder: str | Path) -> Federation:
    """A federation whose samples stay on disk until they are looked at."""
    folder = Path(folder)
    if not (folder / ABOUT).is_file():
        raise InputError(f"{folder} holds no federation: {ABOUT} is not there")
    about = read_json(folder / ABOUT)
    train, test = (_samples(folder, split, about) for split in SPLITS)
    decoding = Decoding(**{k: np.asarray(v, np.float32) for k, v in about["decoding"].items()})
    return Federation(
        train, test, about["seen"], about["classes"], decoding, About(title=about["title"])
    )


def _samples(folder: Path, split: str, about: dict[str, Any]) -> Samples:
    total = about["samples"][split]
    parts = {
        "x": (np.dtype(about["dtype"]), (total, *about["features"])),
        "y": (np.dtype(np.int32), (total,)),
        "offsets": (np.dtype(np.int32), (about["clients"] + 1,)),
    }
    found: dict[str, Any] = {}
    for name, (dtype, shape) in parts.items():
        path = folder / f"{split}-{name}.bin"
        wanted = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        size = path.stat().st_size if path.is_file() else 0
        if size != wanted:
            raise InputError(
                f"{path} has {size} bytes, but {wanted} belong there: the federation is damaged or "
                f"was not written to its end; write it again"
            )
        found[name] = np.memmap(path, dtype, "r", shape=shape)
    # Small, and needed all the time.
    found["offsets"] = np.array(found["offsets"])
    return Samples(**found)


def read_clients(samples: Samples, clients: NDArray[np.int64], room: int | None = None) -> Samples:
    """Samples of some clients, in their order, copied; with ``room`` for so many rows."""
    starts, ends = samples.offsets[clients], samples.offsets[clients + 1]
    offsets = np.concatenate([[0], np.cumsum(ends - starts)]).astype(np.int32)
    room = int(offsets[-1]) if room is None else room
    x = np.zeros((room, *samples.x.shape[1:]), samples.x.dtype)
    y = np.zeros(room, np.int32)
    for begin, end, at in zip(starts, ends, offsets[:-1], strict=True):
        x[at : at + end - begin] = samples.x[begin:end]
        y[at : at + end - begin] = samples.y[begin:end]
    _forget(samples.x)
    _forget(samples.y)
    return Samples(x, y, offsets)


def _forget(array: Any) -> None:
    """Give mapped pages back, which would otherwise count as this process's memory."""
    if isinstance(array, np.memmap) and hasattr(mmap, "MADV_DONTNEED"):
        array._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]
