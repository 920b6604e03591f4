"""Save a run after every block and take it up again, bit for bit.

A checkpoint is a folder: what was known before the first round, one file of results per finished
block, the state after the last of them, and an index. The index is written last and atomically,
and names every file with its digest; whatever it does not name does not count. So a run killed at
any moment leaves the checkpoint of its last finished block.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError

from maxfl.engine.blocks import Block
from maxfl.utils.errors import InputError
from maxfl.utils.files import digest, from_tensors, to_tensors, write_whole
from maxfl.utils.dicts import differences
from maxfl.distributed.processes import first, lead, share, together
from maxfl.core.requirement import Solo, Thresholds
from maxfl.engine.simulation import Prepared, Simulation
from maxfl.engine.spec import Asked, Evaluation, Personal, State

FORMAT = 2
INDEX = "checkpoint.json"


class Saved(NamedTuple):
    """What a checkpoint holds."""

    prepared: Prepared
    state: State
    blocks: list[Block]


class Checkpoint:
    """The checkpoint folder of one experiment, known by its description."""

    def __init__(self, folder: Path, description: dict[str, Any]) -> None:
        self.folder, self.description = folder, description
        self._files: dict[str, str] = {}

    @property
    def exists(self) -> bool:
        """Whether anything can be resumed from here."""
        return (self.folder / INDEX).exists()

    def save_start(self, prepared: Prepared, state: State) -> None:
        """Save what is known before the first round."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write("prepared", prepared)
        self._write("state-00000", state)
        self._commit(0)

    def save_block(self, number: int, block: Block, state: State) -> None:
        """Save the results of block ``number`` (from 1) and the state after it."""
        self._write(f"block-{number:05d}", block)
        self._write(f"state-{number:05d}", state)
        last = f"state-{number - 1:05d}"
        self._files.pop(last)
        self._commit(number)
        (self.folder / last).unlink(missing_ok=True)

    def load(self, simulation: Simulation) -> Saved:
        """Read the checkpoint back, or refuse it whole."""
        index = self._read_index()
        try:
            saved = self._restore(index, simulation)
        except (KeyError, TypeError, AttributeError, SafetensorError) as error:
            raise self._refusal(f"its index and its files do not fit ({error!r})") from error
        # A custom rule is known by its name; what it demands tells whether it is still the same.
        demanded = simulation.demand(saved.prepared.solo)
        if not np.array_equal(saved.prepared.thresholds.train, demanded.train, equal_nan=True):
            raise InputError(
                f"the requirement demands other losses than when the run in {self.folder.parent} "
                f"was started: resume with the same rule, or choose another folder"
            )
        return saved

    def shared(self, simulation: Simulation) -> Saved | None:
        """What the checkpoint of process 0 holds, if there is one, in every process."""
        saved = None
        with together():
            if first() and self.exists:
                saved = self.load(simulation)
        blocks = lead(lambda: None if saved is None else len(saved.blocks))
        return None if blocks is None else share(saved, _like(simulation, blocks))

    def _restore(self, index: dict[str, Any], simulation: Simulation) -> Saved:
        contents = {name: self._read(name, sha) for name, sha in index["files"].items()}
        self._files = index["files"]
        done = index["blocks"]
        prepared, state, blocks = _like(simulation, done)
        return Saved(
            from_tensors(contents["prepared"], prepared),
            from_tensors(contents[f"state-{done:05d}"], state),
            [from_tensors(contents[f"block-{n:05d}"], like) for n, like in enumerate(blocks, 1)],
        )

    def remove(self) -> None:
        """Delete the checkpoint, if any: the index first, so that what is left does not count."""
        if not self.folder.exists():
            return
        for path in [self.folder / INDEX, *self.folder.iterdir()]:
            path.unlink(missing_ok=True)
        self.folder.rmdir()

    def _write(self, name: str, tree: Any) -> None:
        content = to_tensors(tree)
        write_whole(self.folder / name, content)
        self._files[name] = digest(content)

    def _commit(self, blocks: int) -> None:
        index = {
            "format": FORMAT,
            "blocks": blocks,
            "files": self._files,
            "experiment": self.description,
        }
        write_whole(self.folder / INDEX, json.dumps(index, indent=1).encode())

    def _read_index(self) -> dict[str, Any]:
        try:
            index = json.loads((self.folder / INDEX).read_text())
            version, experiment = index["format"], index["experiment"]
            index["files"], index["blocks"]
        except (ValueError, KeyError, TypeError) as error:
            raise self._refusal(f"its index {INDEX} can't be read ({error})") from error
        if version != FORMAT:
            raise self._refusal(f"it has format {version}, and this version reads {FORMAT}")
        if changed := differences(experiment, self.description):
            raise InputError(
                f"{self.folder.parent} holds a checkpoint of another experiment. It differs in "
                + "; ".join(changed[:5])
                + ". Resume with the settings it was started with, or choose another folder."
            )
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


def _like(simulation: Simulation, blocks: int) -> Saved:
    """The structure of a checkpoint after so many blocks."""
    leaf: Any = 0
    personal = Personal(leaf, leaf, leaf) if simulation.personal else ()
    evaluation = Evaluation(leaf, leaf, leaf, leaf, leaf, personal)
    asked = Asked(leaf, leaf, leaf, leaf)
    block = Block(0, evaluation, asked, simulation.survey_shape())
    prepared = Prepared(Solo(0, 0, 0), Thresholds(0, 0))
    return Saved(prepared, simulation.state_shape(), [block] * blocks)
