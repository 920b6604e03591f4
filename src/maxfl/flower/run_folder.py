"""A federation's folder: a checkpoint after every round, and results as a simulation leaves them.

experiment.json          what is being run; written first, so that a folder is known by it
checkpoint.safetensors   while it goes on: the model after the last round, and the solver's state
checkpoint.jsonl         while it goes on: what happened, a line for every round
begun.json               while it goes on: how many rounds were begun
checkpoints/             models of the last rounds, as many as the operator keeps
rounds.log               a line for every round, and for everybody who did not participate
progress.json            while it goes on: how far it is, for `maxfl watch`
model.safetensors        the final global model
server-state.safetensors the moments of the server's optimizer, where it has any
metrics.parquet          GM-Appeal, the metric and answers, round by round
weights.parquet          who weighed how much in which round, unless there is privacy
history.parquet, rounds.parquet, clients.parquet   every client, where losses were collected
rounds.jsonl             what happened, from which the run can go on for more rounds
summary.json             the final figures and all events; once it is there, the run is finished
model-card.md            what the model is, and for whom it does not work; made from the others
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from flwr.app import ArrayRecord, MetricRecord
from flwr.serverapp.strategy import Result
from safetensors.numpy import save as dump_tensors

from maxfl.core.metrics import ACCURACY, MetricInfo
from maxfl.engine.history import History
from maxfl.flower.monitoring.audit import WEIGHTS, weights_table
from maxfl.flower.monitoring.checkpoints import (
    BEGUN,
    CHECKPOINT,
    CHECKPOINT_ROUNDS,
    ROUNDS,
    SERVER_STATE,
    SavedModel,
    keep_model,
    model_bytes,
    read_model,
    remove_models,
)
from maxfl.flower.monitoring.extension import extend, with_rounds_begun
from maxfl.flower.monitoring.stall import stall_of
from maxfl.flower.monitoring.tracking import points_of
from maxfl.flower.replies.arrays import Arrays
from maxfl.flower.results import (
    Clients,
    build_history,
    metric_series,
    metrics_table,
    summary_entry,
)
from maxfl.flower.round_log import Round, format_round, from_plain, to_plain
from maxfl.flower.server.portfolio import KnownPortfolio
from maxfl.flower.solver import SolverState
from maxfl.runs.folder import RunFolder
from maxfl.runs.progress import trail_names
from maxfl.runs.tables import ClientSizes, clients_table, history_table, rounds_table, to_parquet
from maxfl.runs.trackers.base import Configuration, OpenTracker, TrackerDispatch
from maxfl.utils.files import open_unlinked, read_json, write_json, write_whole
from maxfl.utils.paths import METRICS, MODEL, ROUND_LOG, TABLES

EvaluateFn = Callable[[int, ArrayRecord], MetricRecord | None]
"""What a user may give Flower to evaluate a model at the server: of a round and the model."""


class TrainingState(NamedTuple):
    """A model, the rounds that led to it, and what solver and optimizer keep beside it.

    Of several models, arrays have a leading axis [models], and ``portfolio`` is what is known of
    them.
    """

    model: Arrays
    rounds: list[Round]
    solver: SolverState
    moments: Arrays
    portfolio: KnownPortfolio | None = None


class RunInfo(NamedTuple):
    """What of a strategy's settings a folder depends on.

    Attributes:
        rounds: Of the whole run.
        title: What the data are, for reports.
        may_decline: Whether clients may stay away at all.
        metric: The one that is collected.
        keep: Models of so many last rounds stay.
        trackers: What is told every metric too.
        audit: Whether to write who weighed how much.
        by_examples: Whether the step weighs clients by their samples.
    """

    rounds: int
    title: str
    may_decline: bool
    metric: MetricInfo = ACCURACY
    keep: int = 0
    trackers: Sequence[OpenTracker] = ()
    audit: bool = False
    by_examples: bool = False


@contextmanager
def open_federation_folder(
    path: Path, config: dict[str, Any], info: RunInfo, *, resume: bool
) -> Iterator["FederationFolder"]:
    """Hold a folder for one run; when the block is left, what only a resumption needs is removed.

    Args:
        path: Of the folder.
        config: All settings of the run; a folder of others is refused, but for one of fewer rounds,
            which is resumed for more of them.
        info: Those that the results depend on.
        resume: Whether to go on with the run in the folder.
    """
    folder = RunFolder(path, (METRICS, MODEL))
    begun = with_rounds_begun(config, path) if resume else config
    description = {"config": begun, "federation": "", "title": info.title}
    with folder.claim(description, resume=resume) as finished:
        if begun != config:
            extend(path, config, finished=finished)
            finished = False
        federation = FederationFolder(folder, info, finished, config)
        with federation.progress.noting_failure(), federation.trackers.opened():
            yield federation
        # Also of a finished run, which may have been killed just before.
        for name in (CHECKPOINT, CHECKPOINT_ROUNDS, BEGUN):
            (path / name).unlink(missing_ok=True)
        folder.write_card()
        federation.progress.remove()


class FederationFolder:
    """A run folder that is held for one federation.

    Attributes:
        saved: The checkpoint of a run that was stopped, None if the run is new or finished.
        final_model: The model of a finished run, None if the run is not finished.
        rounds_begun: Rounds that were begun, those that a stop cut off included.
        progress: What the run says of itself while it is at work.
        trackers: What is told the same; a finished run tells nothing.
    """

    def __init__(
        self, folder: RunFolder, info: RunInfo, finished: bool, config: dict[str, Any]
    ) -> None:
        self._folder, self._path, self._info = folder, folder.path, info
        self._began = time.monotonic()
        self._seconds_before = 0.0
        self.progress = folder.progress([{}])
        self.trackers = TrackerDispatch(
            self.progress,
            [Configuration(self._path, 0, {}, config)],
            () if finished else info.trackers,
        )
        self.final_model = read_model(self._path / MODEL).model if finished else None
        self.saved = None if finished else self._read_checkpoint()
        begun = self._path / BEGUN
        self.rounds_begun: int = read_json(begun) if begun.is_file() else 0
        if not finished:
            done = 0 if self.saved is None else len(self.saved.rounds)
            remove_models(self._path, after=done)  # of rounds that do not count
            self.progress.report("rounds", done, info.rounds)

    def _read_checkpoint(self) -> TrainingState | None:
        if not (self._path / CHECKPOINT).is_file():
            (self._path / CHECKPOINT_ROUNDS).unlink(missing_ok=True)
            return None
        checkpoint = read_model(self._path / CHECKPOINT)
        self._seconds_before = checkpoint.seconds
        # A line more than the model has rounds is of one that was cut off.
        lines = (self._path / CHECKPOINT_ROUNDS).read_text().splitlines()[: checkpoint.rounds]
        rounds = [from_plain(json.loads(line)) for line in lines]
        write_whole(self._path / CHECKPOINT_ROUNDS, _to_bytes(lines))
        log = [line for entry in rounds for line in format_round(entry, self._info.metric)]
        write_whole(self._path / ROUND_LOG, _to_bytes(log))
        for entry in rounds:
            self._note_metrics(entry)
        self._note_stall(rounds)
        self.progress.report("resumed", checkpoint.rounds, self._info.rounds)
        return TrainingState(
            checkpoint.model, rounds, checkpoint.solver, checkpoint.moments, checkpoint.portfolio
        )

    def begin_round(self) -> None:
        """Note that a round begins: privacy is spent by it, whatever becomes of it."""
        self.rounds_begun += 1
        write_json(self._path / BEGUN, self.rounds_begun)

    def save(self, state: TrainingState) -> None:
        """Save the model after a round; killed at any moment, the last or this one stands."""
        entry, done, keep = state.rounds[-1], len(state.rounds), self._info.keep
        content = self._to_tensors(state)
        _append(self._path / CHECKPOINT_ROUNDS, [json.dumps(to_plain(entry))])
        if keep:
            keep_model(self._path, done, content)
        write_whole(self._path / CHECKPOINT, content)
        if keep:
            remove_models(self._path, before=done - keep)
        _append(self._path / ROUND_LOG, format_round(entry, self._info.metric))
        self._note_metrics(entry)
        self._note_stall(state.rounds)
        self.trackers.note(points_of(state.rounds, self._info.metric))
        self.progress.report("rounds", done, self._info.rounds)

    def finish(self, state: TrainingState, temperature: float, extra: dict[str, Any]) -> None:
        """Write the results; ``temperature`` is that after all rounds.

        ``extra`` goes into the entry of the summary.
        """
        rounds, info = state.rounds, self._info
        by_client = build_history(rounds, temperature, info.may_decline, info.metric)
        contents = {} if by_client is None else _client_tables(*by_client)
        contents[METRICS] = to_parquet(metrics_table(rounds, info.metric))
        if info.audit:
            table = weights_table(rounds, by_examples=info.by_examples)
            contents[WEIGHTS] = to_parquet(table)
        contents[MODEL] = self._to_tensors(_to_give_away(state))
        (self._path / SERVER_STATE).unlink(missing_ok=True)  # of rounds that were taken back
        if state.moments:
            contents[SERVER_STATE] = dump_tensors(state.moments)
        contents[ROUNDS] = _to_bytes([json.dumps(to_plain(entry)) for entry in rounds])
        summary = {
            "flower": version("flwr"),
            "seconds": self._seconds,
            "rounds": info.rounds,
            "rounds_begun": self.rounds_begun,
            "means_only": by_client is None,
            "configurations": [summary_entry(rounds, info.title, info.metric) | extra],
        }
        self._folder.write_results(contents, summary)

    def _note_stall(self, rounds: Sequence[Round]) -> None:
        """Let whoever watches know that nobody participates any more, or again that some do."""
        stall = stall_of(rounds)
        warnings = [] if stall is None else [stall.text]
        self.progress.state = self.progress.state._replace(warnings=warnings)

    def _note_metrics(self, entry: Round) -> None:
        """Note the metrics of a round in the progress file, NaN for what is not known."""
        metric = self._info.metric
        series = metric_series([entry], metric)
        values = {
            name: np.array([series[name].values if name in series else [np.nan]])
            for name in trail_names(metric)
        }
        self.progress.note([entry.number], values, metric)

    @property
    def _seconds(self) -> float:
        """Time at work, before a stop too."""
        return round(self._seconds_before + time.monotonic() - self._began, 3)

    def _to_tensors(self, state: TrainingState) -> bytes:
        model, rounds, solver, moments, portfolio = state
        return model_bytes(
            SavedModel(model, len(rounds), self._seconds, solver, moments, portfolio)
        )


def _to_give_away(state: TrainingState) -> TrainingState:
    """Return what the final model's file has: no moments, and nothing of single nodes."""
    known = state.portfolio
    return state._replace(moments={}, portfolio=known and known._replace(picked={}))


