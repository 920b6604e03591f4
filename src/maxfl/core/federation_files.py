"""A federation on disk: written client by client, mapped into memory, read a cohort at a time.

federation.json                     shapes, types, digests, and what else there is to know
train-x.bin train-y.bin             samples of all clients, one client after another
train-offsets.bin                   where each client's begin
test-x.bin test-y.bin test-offsets.bin
judging-x.bin judging-y.bin judging-offsets.bin    where clients have data of their own to judge by
names.bin flipped.bin               what clients are called, whose labels contradict; if known
"""

import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.core.checks.samples import (
    Arrays,
    are_classes,
    check_alike,
    check_sample_count,
    checked_client,
    client_offsets,
)
from maxfl.core.federation import Federation, InputScaling, Metadata, Samples, default_input_scaling
from maxfl.utils.disk_space import explain_disk_full, require_space
from maxfl.utils.errors import InputError, check_count, shorten
from maxfl.utils.files import digest, partial_path, read_mapping, write_json
from maxfl.utils.integrity import explain_damage, find_broken_seal, seal
from maxfl.utils.mapped import forget, value_range

UNFINISHED = ".federation.unfinished"
"""There while a federation is being written, and where that was cut off."""
DESCRIPTION = "federation.json"
"""Its key ``decoding`` is the input scaling; the format is that of version 0.1."""
AGAIN = "write it again"


class TwoParts(NamedTuple):
    """One client's training and test data: (x [n, ...], y [n, ...]) each."""

    train: Arrays
    test: Arrays


class ThreeParts(NamedTuple):
    """One client's data with those that it judges by: (x [n, ...], y [n, ...]) each."""

    train: Arrays
    judging: Arrays
    test: Arrays


ClientParts = TwoParts | ThreeParts | tuple[Arrays, Arrays] | tuple[Arrays, Arrays, Arrays]


def write_federation(
    folder: str | Path,
    clients: Iterable[ClientParts],
    *,
    classes: int | None,
    unseen: int = 0,
    input_scaling: InputScaling | None = None,
    metadata: Metadata | None = None,
    room: int | None = None,
) -> Path:
    """Write a federation that need not fit into memory, one client after another.

    Args:
        folder: A new or empty folder.
        clients: Training and test data of each, ((x, y), (x, y)), or training, judging and test
            data, ((x, y), (x, y), (x, y)); a generator will do.
        classes: Number of classes; None where labels are something else.
        unseen: How many of the last clients do not participate in training.
        input_scaling: From stored features to the model's input; see ``Federation.from_clients``.
        metadata: What people want to know of it.
        room: Bytes of all samples, if known: then nothing is begun that will not fit.
    """
    folder = Path(folder)
    if classes is not None:
        check_count("classes", classes, least=1)
    check_count("unseen", unseen, least=0)
    if not isinstance(clients, Iterable):
        raise InputError(f"clients = {shorten(clients)}: expected training and test data of each")
    check_empty(folder)
    remedy = "choose a folder on a larger disk, or fewer clients or samples"
    if room is not None:
        require_space(folder, room, "the federation", remedy)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        (folder / UNFINISHED).open("x").close()
    except FileExistsError:
        check_empty(folder)
    gone = "what was written is removed"
    writer = _Writer(folder)
    with explain_disk_full(folder, "the federation", room, f"{gone}. Make room, or {remedy}"):
        try:
            with writer:
                for k, client in enumerate(clients):
                    writer.append(k, client, classes)
                writer.finish(unseen, classes, input_scaling, metadata or Metadata())
        except BaseException:  # half a federation is no use, and takes the room of a whole one
            writer.remove()
            (folder / UNFINISHED).unlink(missing_ok=True)
            raise
    (folder / UNFINISHED).unlink()
    return folder


def check_empty(folder: Path) -> None:
    """Refuse to write a federation among other things."""
    if (folder / UNFINISHED).exists():
        raise InputError(
            f"{folder} holds part of a federation: another process is writing it, or was killed "
            f"while it did. Wait, or delete the folder and write it again"
        )
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise InputError(f"{folder} is not an empty folder: choose another one")


