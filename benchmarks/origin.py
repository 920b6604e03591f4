"""Where, when and of what results were measured: files of one session are told from others."""

import datetime
import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parent.parent / "src"


def origin() -> dict[str, str]:
    """Return the day, a digest of the code, and the beginning of the GPU's number."""
    return session() | {"code": code()}


def code() -> str:
    """Return the beginning of a digest of the code that is measured."""
    digest = hashlib.sha256()
    for path in sorted(SOURCE.rglob("*.py")):
        digest.update(path.relative_to(SOURCE).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def session() -> dict[str, str]:
    """Return the day, and the beginning of the GPU's number."""
    found = {"date": datetime.datetime.now(datetime.UTC).date().isoformat()}
    try:
        query = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
        done = subprocess.run(query, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):  # no such GPU
        return found
    return found | {"card": done.stdout.splitlines()[0][:12]}


def continued(file: Path, header: dict[str, Any], models: list[str], field: str) -> dict[str, Any]:
    """Return a header with what a file holds of other models; none may be of another session.

    Args:
        file: Results, if there are any.
        header: What all of a session have in common.
        models: Those that are going to be measured.
        field: Of a row, where it names its model.
    """
    before: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {}
    rows = before.pop("rounds", [])
    others = [row for row in rows if row[field] not in models]
    if others and before != header:
        raise SystemExit(
            f"{file} holds other models' results of another day, card, version or code: name a new "
            f"file, or measure all models"
        )
    return header | {"rounds": others}


def write_rounds(found: dict[str, Any], file: Path, *, is_record: bool, is_last: bool) -> None:
    """Write results after each case; a record is replaced by a whole one alone.

    Until it is whole, and where cases failed, they are beside it: record.json.part.

    Args:
        found: Results, with rows under "rounds".
        file: Where to.
        is_record: Whether the repository keeps it.
        is_last: Whether no case follows.
    """
    part, text = file.with_name(f"{file.name}.part"), json.dumps(found, indent=1) + "\n"
    failed = sum("failed" in row for row in found["rounds"])
    if not is_record or (is_last and not failed):
        file.write_text(text)
        part.unlink(missing_ok=True)
        return
    part.write_text(text)
    if is_last:
        why = f"cases that failed: {failed}; the others are in {part}"
        raise SystemExit(f"{file} stays as it was: {why}")
