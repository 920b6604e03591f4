"""A federation's folder: a checkpoint after every round, and results as a simulation leaves them.

experiment.json          what is being run; written first, so that a folder is known by it
checkpoint.safetensors   while it goes on: the model after the last round
checkpoint.jsonl         while it goes on: what happened, a line for every round
rounds.log               a line for every round, and for everybody who did not take part
progress.json            while it goes on: how far it is, for `maxfl watch`
model.safetensors        the final global model
metrics.parquet          GM-Appeal, accuracy and answers, round by round
history.parquet, rounds.parquet, clients.parquet   every client, where losses were revealed
summary.json             the final figures and all events; once it is there, the run is finished
model-card.md            what the model is, and for whom it does not work; made from the others
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as dump_tensors

from maxfl.engine.history import History
from maxfl.flower.replies import Arrays
from maxfl.flower.results import Clients, history_of, metrics_table, notes_of, series, summary_entry
from maxfl.flower.round_log import Round, from_plain, lines_of, to_plain
from maxfl.runs import tables
from maxfl.runs.progress import TRAIL, Live
from maxfl.runs.run import claimed, machine, write_card
from maxfl.utils.errors import InputError
from maxfl.utils.files import read_json, write_json, write_whole
from maxfl.utils.paths import METRICS, MODEL, ROUND_LOG, SUMMARY

CHECKPOINT, HAPPENED = "checkpoint.safetensors", "checkpoint.jsonl"
BEGUN = "begun.json"
RESULTS = (METRICS, MODEL)


class Kept(NamedTuple):
    """A model, and the rounds that led to it."""

    model: Arrays
    rounds: list[Round]


class Settings(NamedTuple):
    """What of a strategy's settings the results depend on."""

    rounds: int
    title: str
    temperature: float
    may_decline: bool


@contextmanager
def kept_in(
    folder: Path, config: dict[str, Any], settings: Settings, *, resume: bool
) -> Iterator["Keeper"]:
    """Hold a folder for one run; what the run says of itself there, it says until the end."""
    description = {"config": config, "federation": "", "title": settings.title}
    with claimed(folder, description, resume=resume, results=RESULTS) as finished:
        keeper = Keeper(folder, settings, finished)
        with keeper.live.telling():
            yield keeper
        # Also of a finished run, which may have been killed just before.
        for name in (CHECKPOINT, HAPPENED, BEGUN):
            (folder / name).unlink(missing_ok=True)
        write_card(folder)
        keeper.live.remove()


class Keeper:
    """A folder that is held for one run.

    Attributes:
        before: What was kept when the run stopped, None if it is new.
        finished: The final model, None if the run is not finished.
        begun: Rounds that were begun, those that a stop cut off included.
    """

    def __init__(self, folder: Path, settings: Settings, finished: bool) -> None:
        self._folder, self._settings = folder, settings
        self._began = time.monotonic()
        self._spent = 0.0
        self.live = Live(folder, [{}], None)
        self.finished = _load(folder / MODEL)[0] if finished else None
        self.before = None if finished else self._before()
        there = (folder / BEGUN).is_file()
        self.begun: int = read_json(folder / BEGUN) if there else 0

    def _before(self) -> Kept | None:
        if not (self._folder / CHECKPOINT).is_file():
            (self._folder / HAPPENED).unlink(missing_ok=True)
            return None
        model, done, self._spent = _load(self._folder / CHECKPOINT)
        # A line more than the model has rounds is of one that was cut off.
        lines = (self._folder / HAPPENED).read_text().splitlines()[:done]
        rounds = [from_plain(json.loads(line)) for line in lines]
        write_whole(self._folder / HAPPENED, _lines(lines))
        told = [line for own in rounds for line in lines_of(own)]
        write_whole(self._folder / ROUND_LOG, _lines(told))
        for own in rounds:
            _tell(self.live, own)
        self.live.report("resumed", done, self._settings.rounds)
        return Kept(model, rounds)

    def begin(self) -> None:
        """Note that a round begins: privacy is spent by it, whatever becomes of it."""
        self.begun += 1
        write_json(self._folder / BEGUN, self.begun)

    def save(self, kept: Kept) -> None:
        """Keep the model after a round; killed at any moment, the last or this one stands."""
        own = kept.rounds[-1]
        _append(self._folder / HAPPENED, [json.dumps(to_plain(own))])
        write_whole(self._folder / CHECKPOINT, self._tensors(kept))
        _append(self._folder / ROUND_LOG, lines_of(own))
        _tell(self.live, own)
        self.live.report("rounds", len(kept.rounds), self._settings.rounds)

    @property
    def _seconds(self) -> float:
        """Time at work, before a stop too."""
        return round(self._spent + time.monotonic() - self._began, 3)

    def _tensors(self, kept: Kept) -> bytes:
        """The file has its own order of arrays; a model's is that of its names."""
        about = {"names": list(kept.model), "rounds": len(kept.rounds), "seconds": self._seconds}
        arrays = {name: np.ascontiguousarray(array) for name, array in kept.model.items()}
        return dump_tensors(arrays, {key: json.dumps(value) for key, value in about.items()})

    def finish(self, kept: Kept, extra: dict[str, Any]) -> None:
        """Write the results."""
        folder, settings = self._folder, self._settings
        found = history_of(kept.rounds, settings.temperature, settings.may_decline)
        if found is not None:
            _write_clients(folder, *found)
        write_whole(folder / METRICS, tables.to_parquet(metrics_table(kept.rounds)))
        write_whole(folder / MODEL, self._tensors(kept))
        entry = summary_entry(kept.rounds, settings.title, notes_of(kept.rounds))
        about = {
            **machine(),
            "flower": version("flwr"),
            "seconds": self._seconds,
            "rounds": settings.rounds,
            "means_only": found is None,
        }
        write_json(folder / SUMMARY, {**about, "configurations": [entry | extra]})


def _load(path: Path) -> tuple[Arrays, int, float]:
    """The model in a file, the number of rounds that led to it, and the seconds."""
    try:
        with safe_open(path, framework="numpy") as file:
            about = file.metadata()
            model = {key: file.get_tensor(key) for key in json.loads(about["names"])}
            return model, json.loads(about["rounds"]), json.loads(about["seconds"])
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path} can't be read ({error}): it is damaged or of another version. Remove it to "
            f"begin again, or choose another folder"
        ) from error


def _append(path: Path, lines: list[str]) -> None:
    with path.open("ab") as file:
        file.write(_lines(lines))
        file.flush()
        os.fsync(file.fileno())


def _lines(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def _write_clients(folder: Path, history: History, clients: Clients) -> None:
    sizes = (clients.names, clients.train_sizes, clients.test_sizes)
    every = {
        "history.parquet": tables.history_table(history, [0]),
        "rounds.parquet": tables.rounds_table(history, [0]),
        "clients.parquet": tables.clients_table(history, *sizes, [0]),
    }
    for name, table in every.items():
        write_whole(folder / name, tables.to_parquet(table))


def _tell(live: Live, own: Round) -> None:
    found = series([own])
    known = {name: np.array([found[name][1]]) for name in TRAIL if name in found}
    live.note([own.number], {name: known.get(name, np.array([[np.nan]])) for name in TRAIL})
