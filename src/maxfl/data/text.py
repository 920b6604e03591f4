"""A text file of one's own, by characters: sequences, and the same one character further on.

Clients are roles of a play, or whatever a pattern finds, or else equal stretches of the file.
"""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.data.dataset import Dataset
from maxfl.utils.errors import InputError, check_count

PADDING = 0
"""The number of no character: it fills up the last sequence of each client."""


class Pieces(NamedTuple):
    """A text in one piece for each client.

    Attributes:
        texts: The pieces.
        names: What clients are called; None for their numbers.
        notes: What people should know of them.
    """

    texts: list[str]
    names: NDArray[np.str_] | None = None
    notes: tuple[str, ...] = ()


def load_text(
    path: Path, length: int = 80, *, role_pattern: str | None = None, stretches: int = 100
) -> Dataset:
    """Load a text: x [n, length] numbers of characters; y int32[n, length] of the next ones.

    Characters are numbered from 1 in the order of their codes; 0 is padding, which the loss
    ``next_token`` leaves out. x is uint8 where that has room for all of them, else int32.

    Args:
        path: A file in UTF-8.
        length: Characters of a sequence; sequences follow one another without overlap.
        role_pattern: A regular expression with one group, the role's name. What is between two
            places that it matches, ``^`` being the beginning of a line, is said by the first's
            role, and all that a role says is one client's. None: clients are stretches.
        stretches: Number of stretches of the file, all of nearly one size.
    """
    check_count("data.sequence_length", length, least=1)
    content = _read(path)
    if role_pattern is None:
        pieces = _stretches(content, stretches, length, path)
    else:
        pieces = _roles(content, compiled(role_pattern), path)
    sizes = [len(text) for text in pieces.texts]
    codes = np.frombuffer("".join(pieces.texts).encode("utf-32-le"), np.uint32)
    characters, numbers = np.unique(codes, return_inverse=True)
    small = len(characters) <= np.iinfo(np.uint8).max
    numbers = (numbers + 1).astype(np.uint8 if small else np.int32)
    pairs = [_sequences(piece, length) for piece in np.split(numbers, np.cumsum(sizes)[:-1])]
    counts = [len(x) for x, _ in pairs]
    return Dataset(
        path.name,
        np.concatenate([x for x, _ in pairs]),
        np.concatenate([y for _, y in pairs]).astype(np.int32), (),
        owner=np.repeat(np.arange(len(pairs), dtype=np.int32), counts), owner_names=pieces.names,
        vocabulary=("", *map(chr, characters)), notes=pieces.notes,
    )  # fmt: skip


def compiled(role_pattern: str) -> re.Pattern[str]:
    """Return a regular expression that finds roles, or say what is wrong with it."""
    try:
        pattern = re.compile(role_pattern, re.MULTILINE)
    except re.error as error:
        raise InputError(
            f"data.role_pattern = {role_pattern!r} is no regular expression: {error}"
        ) from None
    if pattern.groups != 1:
        raise InputError(
            f"data.role_pattern = {role_pattern!r} has {pattern.groups} groups; expected one, the "
            f"role's name, as '^([A-Z ]+):'; others are written (?:...)"
        )
    return pattern


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"data.path = {path}: there is no such file") from None
    except IsADirectoryError:
        raise InputError(f"data.path = {path} is a folder: name a text file") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"data.path = {path} is not in UTF-8: {error}; save it as UTF-8"
        ) from error
    except OSError as error:
        raise InputError(f"data.path = {path} can't be read: {error}") from error


def _stretches(content: str, stretches: int, length: int, path: Path) -> Pieces:
    """Cut a text into stretches of at least two sequences."""
    check_count("data.clients + data.unseen", stretches, least=1)
    needed = stretches * (length + 2)
    if len(content) < needed:
        raise InputError(
            f"data.path = {path} has {len(content)} characters, but {stretches} clients (seen and "
            f"unseen) with two sequences of {length} or less need {needed}: lower data.clients, "
            f"data.unseen or data.sequence_length"
        )
    ends = [len(content) * k // stretches for k in range(stretches + 1)]
    return Pieces([content[begin:end] for begin, end in pairwise(ends)])


def _roles(content: str, pattern: re.Pattern[str], path: Path) -> Pieces:
    """Put together what each role says, in the order of their first words."""
    found = list(pattern.finditer(content))
    if not found:
        raise InputError(
            f"data.role_pattern = {pattern.pattern!r} is found nowhere in {path}: see how its "
            f"roles are marked, and write a pattern for that"
        )
    speeches: dict[str, list[str]] = {}
    ends = [*(match.start() for match in found[1:]), len(content)]
    for match, end in zip(found, ends, strict=True):
        name = " ".join((match[1] or "").split())
        if not name:
            line = content.count("\n", 0, match.start()) + 1
            raise InputError(
                f"{path}, line {line}: data.role_pattern = {pattern.pattern!r} matches without a "
                f"name in its group"
            )
        speeches.setdefault(name, []).append(content[match.end() : end].strip())
    before = len(content[: found[0].start()].strip())
    notes = (f"{before} characters before the first role are left out",) if before else ()
    return Pieces(["\n".join(said) for said in speeches.values()], np.array([*speeches]), notes)


def _sequences(numbers: NDArray[Any], length: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return sequences, [n, length], and each character's next one, the last ones padded."""
    labelled = max(len(numbers) - 1, 0)
    room = -(-labelled // length) * length
    x, y = (np.full(room, PADDING, numbers.dtype) for _ in range(2))
    x[:labelled], y[:labelled] = numbers[:-1], numbers[1:]
    return x.reshape(-1, length), y.reshape(-1, length)
