"""Files that are either whole or absent, and held by one process at a time."""

import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from maxfl.utils.errors import InputError

PRIVATE, SHARED = 0o600, 0o666
"""Permissions of files that only their owner may read, and of others, less the user's umask."""


def write_whole(path: Path, content: bytes, permissions: int = SHARED) -> None:
    """Write a file so that, killed at any moment, the old or the new content stands.

    A link in its place is replaced; what it points to is not touched.
    """
    partial = partial_path(path)
    partial.unlink(missing_ok=True)
    made = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, permissions)
    with os.fdopen(made, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def partial_path(path: Path) -> Path:
    """Return where a file is while it is being written."""
    return path.with_name(f".{path.name}.partial")


@contextmanager
def locked(
    path: Path, permissions: int = SHARED, on_wait: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Wait until nobody else holds a file, then hold it; the system frees it when we end.

    Args:
        path: The file, made if it is not there; its content does not matter.
        permissions: Of a file that is made.
        on_wait: Called if another process holds it.
    """
    descriptor = open_unlinked(path, os.O_RDWR, permissions)
    try:
        with suppress(OSError):  # some network file systems have no locks: better none than no file
            _lock(descriptor, on_wait)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, on_wait: Callable[[], None]) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        on_wait()
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def open_unlinked(path: Path, flags: int, permissions: int = SHARED) -> int:
    """Open a file to be written in place, made if it is not there; a link is refused."""
    try:
        return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW, permissions)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise InputError(
            f"{path} is a link, and what it points to would be overwritten: remove it, or link "
            f"the whole folder"
        ) from None


def write_json(path: Path, content: Any, permissions: int = SHARED) -> None:
    """Write a JSON file whole."""
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    write_whole(path, text.encode(), permissions)


def read_json(path: Path) -> Any:
    """Read a JSON file, or say that it can't be read."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} can't be read: {error}. Choose another folder.") from error


def read_mapping(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds an object, or say that it can't be read."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise InputError(
            f"{path} is damaged, or was not written by maxfl: it holds no object. Restore it from "
            f"a copy, or choose another folder"
        )
    return content


def digest(content: bytes) -> str:
    """Return the SHA-256 of a file's content."""
    return hashlib.sha256(content).hexdigest()
