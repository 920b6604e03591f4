"""Download a file: resumable, verified, and moved into place whole."""

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from maxfl.data.registry import Download
from maxfl.utils.errors import InputError
from maxfl.utils.files import locked

CHUNK = 1 << 20
TIMEOUT = 30
RANGE_NOT_SATISFIABLE = 416
Progress = Callable[[str, int, int], None]
"""Called with (file, bytes done, bytes in all) while a file is downloaded."""


class UnavailableError(Exception):
    """A publisher's file does not come, or not whole; the message says why."""


def fetch(download: Download, folder: Path, progress: Progress | None = None) -> Path:
    """Download a file into a folder, unless it is there, and return its path.

    What an interrupted download left in ``<name>.partial`` is taken up again. The file gets its
    name only once its checksum is right; one with a wrong checksum is deleted. Of processes that
    need the same file at once, one downloads it and the others wait.
    """
    folder.mkdir(parents=True, exist_ok=True)
    partial, path = folder / f"{download.name}.partial", folder / download.name
    with locked(folder / f".{download.name}.lock"):
        if not path.exists():
            _append(download, partial, progress)
            _verify(download, partial)
            partial.replace(path)
    return path


def _append(download: Download, partial: Path, progress: Progress | None) -> None:
    """Get what is missing of the partial file."""
    done = partial.stat().st_size if partial.exists() else 0
    if done > download.size:  # then it is not the beginning of this file
        partial.unlink()
        done = 0
    if done == download.size:
        return
    try:
        request = urllib.request.Request(download.url, headers={"Range": f"bytes={done}-"})
        answer = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == RANGE_NOT_SATISFIABLE and done:
            return  # theirs is no longer than ours; the checksum tells whether it is right
        raise UnavailableError(f"{download.url} answers {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        raise UnavailableError(f"{download.url} can't be reached ({error})") from error
    with answer, partial.open("ab") as file:
        if answer.status != http.client.PARTIAL_CONTENT:  # a server that starts from the beginning
            file.truncate(0)
            done = 0
        for block in _blocks(answer):
            file.write(block)
            done += len(block)
            if progress:
                progress(download.name, done, download.size)
        file.flush()
        os.fsync(file.fileno())
    if done < download.size:
        raise UnavailableError(
            f"{download.url} ended after {done} of {download.size} bytes; try again to go on from "
            f"there"
        )


def _blocks(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """What an answer brings until it ends or breaks off; its size tells which of them it was."""
    try:
        while block := answer.read1(CHUNK):
            yield block
    except (OSError, http.client.HTTPException):
        return


def _verify(download: Download, partial: Path) -> None:
    """Delete a file whose checksum is wrong."""
    algorithm, _, expected = download.checksum.partition(":")
    with partial.open("rb") as file:
        actual = hashlib.file_digest(file, algorithm).hexdigest()
    if actual != expected:
        partial.unlink()
        raise InputError(
            f"{download.url} has the wrong checksum: {algorithm} {actual} where {expected} is "
            f"expected. The file was deleted; try again, or get it elsewhere"
        )
