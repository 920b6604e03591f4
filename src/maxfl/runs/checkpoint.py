"""Save a run after every block and take it up again, bit for bit.

A checkpoint is a folder: what was known before the first round, one file of results per finished
block, the state after the last of them, and an index. The index is written last and atomically, and
has the number of blocks and the digests of the newest files; every block has the digest of the one
before it, so that the index does not grow with the run. Whatever it does not reach does not count.
So a run killed at any moment leaves the checkpoint of its last finished block.

The folder may be a link, for instance to a scratch disk. No file in it is touched but the run's.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError

from maxfl.distributed.processes import broadcast, is_leader, on_leader, raise_together
from maxfl.engine.state import Block, State
from maxfl.engine.trainer import Prepared, Snapshot, Trainer
from maxfl.utils.errors import InputError
from maxfl.utils.files import digest, partial_path, write_whole
from maxfl.utils.paths import CLIENT_STATES
from maxfl.utils.tensors import from_tensors, tensors_metadata, to_tensors

FORMAT = 4
INDEX, PREPARED = "checkpoint.json", "prepared"


class Checkpoint:
    """The checkpoint folder of one experiment, known by the digest of its description."""

    def __init__(self, folder: Path, description: dict[str, Any]) -> None:
        self.folder = folder
        self._experiment = digest(json.dumps(_plain(description), sort_keys=True).encode())
        self._others = [CLIENT_STATES] if "streaming" in description else []
        self._last_block = ""
        self._prepared = ""

    @property
    def exists(self) -> bool:
        """Whether anything can be resumed from here."""
        return (self.folder / INDEX).exists()

    def save_start(self, prepared: Prepared, state: State) -> None:
        """Save what is known before the first round."""
        self._prepared = self._write(PREPARED, prepared)
        self._write_index(0, self._write(_state(0), state))

    def save_block(self, number: int, block: Block, state: State) -> None:
        """Save the results of block ``number`` (from 1) and the state after it."""
        self._last_block = self._write(_block(number), block, {"previous": self._last_block})
        self._write_index(number, self._write(_state(number), state))
        (self.folder / _state(number - 1)).unlink(missing_ok=True)

    def load(self, trainer: Trainer) -> Snapshot:
        """Read the checkpoint back, or refuse it whole."""
        index = self._read_index()
        with self._refusing():
            saved = self._restore(index, trainer)
        # A custom rule is known by its name; what it demands tells whether it is still the same.
        demanded = trainer.requirements(saved.prepared.solo)
        if not np.array_equal(saved.prepared.thresholds.judging, demanded.judging, equal_nan=True):
            raise InputError(
                f"the requirement demands other losses than when the run in {self.folder.parent} "
                f"was started: resume with the same rule, or choose another folder"
            )
        return saved

    def shared(self, trainer: Trainer) -> Snapshot | None:
        """Load the checkpoint of process 0, if there is one, in every process."""
        saved = None
        with raise_together():
            if is_leader() and self.exists:
                saved = self.load(trainer)
        blocks = on_leader(lambda: None if saved is None else len(saved.blocks))
        return None if blocks is None else broadcast(saved, trainer.like(blocks))

    def verify(self) -> int:
        """Read every file and compare its digest; return the number of blocks, or refuse."""
        index = self._read_index()
        with self._refusing():
            done = int(index["blocks"])
            for _ in self._read_blocks(done, index["last_block"]):
                pass
            self._read(PREPARED, index["prepared"])
            self._read(_state(done), index["state"])
        return done

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """Refuse files that can be read, but do not fit together."""
        try:
            yield
        except InputError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, SafetensorError) as error:
            raise self._refusal(f"its index and its files do not fit ({error!r})") from error

    def _read_blocks(self, done: int, last: str) -> Iterator[bytes]:
        """Yield the contents of the last block, the one before it, and so on to the first."""
        expected = last
        for number in range(done, 0, -1):
            content = self._read(_block(number), expected)
            expected = tensors_metadata(content)["previous"]
            yield content

    def _restore(self, index: dict[str, Any], trainer: Trainer) -> Snapshot:
        done = int(index["blocks"])
        contents = [*self._read_blocks(done, index["last_block"])][::-1]
        self._prepared, self._last_block = index["prepared"], index["last_block"]
        like = trainer.like(done)
        return Snapshot(
            from_tensors(self._read(PREPARED, index["prepared"]), like.prepared),
            from_tensors(self._read(_state(done), index["state"]), like.state),
            [from_tensors(c, b) for c, b in zip(contents, like.blocks, strict=True)],
        )

    def make_folder(self) -> None:
        """Make the folder; behind a link too, whose target may have been cleared away."""
        try:
            self.folder.resolve().mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"can't use {self.folder} for the checkpoint: {error.strerror or error}"
            ) from error

    def remove(self) -> None:
        """Delete the files that the index names, and what a killed write left beside them.

        The index goes last, so that what a kill leaves is removed the next time. The folder goes
        too, unless it is a link or holds something else.
        """
        try:
            done = int(self._read_index()["blocks"])
        except (InputError, KeyError, TypeError, ValueError):  # none, or that of another run
            done = None
        if done is not None:
            names = [_block(number) for number in range(1, done + 2)]
            names += [_state(max(number, 0)) for number in (done - 1, done, done + 1)]
            for name in [*names, *self._others, PREPARED, INDEX]:
                for path in (partial_path(self.folder / name), self.folder / name):
                    if path.is_file() or path.is_symlink():
                        path.unlink()
        if self.folder.is_dir() and not self.folder.is_symlink():
            with suppress(OSError):  # somebody's files are in it
                self.folder.rmdir()

    def _write(self, name: str, tree: Any, metadata: dict[str, str] | None = None) -> str:
        """Write a file and return its digest."""
        content = to_tensors(tree, metadata)
        write_whole(self.folder / name, content)
        return digest(content)

    def _write_index(self, blocks: int, state: str) -> None:
        index = {
            "format": FORMAT,
            "maxfl": version("maxfl"),
            "experiment": self._experiment,
            "blocks": blocks,
            "prepared": self._prepared,
            "last_block": self._last_block,
            "state": state,
        }
        write_whole(self.folder / INDEX, json.dumps(index, indent=1).encode())

    def _read_index(self) -> dict[str, Any]:
        try:
            index = json.loads((self.folder / INDEX).read_text())
            layout, experiment = index["format"], index["experiment"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._refusal(f"its index {INDEX} can't be read ({error})") from error
        if layout != FORMAT:  # up to format 2 the index held the whole description
            described = experiment.get("maxfl") if isinstance(experiment, dict) else None
            writer = index.get("maxfl") or described or "of another version"
            raise self._refusal(
                f"maxfl {writer} wrote it, in format {layout}; this version reads {FORMAT}"
            )
        if experiment != self._experiment:
            raise self._refusal("it is of another experiment than the folder")
        return dict(index)

    def _read(self, name: str, sha: str) -> bytes:
        try:
            content = (self.folder / name).read_bytes()
        except OSError as error:
            raise self._refusal(f"its file {name} can't be read ({error.strerror})") from error
        if digest(content) != sha:
            raise self._refusal(f"its file {name} is damaged: the digest does not match")
        return content

    def _refusal(self, why: str) -> InputError:
        return InputError(
            f"the checkpoint in {self.folder} can't be resumed: {why}. Nothing was changed. "
            f"Delete {self.folder} to start anew, or restore it from a copy."
        )


def _state(number: int) -> str:
    return f"state-{number:05d}"


def _block(number: int) -> str:
    return f"block-{number:05d}"


def _plain(description: Any) -> Any:
    """Return a description in which equal numbers are written alike: 1 and 1.0 are one setting."""
    if isinstance(description, dict):
        return {key: _plain(value) for key, value in description.items()}
    if isinstance(description, list | tuple):
        return [_plain(value) for value in description]
    is_whole = isinstance(description, int) and not isinstance(description, bool)
    return float(description) if is_whole else description
