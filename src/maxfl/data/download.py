"""Download a file: resumable, verified, and moved into place whole."""

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from maxfl.data.sources import Download
from maxfl.errors import InputError

CHUNK = 1 << 20
TIMEOUT = 30
RANGE_NOT_SATISFIABLE = 416


def fetch(
    download: Download,
    folder: Path,
    progress: Callable[[str, int, int], None] | None = None,
) -> Path:
    """Download a file into a folder and return its path.

    What an interrupted download left in ``<name>.partial`` is taken up again. The file gets its
    name only once its checksum is right; one with a wrong checksum is deleted.
    """
    folder.mkdir(parents=True, exist_ok=True)
    partial, path = folder / f"{download.name}.partial", folder / download.name
    _append(download, partial, progress)
    algorithm, _, expected = download.checksum.partition(":")
    with partial.open("rb") as file:
        actual = hashlib.file_digest(file, algorithm).hexdigest()
    if actual != expected:
        partial.unlink()
        raise InputError(
            f"{download.url} has the wrong checksum: {algorithm} {actual} where {expected} is "
            f"expected. The file was deleted; try again, or get it elsewhere"
        )
    partial.replace(path)
    return path


def _append(
    download: Download, partial: Path, progress: Callable[[str, int, int], None] | None
) -> None:
    """Get what is missing of the partial file."""
    done = partial.stat().st_size if partial.exists() else 0
    request = urllib.request.Request(download.url, headers={"Range": f"bytes={done}-"})
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == RANGE_NOT_SATISFIABLE and done:
            return  # it was complete already; the checksum tells whether it was right
        raise
    with answer, partial.open("ab") as file:
        if answer.status != http.client.PARTIAL_CONTENT:  # a server that starts from the beginning
            file.truncate(0)
            done = 0
        length = answer.headers.get("Content-Length")
        total = done + int(length) if length else download.size
        while block := answer.read(CHUNK):
            file.write(block)
            done += len(block)
            if progress:
                progress(download.name, done, total)
        os.fsync(file.fileno())
    if length and done < total:
        raise OSError(f"the connection ended after {done} of {total} bytes; try again to go on")
