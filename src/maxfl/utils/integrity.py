"""Whether files are still as they were written: a summary has the digest of each, and its own."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
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


def find_damage(
    folder: Path,
    name: str,
    summary: Mapping[str, Any],
    progress: Callable[[str], None] | None = None,
) -> list[str]:
    """Return what is wrong with a folder's files, in words.

    Those of versions that wrote no digests pass.

    Args:
        folder: Where they are.
        name: What the summary is called.
        summary: Its content.
        progress: Called with the name of each file that is read.
    """
    if broken := find_broken_seal(folder, name, summary):
        return [broken]
    damage = []
    for file, sha in summary.get(FILES, {}).items():
        if progress:
            progress(file)
        if not (folder / file).is_file():
            damage.append(f"{folder / file} is gone")
        elif file_digest(folder / file) != sha:
            damage.append(f"{folder / file} is damaged: its digest is not the one in {name}")
    return damage


def find_broken_seal(folder: Path, name: str, summary: Mapping[str, Any]) -> str:
    """Return that a summary itself is damaged, "" if it is not, or has no seal."""
    content = {key: value for key, value in summary.items() if key != SEAL}
    # Whatever names its version and has digests has one of its own too.
    needs_seal = "maxfl" in summary and FILES in summary
    if (SEAL not in summary and not needs_seal) or summary.get(SEAL) == _digest_of(content):
        return ""
    return f"{folder / name} is damaged: its digest does not match"


def refuse_damaged(
    folder: Path, name: str, summary: Mapping[str, Any], unread: Sequence[str] = ()
) -> None:
    """Refuse a folder whose files are not as they were written; those ``unread`` do not matter."""
    if broken := find_broken_seal(folder, name, summary):
        damage = [broken]
    else:
        read = {file: sha for file, sha in summary.get(FILES, {}).items() if file not in unread}
        damage = find_damage(folder, name, {FILES: read})
    if damage:
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
