"""Find a data set's files: given folder, MAXFL_DATA, system package, user cache, publisher."""

import gzip
import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from maxfl.data.download import Progress, UnavailableError, fetch
from maxfl.data.registry import File
from maxfl.utils.errors import InputError
from maxfl.utils.paths import user_cache

VARIABLE = "MAXFL_DATA"


class DamagedError(InputError):
    """A file that should bring others can't be opened."""


class Place(NamedTuple):
    """Where a file is: a path, or a member of the zip file at that path."""

    path: Path
    member: str | None = None

    def __str__(self) -> str:
        return f"{self.path} ({self.member})" if self.member else str(self.path)

    @property
    def plain(self) -> bool:
        """Whether the file is not packed."""
        return self.member is None and self.path.suffix != ".gz"


def folders(file: File, data_dir: Path | None) -> list[Path]:
    """Return the folders in which a file is looked for, in this order."""
    named = (("data.dir", data_dir), (VARIABLE, os.environ.get(VARIABLE)))
    roots = [_folder(name, root) for name, root in named if root]
    packaged = [Path(file.packaged)] if file.packaged else []
    below = [folder for root in roots for folder in (root / file.folder, root)]
    return [*below, *packaged, cache(file)]


def _folder(name: str, given: Path | str) -> Path:
    """Return a folder that somebody named, which must exist."""
    folder = Path(given).expanduser()
    if not folder.is_dir():
        raise InputError(f"{name} = {given}: there is no such folder; make it, or correct the name")
    return folder


def cache(file: File) -> Path:
    """Return the folder for a file's download."""
    return user_cache() / "data" / file.folder


def find(file: File, data_dir: Path | None = None) -> Place | None:
    """Find a file, or None; a damaged zip is an error only if the file is nowhere else."""
    damage: DamagedError | None = None
    for folder in folders(file, data_dir):
        for path in (folder / file.name, folder / f"{file.name}.gz"):
            if path.is_file():
                return Place(path)
        archives = [folder / f"{file.name}.zip"]
        if file.download:
            archives.append(folder / file.download.name)
        for archive in filter(Path.is_file, archives):
            try:
                member = _member(archive, file.name)
            except DamagedError as error:
                damage = damage or error
                continue
            if member:
                return Place(archive, member)
    if damage:
        raise damage
    return None


def obtain(file: File, data_dir: Path | None = None, progress: Progress | None = None) -> Place:
    """Find a file; if it is nowhere, download it from its publisher first."""
    if place := find(file, data_dir):
        return place
    if file.download is None:
        raise InputError(_how_to_get(file, data_dir, "it can't be downloaded"))
    try:
        with writing(cache(file)):
            path = fetch(file.download, cache(file), progress)
    except UnavailableError as error:
        raise InputError(_how_to_get(file, data_dir, str(error))) from error
    if place := find(file, data_dir):
        return place
    raise InputError(f"{path} has no {file.name} inside; delete it if it is not the publisher's")


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Name a folder of the user's cache in errors of using it, and say what to do."""
    try:
        yield
    except OSError as error:
        raise InputError(
            f"{folder} can't be used to keep data in: {error}; fix that, or set XDG_CACHE_HOME to "
            f"another folder"
        ) from error


@contextmanager
def opened(place: Place) -> Iterator[BinaryIO]:
    """Open the unpacked content of a file; errors in it name the file."""
    try:
        with place.path.open("rb") as raw:
            if place.member is None:
                yield raw if place.plain else gzip.GzipFile(fileobj=raw)  # type: ignore[misc]
            else:
                with zipfile.ZipFile(raw) as archive, archive.open(place.member) as inside:
                    packed = place.member.endswith(".gz")
                    yield gzip.GzipFile(fileobj=inside) if packed else inside  # type: ignore
    except (EOFError, gzip.BadGzipFile, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{place} is damaged: {error}; delete it and get it again") from error
    except OSError as error:
        raise InputError(
            f"{place} can't be read: {error}; fix that, or get the file again"
        ) from error


def _member(archive: Path, name: str) -> str | None:
    """Find the entry of a zip file with a name, packed or not, in whatever folder."""
    try:
        with zipfile.ZipFile(archive) as opened_archive:
            entries = opened_archive.namelist()
    except zipfile.BadZipFile as error:
        raise DamagedError(f"{archive} is damaged: {error}; delete it and get it again") from error
    except OSError as error:
        raise DamagedError(f"{archive} can't be read: {error}; fix that, or delete it") from error
    return next((e for e in entries if Path(e).name in (name, f"{name}.gz")), None)


def _how_to_get(file: File, data_dir: Path | None, why: str) -> str:
    """Say exactly what to put where."""
    looked = folders(file, data_dir)
    # Not into a system package's folder, which is not the user's.
    place = looked[0] if data_dir or os.environ.get(VARIABLE) else cache(file)
    forms = [file.name, f"{file.name}.gz"]
    if file.download and file.download.name.endswith(".zip"):
        forms.append(f"the whole {file.download.name}")
    lines = [
        f"{file.name} is not here: {why}. Put {' or '.join(forms)} into {place}"
        + ("" if data_dir or os.environ.get(VARIABLE) else f", or set {VARIABLE} to your folder")
    ]
    if file.hint:
        lines.append(file.hint)
    if file.download:
        lines.append(f"it comes from {file.download.url}")
    if file.package:
        lines.append(f"or install the package {file.package}")
    return "; ".join(lines) + f". Looked in {', '.join(map(str, looked))}"