def _client_tables(history: History, clients: Clients) -> dict[str, bytes]:
    # How many samples a client judges by, it does not say.
    sizes = ClientSizes(clients.names, clients.train_sizes, 0, clients.test_sizes)
    contents = (
        history_table(history, [0]),
        rounds_table(history, [0]),
        clients_table(history, sizes, [0]),
    )
    names = [name for name in TABLES if name != METRICS]
    return {name: to_parquet(table) for name, table in zip(names, contents, strict=True)}


def _append(path: Path, lines: list[str]) -> None:
    with os.fdopen(open_unlinked(path, os.O_WRONLY | os.O_APPEND), "ab") as file:
        file.write(_to_bytes(lines))
        file.flush()
        os.fsync(file.fileno())


def _to_bytes(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def shift_rounds(evaluate_fn: EvaluateFn | None, before: int) -> EvaluateFn | None:
    """Count the rounds that a function is called with from the very first."""
    if evaluate_fn is None:
        return None
    return lambda server_round, arrays: evaluate_fn(server_round + before, arrays)


def renumber_rounds(result: Result, before: int) -> Result:
    """Count the rounds of a result from the very first, not from where a run was taken up."""
    for name in ("train_metrics_clientapp", "evaluate_metrics_clientapp",
                 "evaluate_metrics_serverapp"):  # fmt: skip
        by_round = getattr(result, name)
        setattr(result, name, {number + before: value for number, value in by_round.items()})
    return result
