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


def check_room(folder: Path, needed: int, what: str, remedy: str) -> None:
    """Refuse to begin what will not fit on the disk of a folder, which need not be there yet."""
    if (free := free_room(folder)) < needed:
        raise DiskFullError(
            f"{what} will take {readable(needed)} in {folder}, where {readable(free)} are free: "
            f"{remedy}"
        )


def free_room(folder: Path) -> int:
    """Bytes that are free where a folder is, or will be."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    return shutil.disk_usage(there).free


@contextmanager
def told_if_full(folder: Path, what: str, needed: int | None, remedy: str) -> Iterator[None]:
    """Say what did not fit into a folder, and what to do."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        size = "" if needed is None else f", which takes up to {readable(needed)} in all"
        free = readable(free_room(folder))
        raise DiskFullError(
            f"no room is left in {folder} ({error.strerror}; {free} free) for {what}{size}: "
            f"{remedy}"
        ) from error


def readable(size: float) -> str:
    """Bytes for people."""
    units = ("bytes", "kB", "MB", "GB", "TB")
    power = min(int(math.log(max(size, 1), 1000)), len(units) - 1)
    return f"{size / 1000**power:.3g} {units[power]}"
