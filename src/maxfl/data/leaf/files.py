"""LEAF's JSON files: users with their samples, in training and test files or in one heap.

    {"users": [...], "num_samples": [...], "user_data": {user: {"x": [...], "y": [...]}}}

``num_samples`` is not read: LEAF's own test files of Shakespeare hold fewer samples than it says.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.utils.errors import InputError, shorten

Pair = tuple[NDArray[Any], NDArray[Any]]
Convert = Callable[[list[Any], list[Any]], Pair]
"""From a user's x and y, as in the file, to arrays; an ``InputError`` says what is wrong."""
AGAIN = "let LEAF's preprocess.sh write it again"


class LeafSamples(NamedTuple):
    """Samples of all users.

    Attributes:
        x: Features, an array for each user, or for a user's training and for its test samples.
        y: Labels, in the same order.
        owner: The number of each sample's user, int32[n].
        names: The users.
        is_test: Whether each sample is in a test file, where every user has both, bool[n].
        notes: What people should know of them.
    """

    x: list[NDArray[Any]]
    y: list[NDArray[Any]]
    owner: NDArray[np.int32]
    names: NDArray[np.str_]
    is_test: NDArray[np.bool_] | None
    notes: tuple[str, ...]

    @property
    def training(self) -> list[Pair]:
        """Features and labels of the training files; all of them without a split."""
        pairs = list(zip(self.x, self.y, strict=True))
        if self.is_test is None:
            return pairs
        ends = np.cumsum([len(y) for y in self.y])
        return [pair for pair, end in zip(pairs, ends, strict=True) if not self.is_test[end - 1]]


def read_leaf(path: Path, convert: Convert) -> LeafSamples:
    """Read a file, a folder of files, or a folder with train/ and test/, file by file.

    If the same users are in train/ and test/ (LEAF's ``-t sample``), that split is kept; if all are
    in one of them only (``-t user``), there is none.
    """
    train_files, test_files = _find(path)
    train, test = _read(train_files, convert), _read(test_files, convert)
    is_split = train.keys() == test.keys()
    if both := not is_split and train.keys() & test.keys():
        alone = sorted(train.keys() ^ test.keys())
        raise InputError(
            f"data.path = {path}: {len(both)} users are in train/ and test/, but {len(alone)}, as "
            f"{alone[0]}, in one of them only: the files are of several calls of preprocess.sh; "
            f"delete both folders and call it once"
        )
    notes = _leave_out_halves(train, test) if is_split else ()
    pairs = [(u, xy) for half in (train, test) for u, xy in half.items() if len(xy[1])]
    if not pairs:
        raise InputError(f"data.path = {path} has no samples; {AGAIN}")
    length = pairs[0][1][0].shape[1:]
    for user, (x, _) in pairs:
        if x.shape[1:] != length:
            raise InputError(
                f"data.path = {path}, user {user}: samples of length {x.shape[1]} where others "
                f"have {length[0]}; {AGAIN}"
            )
    sizes = [len(y) for _, (_, y) in pairs]
    number = {user: i for i, user in enumerate(dict.fromkeys(user for user, _ in pairs))}
    owner = np.repeat(np.array([number[user] for user, _ in pairs], np.int32), sizes)
    is_test = np.arange(len(owner)) >= sum(sizes[: len(train)]) if is_split else None
    return LeafSamples(
        [x for _, (x, _) in pairs], [y for _, (_, y) in pairs], owner, np.array([*number]),
        is_test, notes,
    )  # fmt: skip


def _leave_out_halves(train: dict[str, Pair], test: dict[str, Pair]) -> tuple[str, ...]:
    """Delete users that lack training or test samples, and return what people should know."""
    halves = [user for user in train if not (len(train[user][1]) and len(test[user][1]))]
    for user in halves:
        del train[user], test[user]
    as_split = "training and test data are as LEAF split them, whatever data.train_fraction is"
    left_out = f"{len(halves)} users without training or test data are left out"
    return (as_split, left_out) if halves else (as_split,)


