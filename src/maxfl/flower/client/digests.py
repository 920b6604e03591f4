"""Digests of a client's data and settings: what it requires holds as long as they are the same."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from maxfl.utils.errors import InputError, shorten
from maxfl.utils.integrity import file_digest

PLAIN = (str, bytes, bool, int, float, type(None))


def digest_of(*parts: Any) -> str:
    """Return SHA-256 of data and settings.

    Args:
        parts: Arrays (whatever NumPy takes for one), files and folders as ``Path``, text, numbers
            and None; tuples, lists and dicts of these. Of a file its content counts, not its name.
    """
    sha = hashlib.sha256()
    for part in parts:
        _add(sha, part)
    return sha.hexdigest()


def _add(sha: Any, part: Any) -> None:
    """Add a part with its kind and length, so that no two lists of parts look the same."""
    if isinstance(part, PLAIN):
        _add_bytes(sha, type(part).__name__, repr(part).encode())
    elif isinstance(part, Path):
        _add_path(sha, part)
    elif isinstance(part, Mapping):
        _add_bytes(sha, "mapping", str(len(part)).encode())
        for name in sorted(part, key=repr):
            _add(sha, name)
            _add(sha, part[name])
    elif isinstance(part, tuple | list):
        _add_bytes(sha, "sequence", str(len(part)).encode())
        for item in part:
            _add(sha, item)
    elif hasattr(part, "__array__"):
        _add_array(sha, np.asarray(part))
    else:
        raise InputError(
            f"digest_of: {shorten(part)} is a {type(part).__name__}; expected arrays, paths, text "
            f"and numbers, or tuples, lists and dicts of these"
        )


def _add_bytes(sha: Any, kind: str, content: bytes) -> None:
    sha.update(f"{kind}:{len(content)}:".encode())
    sha.update(content)


def _add_array(sha: Any, array: "np.ndarray[Any, Any]") -> None:
    if array.dtype.hasobject:
        raise InputError(
            "digest_of: an array of Python objects has no digest; give columns one by one, as "
            "arrays of numbers or text"
        )
    _add_bytes(sha, "array", f"{array.dtype.str}{array.dtype.descr}{array.shape}".encode())
    sha.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def _add_path(sha: Any, path: Path) -> None:
    """Add a file's content, or those of all files in a folder with their names."""
    try:
        if not path.is_dir():
            _add_bytes(sha, "file", file_digest(path).encode())
            return
        files = sorted(file for file in path.rglob("*") if file.is_file())
        _add_bytes(sha, "folder", str(len(files)).encode())
        for file in files:
            _add(sha, file.relative_to(path).as_posix())
            _add_bytes(sha, "file", file_digest(file).encode())
    except OSError as error:
        raise InputError(f"digest_of: {path} can't be read: {error.strerror}") from error
