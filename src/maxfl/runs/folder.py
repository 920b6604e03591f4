"""The folder of a run, a sweep, a study or a federation on Flower, held for it alone.

experiment.json      what is being run; written first, so that a folder is known by it
checkpoint/          while the run goes on                      (maxfl.runs.checkpoint)
progress.json        while the run goes on: how far it is       (maxfl.runs.progress)
history.parquet      every evaluated round and client           (maxfl.runs.tables)
rounds.parquet       every round and sampled client
metrics.parquet      means over clients: every evaluated round, group of clients and metric
clients.parquet      every client: size, requirement, solo results
partition.parquet    every client and label: samples
model.safetensors    the final global model
summary.json         the final figures; once it is there, the run is finished
model-card.md        what the model is, and for whom it does not work; made from the others
"""

import fcntl
import os
import platform
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax

from maxfl.distributed.processes import group, is_leader, on_leader
from maxfl.engine.trainer import Progress
from maxfl.report.legacy import writer
from maxfl.report.model_card.card import cards
from maxfl.report.source import has_results, read
from maxfl.runs.checkpoint import Checkpoint
from maxfl.runs.plugins.code import CODE_FROM, NO_CODE, Code
from maxfl.runs.progress import ProgressFile
from maxfl.utils.dicts import differences, written_first
from maxfl.utils.errors import InputError, shorten
from maxfl.utils.files import digest, partial_path, read_mapping, write_json, write_whole
from maxfl.utils.integrity import explain_damage, file_digest, refuse_damaged, seal
from maxfl.utils.paths import CARD, EXPERIMENT, SUMMARY

CHECKPOINT = "checkpoint"


class RunFolder:
    """A folder that holds one experiment.

    Of several processes, process 0 alone has a folder.

    Attributes:
        path: Where it is.

    Args:
        path: A new or empty folder, or one that this very experiment was started in.
        results: Files that are there once it is finished.
        last: The file that is written last: with it, the experiment is finished.
    """

    def __init__(self, path: str | Path, results: Sequence[str], last: str = SUMMARY) -> None:
        try:
            self.path = Path(path)
            os.lstat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            pass  # it will be made, or that can't be done
        except (OSError, TypeError, ValueError) as error:
            raise InputError(f"can't use {shorten(path)} as a folder: {error}") from None
        self._results, self._last = results, last

    @property
    def is_begun(self) -> bool:
        """Whether an experiment was begun in the folder."""
        return (self.path / EXPERIMENT).exists()

    @contextmanager
    def claim(
        self, description: dict[str, Any], *, resume: bool, code: Code = NO_CODE
    ) -> Iterator[bool]:
        """Hold the folder for this experiment alone, or refuse. Gives whether it is finished."""
        with ExitStack() as stack:
            held = partial(self._held, description, resume=resume, code=code)
            yield on_leader(lambda: stack.enter_context(held()))

    def checkpoint(self, description: dict[str, Any]) -> Checkpoint:
        """Return the checkpoint of an experiment in memory or on disk."""
        return Checkpoint(self.path / CHECKPOINT, description)

    def progress(
        self, values: Sequence[Mapping[str, Any]], inner: Progress | None = None
    ) -> ProgressFile:
        """Return the progress file, which passes progress on to a callback."""
        return ProgressFile(self.path if is_leader() else None, values, inner)

    def write_results(self, contents: Mapping[str, bytes], summary: Mapping[str, Any]) -> None:
        """Write files by name, and last the summary, with versions, hardware and all digests."""
        digests = {EXPERIMENT: file_digest(self.path / EXPERIMENT)}
        for name, content in contents.items():
            write_whole(self.path / name, content)
            digests[name] = digest(content)
        write_json(self.path / self._last, seal({**_machine(), **summary}, digests))

    def write_card(self) -> None:
        """Write the model card from the other files; a finished run never fails for want of it."""
        card = self.path / CARD
        if card.is_file():
            return
        try:
            write_whole(card, cards(read([self.path])).encode())
        except Exception as error:
            warnings.warn(f"{card} can't be written: {error}", stacklevel=3)

    @contextmanager
    def _held(self, description: dict[str, Any], *, resume: bool, code: Code) -> Iterator[bool]:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDONLY)
        except FileExistsError:
            raise InputError(f"{self.path} is a file: name a new folder (--out)") from None
        except OSError as error:
            raise InputError(f"can't use {self.path} as a folder: {error.strerror}") from error
        try:
            _lock(descriptor, self.path)
            yield self._claim(description, resume=resume, code=code)
        finally:
            os.close(descriptor)

    def _claim(self, description: dict[str, Any], *, resume: bool, code: Code) -> bool:
        folder = self.path
        try:
            inside = {path.name for path in folder.iterdir()}
            # A killed first write can leave the partial file alone, which claims nothing; and a
            # link for the checkpoint, to a scratch disk say, may be made beforehand.
            links = {CHECKPOINT} if (folder / CHECKPOINT).is_symlink() else set()
            if not inside - {partial_path(folder / EXPERIMENT).name} - links:
                noted = {CODE_FROM: code.folders_from(folder)} if code.folders else {}
                written = {"maxfl": version("maxfl"), **description, **noted}
                write_json(folder / EXPERIMENT, written)
                return False
        except OSError as error:
            raise InputError(f"can't use the folder {folder}: {error.strerror}") from error
        if EXPERIMENT not in inside:
            raise InputError(
                f"the folder {folder} is not empty and holds no run: choose another one"
            )
        with explain_damage(str(folder / EXPERIMENT)):
            _refuse_another(folder, read_mapping(folder / EXPERIMENT), description)
        finished = self._last in inside
        if not resume:
            state = "a finished" if finished else "an unfinished"
            raise InputError(
                f"the folder {folder} already holds {state} run of this experiment: add --resume "
                f"(resume=True) to {'see its figures' if finished else 'go on'}, or choose "
                f"another folder"
            )
        if finished:
            self._refuse_incomplete(inside)
        return finished

    def _refuse_incomplete(self, inside: set[str]) -> None:
        """Refuse a finished experiment whose files are gone or damaged."""
        folder = self.path
        if lost := [name for name in self._results if name not in inside]:
            raise InputError(
                f"the run in {folder} was finished, but {', '.join(lost)} is gone: put it back, or "
                f"choose another folder"
            )
        with explain_damage(str(folder / self._last)):
            refuse_damaged(folder, self._last, read_mapping(folder / self._last))


