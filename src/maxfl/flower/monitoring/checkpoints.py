"""What a federation goes on from: models in files, with the rounds and the solver's state of each.

The model after the last round is one of them, the final model another, and those of past rounds
that are kept: checkpoints/round-0007.safetensors is the one after round 7.
"""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as dump_tensors

from maxfl.flower.replies.arrays import Arrays
from maxfl.flower.server.portfolio import (
    KnownPortfolio,
    portfolio_from_plain,
    portfolio_to_plain,
)
from maxfl.flower.solver import SolverState, state_from_plain, state_to_plain
from maxfl.utils.errors import InputError
from maxfl.utils.files import read_mapping, write_json, write_whole
from maxfl.utils.paths import CARD, MODEL, SUMMARY

CHECKPOINT, CHECKPOINT_ROUNDS, BEGUN = "checkpoint.safetensors", "checkpoint.jsonl", "begun.json"
"""While a run goes on: its model, what happened in every round, and how many rounds were begun."""
ROUNDS = "rounds.jsonl"
"""What happened in every round of a finished run, from which it can be taken up again."""
SERVER_STATE = "server-state.safetensors"
"""What the optimizer of a finished run keeps, so that it can go on for more rounds."""
KEPT = "checkpoints"
MOMENTS = "maxfl-moments/"
"""What names of moments begin with, beside the model's."""


class SavedModel(NamedTuple):
    """A model in a file.

    Attributes:
        model: By name.
        rounds: That led to it.
        seconds: That they took.
        solver: What the solver keeps.
        moments: What the server's optimizer keeps, by name.
        portfolio: What the server knows of several models, whose arrays have a leading axis
            [models]; None of one.
    """

    model: Arrays
    rounds: int
    seconds: float
    solver: SolverState
    moments: Arrays
    portfolio: KnownPortfolio | None = None


def model_bytes(saved: SavedModel) -> bytes:
    """Return a safetensors file; it sorts arrays, so the order of their names is in it too."""
    metadata = {
        "names": list(saved.model), "rounds": saved.rounds, "seconds": saved.seconds,
        "solver": state_to_plain(saved.solver),
        **({} if saved.portfolio is None else {"portfolio": portfolio_to_plain(saved.portfolio)}),
    }  # fmt: skip
    moments = {f"{MOMENTS}{name}": array for name, array in saved.moments.items()}
    arrays = {name: np.asarray(array, order="C") for name, array in (saved.model | moments).items()}
    return dump_tensors(arrays, {key: json.dumps(value) for key, value in metadata.items()})


def read_model(path: Path) -> SavedModel:
    """Read what ``model_bytes`` wrote, or say that it can't be read."""
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata()
            model = {key: file.get_tensor(key) for key in json.loads(metadata["names"])}
            rounds, seconds, solver = (
                json.loads(metadata[name]) for name in ("rounds", "seconds", "solver")
            )
            moments = {
                key.removeprefix(MOMENTS): file.get_tensor(key)
                for key in file.keys()  # noqa: SIM118, no dict
                if key.startswith(MOMENTS)
            }
            known = portfolio_from_plain(json.loads(metadata.get("portfolio", "null")))
            return SavedModel(model, rounds, seconds, state_from_plain(solver), moments, known)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path} can't be read ({error}): it is damaged or of another version. Remove it to "
            f"begin again, or choose another folder"
        ) from error


def kept_model(folder: Path, number: int) -> Path:
    """Return where the model after a round is kept."""
    return folder / KEPT / f"round-{number:04d}.safetensors"


def kept_rounds(folder: Path) -> list[int]:
    """Return the rounds whose models are kept, in order."""
    names = (path.stem.removeprefix("round-") for path in (folder / KEPT).glob("round-*"))
    return sorted(int(name) for name in names if name.isdigit())


def keep_model(folder: Path, number: int, content: bytes) -> None:
    """Keep the model after a round."""
    (folder / KEPT).mkdir(exist_ok=True)
    write_whole(kept_model(folder, number), content)


def remove_models(folder: Path, before: int = 0, after: float = float("inf")) -> None:
    """Remove models of rounds up to ``before``, and of those after ``after``."""
    for number in kept_rounds(folder):
        if number <= before or number > after:
            kept_model(folder, number).unlink(missing_ok=True)


def reopen(folder: Path) -> None:
    """Make a finished run one that stands after its last round; killed at any moment, either."""
    if not (folder / ROUNDS).is_file():
        raise InputError(
            f"the run in {folder} was finished by a version that did not keep its rounds "
            f"({ROUNDS}), so that it can't go on: choose another folder, and begin with "
            f"{folder / MODEL} as the initial model"
        )
    write_json(folder / BEGUN, read_mapping(folder / SUMMARY)["rounds_begun"])
    write_whole(folder / CHECKPOINT_ROUNDS, (folder / ROUNDS).read_bytes())
    last, moments = read_model(folder / MODEL), folder / SERVER_STATE
    if moments.is_file():
        last = last._replace(moments=load_tensors(moments.read_bytes()))
    write_whole(folder / CHECKPOINT, model_bytes(last))
    # A finished run without a card is given one, none a stale one.
    for name in (CARD, SUMMARY, SERVER_STATE):
        (folder / name).unlink(missing_ok=True)
