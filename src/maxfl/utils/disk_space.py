"""Too little disk: refused before it happens where sizes are known, else what to change."""

import errno
import math
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from maxfl.utils.errors import DiskFullError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""A full disk, a user's share of it used up, a file larger than allowed."""


def require_space(folder: Path, needed: int, what: str, remedy: str) -> None:
    """Refuse to begin what will not fit on the disk of a folder, which need not exist yet."""
    if (free := free_space(folder)) < needed and _has_size(folder):
        raise DiskFullError(
            f"{what} will take {format_bytes(needed)} in {folder}, where {format_bytes(free)} are "
            f"free: {remedy}"
        )


def free_space(folder: Path) -> int:
    """Return the bytes that are free on the disk of a folder, which need not exist yet."""
    return shutil.disk_usage(_existing(folder)).free


def _has_size(folder: Path) -> bool:
    """Tell whether there is a disk at all; /proc and the like have none and take no files."""
    return shutil.disk_usage(_existing(folder)).total > 0


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())


@contextmanager
def explain_disk_full(folder: Path, what: str, needed: int | None, remedy: str) -> Iterator[None]:
    """Say what did not fit into a folder, and what to do."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        size = "" if needed is None else f", which takes up to {format_bytes(needed)} in all"
        free = format_bytes(free_space(folder))
        raise DiskFullError(
            f"no room is left in {folder} ({error.strerror}; {free} free) for {what}{size}: "
            f"{remedy}"
        ) from error


def format_bytes(size: float) -> str:
    """Write a number of bytes for people."""
    units = ("bytes", "kB", "MB", "GB", "TB")
    power = min(int(math.log(max(size, 1), 1000)), len(units) - 1)
    return f"{size / 1000**power:.3g} {units[power]}"