def _refuse_another(folder: Path, there: dict[str, Any], here: dict[str, Any]) -> None:
    """Refuse a folder that holds another experiment, and say in what it differs."""
    there = {key: value for key, value in there.items() if key != CODE_FROM}
    noted = {} if "maxfl" in here else {"maxfl": there.get("maxfl")}
    changed = differences(there, {**here, **noted})
    if not changed:
        return
    wrote, reads = writer(there), version("maxfl")
    if wrote != reads:
        more = f". `maxfl report {folder}` shows what is finished there"
        raise InputError(
            f"the folder {folder} was written by maxfl {wrote}, and this is {reads}: choose "
            f"another folder (--out), or go on with that version; nothing was changed"
            f"{more if has_results(folder) else ''}"
        )
    kinds = {"federation": "a single run", "study": "a study"}
    kind = next((word for key, word in kinds.items() if key in there), "a sweep")
    raise InputError(
        f"the folder {folder} already holds another experiment ({kind}), which differs in "
        + "; ".join(written_first(changed)[:5])
        + ". Choose another folder (--out); nothing was changed."
    )


def _lock(descriptor: int, folder: Path) -> None:
    """Keep other processes out until the descriptor is closed, however we end."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(
            f"another process is at work in the folder {folder}: wait, or choose another folder"
        ) from None
    except OSError as error:  # some network file systems have none: better no lock than no run
        warnings.warn(
            f"{folder} can't be locked ({error.strerror}): see to it that no other process uses it",
            stacklevel=3,
        )


def _machine() -> dict[str, Any]:
    """Return versions and hardware that a result was made with."""
    device, processes = jax.devices()[0], group().size
    where = platform.machine() + (f", {processes} processes" if processes > 1 else "")
    return {
        "maxfl": version("maxfl"),
        "jax": jax.__version__,
        "python": platform.python_version(),
        "device": f"{len(jax.devices())} x {device.device_kind} ({where})",
    }
