"""Tell whether a folder of results, or a federation on disk, is still as it was written."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from maxfl.core.federation_files import DESCRIPTION, UNFINISHED, open_federation
from maxfl.runs.checkpoint import Checkpoint
from maxfl.runs.folder import CHECKPOINT
from maxfl.utils.errors import InputError
from maxfl.utils.files import read_mapping
from maxfl.utils.integrity import FILES, explain_damage, find_damage
from maxfl.utils.paths import EXPERIMENT, MODEL, STUDY, SUMMARY, TABLES


class Checked(NamedTuple):
    """What was found in one folder.

    Attributes:
        folder: Where.
        what: What it holds, in words.
        damage: What is wrong with it, in words.
        unknown: Whether there are no digests to compare.
    """

    folder: Path
    what: str
    damage: list[str]
    unknown: bool = False


def check(folder: Path, progress: Callable[[str], None] | None = None) -> Iterator[Checked]:
    """Check a run, a sweep with its groups, a study with its stages, or a federation on disk.

    Args:
        folder: Where it is.
        progress: Called with the name of each file that is read whole.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder: name that of a run, or of a federation on disk")
    if (folder / UNFINISHED).exists():
        yield Checked(folder, "", [f"the federation in {folder} was not written to its end"])
        return
    if (folder / DESCRIPTION).is_file():
        yield _check(folder, DESCRIPTION, "a federation on disk", progress)
        return
    if not any((folder / name).is_file() for name in (EXPERIMENT, STUDY, SUMMARY)):
        raise InputError(
            f"{folder} holds neither a run ({EXPERIMENT} is not there) nor a federation on disk "
            f"({DESCRIPTION} is not there)"
        )
    last = next((name for name in (SUMMARY, STUDY) if (folder / name).is_file()), None)
    yield _check_unfinished(folder) if last is None else _check(folder, last, "finished", progress)
    for place in (*sorted(folder.glob("groups/*")), folder / "search", folder / "final"):
        if (place / EXPERIMENT).is_file():
            yield from check(place, progress)


def _check(folder: Path, name: str, what: str, progress: Callable[[str], None] | None) -> Checked:
    """Check the files whose digests a summary has."""
    try:
        with explain_damage(str(folder / name)):
            summary = read_mapping(folder / name)
            damage = find_damage(folder, name, summary, progress)
            # What other commands would refuse is not whole either.
            if name == DESCRIPTION and not damage:
                open_federation(folder)
            if name == SUMMARY and not all("values" in e for e in summary["configurations"]):
                raise KeyError("values")
            return Checked(folder, what, damage, unknown=FILES not in summary)
    except InputError as error:
        return Checked(folder, what, [str(error)])


def _check_unfinished(folder: Path) -> Checked:
    """Check what an unfinished run has saved."""
    what = "not finished"
    try:
        description = read_mapping(folder / EXPERIMENT)
        saved = Checkpoint(folder / CHECKPOINT, description)
        if saved.exists:
            return Checked(folder, f"{what}, {saved.verify()} blocks saved", [])
    except InputError as error:
        return Checked(folder, what, [str(error)])
    # Results are written while the checkpoint is still there, and the summary after them.
    if left := [name for name in (*TABLES, MODEL) if (folder / name).exists()]:
        lost = STUDY if "study" in description else SUMMARY
        return Checked(folder, what, [f"{folder / lost} is gone, though there is {left[0]}"])
    return Checked(folder, what, [], unknown=True)
