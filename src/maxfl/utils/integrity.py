"""Whether files are still as they were written: a summary has the digest of each, and its own."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from maxfl.utils.errors import InputError

FILES, SEAL = "files", "digest"


def seal(summary: Mapping[str, Any], digests: Mapping[str, str]) -> dict[str, Any]:
    """Return a summary with the SHA-256 of some files by name, and its own."""
    content = {**summary, FILES: dict(digests)}
    return {**content, SEAL: _digest_of(content)}


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def find_damage(folder: Path, name: str, summary: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a folder's files, in words; the summary is called ``name``.

    Those of versions that wrote no digests pass.
    """
    if FILES not in summary:
        return []
    content = {key: value for key, value in summary.items() if key != SEAL}
    if summary.get(SEAL) != _digest_of(content):
        return [f"{folder / name} is damaged: its digest does not match"]
    return [
        f"{folder / file} is damaged: its digest is not the one in {name}"
        if (folder / file).is_file()
        else f"{folder / file} is gone"
        for file, sha in summary[FILES].items()
        if not (folder / file).is_file() or file_digest(folder / file) != sha
    ]


def refuse_damaged(folder: Path, name: str, summary: Mapping[str, Any]) -> None:
    """Refuse a folder whose files are not as they were written."""
    if damage := find_damage(folder, name, summary):
        raise InputError(
            f"{'; '.join(damage)}. Restore from a copy what is damaged, or run it again into "
            f"another folder"
        )


@contextmanager
def explain_damage(what: str) -> Iterator[None]:
    """Say of a file that can be read, but is not as it was written, that it is damaged."""
    try:
        yield
    except InputError:
        raise
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise InputError(
            f"{what} is damaged, or was not written by maxfl ({type(error).__name__}: {error}): "
            f"restore it from a copy, or choose another folder"
        ) from error


def _digest_of(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