class _Writer:
    """The files of a federation while they are written, digested on the way."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, BinaryIO] = {}
        self._open = ExitStack()
        self._digests: dict[str, Any] = {}
        self._ends: dict[str, list[int]] = {}
        self._like: tuple[NDArray[Any], NDArray[Any]] | None = None

    def __enter__(self) -> "_Writer":
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def remove(self) -> None:
        """Delete the files that were written so far."""
        for name in (*self._files, DESCRIPTION, partial_path(self._folder / DESCRIPTION).name):
            (self._folder / name).unlink(missing_ok=True)

    def append(self, k: int, client: ClientParts, classes: int | None) -> None:
        parts = _parts(client, k)._asdict()
        self._ends = self._ends or {split: [0] for split in parts}
        if parts.keys() != self._ends.keys():
            raise InputError(
                f"client {k} has {' and '.join(parts)} data, and those before it "
                f"{' and '.join(self._ends)} data: give all clients the same parts"
            )
        for split, pair in parts.items():
            where = f"{split} data of client {k}"
            x, y = checked_client(pair, where)
            self._like = (x, y) if self._like is None else self._like
            check_alike((x, y), self._like, where, "first client")
            _check_classes(y, classes, where)
            self._write(f"{split}-x.bin", x)
            self._write(f"{split}-y.bin", y)
            self._ends[split].append(self._ends[split][-1] + len(y))
            check_sample_count(self._ends[split][-1], where)

    def finish(
        self,
        unseen: int,
        classes: int | None,
        input_scaling: InputScaling | None,
        metadata: Metadata,
    ) -> None:
        """Write the rest; the description last, so that a federation is whole if it is there."""
        count, like = len(self._ends.get("train", [0])) - 1, self._like
        if like is None or not 0 <= unseen < count:
            raise InputError(
                f"{count} clients, of which {unseen} are unseen: at least one must be seen"
            )
        for split, ends in self._ends.items():
            self._write(f"{split}-offsets.bin", np.asarray(ends, np.int32))
        if metadata.names is not None:
            self._write("names.bin", np.asarray(metadata.names).astype(str))
        if metadata.flipped is not None:
            self._write("flipped.bin", np.asarray(metadata.flipped, bool))
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
        x, y = like
        scaling = input_scaling or default_input_scaling(x.dtype)
        labels = {} if classes is not None else {"y": {"dtype": y.dtype.str, "shape": y.shape[1:]}}
        names = metadata.names is not None and np.asarray(metadata.names).astype(str).dtype.str
        named: dict[str, Any] = {
            "vocabulary": metadata.vocabulary,
            "feature_names": metadata.features,
        }
        named["overlap"] = metadata.overlap or None
        words = {key: value for key, value in named.items() if value is not None}
        description = {
            "clients": count, "seen": count - unseen, "classes": classes, "title": metadata.title,
            "labels": metadata.labels, "notes": metadata.notes, "names": names or None,
            "dtype": x.dtype.str, "features": list(x.shape[1:]), **labels, **words,
            "samples": {split: ends[-1] for split, ends in self._ends.items()},
            "decoding": {name: np.asarray(v).tolist() for name, v in scaling._asdict().items()},
        }  # fmt: skip
        digests = {name: sha.hexdigest() for name, sha in self._digests.items()}
        write_json(self._folder / DESCRIPTION, seal(description, digests))

    def _write(self, name: str, array: NDArray[Any]) -> None:
        if name not in self._files:
            self._files[name] = self._open.enter_context((self._folder / name).open("xb"))
            self._digests[name] = hashlib.sha256()
        content = np.ascontiguousarray(array).view(np.uint8).data
        self._files[name].write(content)
        self._digests[name].update(content)


def _parts(client: Any, k: int) -> TwoParts | ThreeParts:
    """Return a client's data by their parts, or say that there are neither two nor three."""
    parts = [] if isinstance(client, str) or not isinstance(client, Iterable) else list(client)
    if len(parts) == 2:
        return TwoParts(*parts)
    if len(parts) == 3:
        return ThreeParts(*parts)
    what = f"a {type(client).__name__}" + (f" of {len(parts)}" if parts else "")
    raise InputError(
        f"client {k}: expected its training and test data, ((x, y), (x, y)), or its training, "
        f"judging and test data, ((x, y), (x, y), (x, y)), not {what}"
    )


def _check_classes(y: NDArray[Any], classes: int | None, where: str) -> None:
    if are_classes(y) != (classes is not None):
        raise InputError(
            f"{where}: labels are {y.dtype}{list(y.shape[1:])}, but classes = {classes}: give "
            f"their number where labels are one integer per sample, and None elsewhere"
        )
    if classes is not None and int(y.max()) >= classes:
        raise InputError(f"{where}: label {int(y.max())}, but classes = {classes}")