def _find(path: Path) -> tuple[list[Path], list[Path]]:
    """Return files for training and for testing; none of the latter where they are not split."""
    if path.is_file():
        return [path], []
    if not path.is_dir():
        raise InputError(f"data.path = {path}: there is no such file or folder")
    halves = [path / "train", path / "test"]
    there = [half for half in halves if half.is_dir()]
    if len(there) == 1:
        raise InputError(
            f"data.path = {path} has {there[0].name}/ and not both train/ and test/: name "
            f"{there[0]} to split its samples by data.train_fraction, or {AGAIN}"
        )
    found = [sorted(folder.glob("*.json")) for folder in there or [path]]
    for folder, files in zip(there or [path], found, strict=True):
        if not files:
            inner = sorted({file.parent for file in folder.glob("*/*.json")})
            hint = f"name {inner[0]}" if inner else "run LEAF's preprocess.sh and name its folder"
            raise InputError(f"data.path = {path}: there are no .json files in {folder}; {hint}")
    return found[0], found[1] if there else []


def _read(files: list[Path], convert: Convert) -> dict[str, Pair]:
    """Read the users of some files."""
    users: dict[str, Pair] = {}
    for file in files:
        for user, (x, y) in _read_file(file, convert):
            if user in users:
                raise InputError(
                    f"{file}: user {user} is in another file of {file.parent} too; delete the "
                    f"files that are left of an earlier preprocess.sh"
                )
            users[user] = x, y
    return users


def _read_file(file: Path, convert: Convert) -> Iterator[tuple[str, Pair]]:
    """Yield the users of a file; each user's lists become arrays as soon as they are parsed."""

    def compact(found: dict[str, Any]) -> Any:
        x, y = found.get("x"), found.get("y")
        return _converted(x, y, convert) if isinstance(x, list) and isinstance(y, list) else found

    try:
        with file.open(encoding="utf-8") as opened:
            content = json.load(opened, object_hook=compact)
    except OSError as error:
        raise InputError(f"{file} can't be read: {error}") from error
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{file} is not JSON, or was cut off: {error}; {AGAIN}") from error
    users, user_data = _checked(content, file)
    for user in users:
        match user_data[user]:
            case (x, y):
                yield user, (x, y)
            case InputError() as mistake:
                raise InputError(f"{file}, user {user}: {mistake}") from mistake
            case other:
                raise InputError(
                    f"{file}, user {user}: {shorten(other)} where lists x and y are expected; "
                    f"{AGAIN}"
                )


def _converted(x: list[Any], y: list[Any], convert: Convert) -> Pair | InputError:
    """Return a user's arrays, or what is wrong with them: only the file's end tells whose."""
    if len(x) != len(y):
        return InputError(f"x has {len(x)} samples and y {len(y)} labels; {AGAIN}")
    try:
        return convert(x, y)
    except InputError as error:
        return error


def _checked(content: Any, file: Path) -> tuple[list[str], dict[str, Any]]:
    """Return users and their data of a file's content."""
    keys = list(content) if isinstance(content, dict) else []
    if missing := [key for key in ("users", "user_data") if key not in keys]:
        raise InputError(
            f"{file} is not of LEAF: it has no {' and no '.join(missing)}, but "
            f"{shorten(keys) if keys else 'nothing by name'}; {AGAIN}"
        )
    users, user_data = content["users"], content["user_data"]
    listed = isinstance(users, list) and all(isinstance(user, str) for user in users)
    if not listed or not isinstance(user_data, dict):
        raise InputError(f"{file}: users is no list of names, or user_data not by name; {AGAIN}")
    if other := sorted(set(users) ^ user_data.keys()):
        where = "user_data" if other[0] in user_data else "users"
        raise InputError(
            f"{file}: users and user_data differ in {len(other)} names, as {other[0]}, which is in "
            f"{where} alone; {AGAIN}"
        )
    return users, user_data
