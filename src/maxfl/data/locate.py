"""Find a data set's files: given folder, MAXFL_DATA, system package, user cache, publisher."""

import gzip
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from maxfl.data.download import fetch
from maxfl.data.sources import File
from maxfl.errors import InputError
from maxfl.folders import user_cache

VARIABLE = "MAXFL_DATA"
Progress = Callable[[str, int, int], None]
"""Called with (file, bytes done, bytes in all) while a file is downloaded."""


class Place(NamedTuple):
    """Where a file is: a path, or a member of the zip file at that path."""

    path: Path
    member: str | None = None

    def __str__(self) -> str:
        return f"{self.path} ({self.member})" if self.member else str(self.path)


def folders(file: File, data_dir: Path | None) -> list[Path]:
    """The folders in which a file is looked for, in this order."""
    roots = [root for root in (data_dir, os.environ.get(VARIABLE)) if root]
    packaged = [Path(file.packaged)] if file.packaged else []
    below = [folder for root in roots for folder in (Path(root) / file.folder, Path(root))]
    return [*below, *packaged, cache(file)]


def cache(file: File) -> Path:
    """Where a file's download goes."""
    return user_cache() / "data" / file.folder


def find(file: File, data_dir: Path | None = None) -> Place | None:
    """Where a file is, or None."""
    for folder in folders(file, data_dir):
        for path in (folder / file.name, folder / f"{file.name}.gz"):
            if path.is_file():
                return Place(path)
        archives = [folder / f"{file.name}.zip"]
        if file.download:
            archives.append(folder / file.download.name)
        for archive in archives:
            if archive.is_file() and (member := _member(archive, file.name)):
                return Place(archive, member)
    return None


def obtain(
    file: File,
    data_dir: Path | None = None,
    progress: Progress | None = None,
) -> Place:
    """Where a file is; if nowhere, download it from its publisher first."""
    if place := find(file, data_dir):
        return place
    if file.download is None:
        raise InputError(_how_to_get(file, data_dir, "it can't be downloaded"))
    try:
        path = fetch(file.download, cache(file), progress)
    except OSError as error:
        why = f"{file.download.url} can't be reached ({error})"
        raise InputError(_how_to_get(file, data_dir, why)) from error
    if place := find(file, data_dir):
        return place
    raise InputError(f"{path} was downloaded, but has no {file.name} inside")


@contextmanager
def opened(place: Place) -> Iterator[BinaryIO]:
    """The unpacked content of a file; errors in it name the file."""
    try:
        with place.path.open("rb") as raw:
            if place.member is None:
                packed = place.path.suffix == ".gz"
                yield gzip.GzipFile(fileobj=raw) if packed else raw  # type: ignore[misc]
            else:
                with zipfile.ZipFile(raw) as archive, archive.open(place.member) as inside:
                    packed = place.member.endswith(".gz")
                    yield gzip.GzipFile(fileobj=inside) if packed else inside  # type: ignore
    except (EOFError, gzip.BadGzipFile, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{place} is damaged: {error}; delete it and get it again") from error
    except OSError as error:
        raise InputError(f"{place} can't be read: {error}") from error


def _member(archive: Path, name: str) -> str | None:
    """The entry of a zip file with a name, packed or not, in whatever folder."""
    try:
        with zipfile.ZipFile(archive) as opened_archive:
            entries = opened_archive.namelist()
    except zipfile.BadZipFile as error:
        raise InputError(f"{archive} is damaged: {error}; delete it and get it again") from error
    return next((e for e in entries if Path(e).name in (name, f"{name}.gz")), None)


def _how_to_get(file: File, data_dir: Path | None, why: str) -> str:
    """Exactly what to put where."""
    first = folders(file, data_dir)[0]
    lines = [
        f"{file.name} is not here: {why}. Put {file.name} or {file.name}.gz into {first}"
        + ("" if data_dir or os.environ.get(VARIABLE) else f", or set {VARIABLE} to your folder")
    ]
    if file.download:
        lines.append(f"it comes from {file.download.url}")
    if file.package:
        lines.append(f"or install the package {file.package}")
    looked = ", ".join(str(folder) for folder in folders(file, data_dir))
    return "; ".join(lines) + f". Looked in {looked}"