def open_federation(folder: str | Path) -> Federation:
    """Return a federation whose samples stay on disk until they are looked at."""
    if not isinstance(folder, str | Path):
        raise InputError(f"folder = {shorten(folder)}: expected a path")
    folder = Path(folder)
    if (folder / UNFINISHED).exists():
        raise InputError(f"the federation in {folder} was not written to its end: {AGAIN}")
    if not (folder / DESCRIPTION).is_file():
        raise InputError(f"{folder} holds no federation: {DESCRIPTION} is not there")
    with explain_damage(str(folder / DESCRIPTION)):
        description = read_mapping(folder / DESCRIPTION)
        if broken := find_broken_seal(folder, DESCRIPTION, description):
            raise InputError(f"{broken}; {AGAIN}")
        return _open(folder, description)


def _open(folder: Path, description: dict[str, Any]) -> Federation:
    judges = "judging" in description["samples"]  # of older versions none does
    parts = {
        split: _samples(folder, split, description)
        for split in ("train", "test", *(["judging"] if judges else []))
    }
    for split, samples in parts.items():
        _check_whole(folder, split, samples, description["classes"])
    input_scaling = InputScaling(
        **{k: np.asarray(v, np.float32) for k, v in description["decoding"].items()}
    )
    metadata = Metadata(
        description["title"],
        None if description["labels"] is None else tuple(description["labels"]),
        _each(folder, "names", description, description["names"]),
        _each(folder, "flipped", description, "?"),
        tuple(description["notes"]),
        _texts(description, "vocabulary"),
        _texts(description, "feature_names"),
        description.get("overlap", 0),
    )
    known = digest(json.dumps(description, sort_keys=True).encode())
    return Federation(
        parts["train"], parts["test"], judging=parts.get("judging"),
        seen=description["seen"], classes=description["classes"],
        input_scaling=input_scaling, metadata=metadata, known_digest=known,
    )  # fmt: skip


def _texts(description: dict[str, Any], key: str) -> tuple[str, ...] | None:
    return tuple(description[key]) if key in description else None


def _samples(folder: Path, split: str, description: dict[str, Any]) -> Samples:
    total = description["samples"][split]
    x = _mapped(folder / f"{split}-x.bin", description["dtype"], (total, *description["features"]))
    labels = description.get("y", {"dtype": np.int32, "shape": ()})
    y = _mapped(folder / f"{split}-y.bin", labels["dtype"], (total, *labels["shape"]))
    offsets = _mapped(folder / f"{split}-offsets.bin", np.int32, (description["clients"] + 1,))
    return Samples(x, y, np.array(offsets))  # these are small, and needed all the time


def _check_whole(folder: Path, split: str, samples: Samples, classes: int | None) -> None:
    """Refuse files of the right size with a content that can not be; features are not read."""
    offsets, labels = samples.offsets, samples.y
    if offsets[0] != 0 or offsets[-1] != len(labels) or (np.diff(offsets) < 1).any():
        wrong, what = f"{split}-offsets.bin", "which samples are whose"
    elif classes is not None and not _are_classes(labels, classes):
        wrong, what = f"{split}-y.bin", f"labels from 0 to {classes - 1}"
    else:
        return
    raise InputError(f"{folder / wrong} does not hold {what}: it is damaged; {AGAIN}")


def _are_classes(labels: Any, classes: int) -> bool:
    low, high = value_range([labels])
    return bool(low >= 0 and high < classes)


def _each(folder: Path, name: str, description: dict[str, Any], dtype: Any) -> Any:
    """Read something of every client; None where it is not there."""
    file = f"{name}.bin"
    if file not in description["files"]:
        return None
    return np.array(_mapped(folder / file, dtype, (description["clients"],)))


def _mapped(path: Path, dtype: Any, shape: tuple[int, ...]) -> Any:
    wanted = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    size = path.stat().st_size if path.is_file() else 0
    if size != wanted:
        raise InputError(
            f"{path} has {size} bytes, but {wanted} belong there: the federation is damaged or "
            f"was not written to its end; {AGAIN}"
        )
    return np.memmap(path, dtype, "r", shape=shape)


def read_clients(samples: Samples, clients: NDArray[np.int64]) -> Samples:
    """Copy the samples of some clients, in their order."""
    starts, ends = samples.offsets[clients], samples.offsets[clients + 1]
    offsets = client_offsets(ends - starts, "clients that are read at once")
    x, y = (np.zeros((offsets[-1], *a.shape[1:]), a.dtype) for a in samples[:2])
    for begin, end, at in zip(starts, ends, offsets[:-1], strict=True):
        x[at : at + end - begin] = samples.x[begin:end]
        y[at : at + end - begin] = samples.y[begin:end]
    forget(samples.x)
    forget(samples.y)
    for array, source in ((x, samples.x), (y, samples.y)):
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise InputError(
                f"{getattr(source, 'filename', 'a client')} holds numbers that are NaN or "
                f"infinite: it is damaged; {AGAIN}"
            )
    return Samples(x, y, offsets)
