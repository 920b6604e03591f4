"""What runs a federation: the same calls whether its data are in memory or on disk.

In this order:

    with trainer.open(folder):
        with trainer.compiling():
            state, prepared = trainer.start(), trainer.prepare()
        for state, block in trainer.blocks(prepared, state):
            blocks.append(block)
        history = trainer.history(prepared, blocks, state)
"""

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from maxfl.core.federation import Federation
from maxfl.core.judging import judges_by_training, small_words
from maxfl.core.model import compiled_scaling
from maxfl.core.requirements.requirement import Solo, Thresholds
from maxfl.core.requirements.thresholds import thresholds
from maxfl.distributed.processes import is_leader
from maxfl.engine.diagnosis.departure import departures
from maxfl.engine.diagnosis.follow import Diagnosis
from maxfl.engine.experiment import Origin, Training
from maxfl.engine.history import History
from maxfl.engine.programs import SKIP
from maxfl.engine.resources import Resources
from maxfl.engine.session import Session
from maxfl.engine.solo import SoloCache, best_solo, train_clients
from maxfl.engine.state import (
    Block,
    CohortRecord,
    Data,
    Evaluation,
    ModelStep,
    Personal,
    SoloHParams,
    State,
)
from maxfl.utils.errors import InputError, SpeedWarning, TrainingWarning, shorten
from maxfl.utils.notebook import in_notebook

Progress = Callable[[str, int, int], None]
"""Called with (stage, done, total) while a run goes on."""


class Prepared(NamedTuple):
    """What is known before the first round, [C, K] each."""

    solo: Solo
    thresholds: Thresholds


class Snapshot(NamedTuple):
    """A run after some blocks: what a checkpoint holds."""

    prepared: Prepared
    state: State
    blocks: list[Block]


class Trained(NamedTuple):
    """A run at its end."""

    history: History
    blocks: list[Block]


class Trainer(Protocol):
    """What trains a federation. ``Simulation`` and ``StreamingSimulation`` do."""

    @property
    def session(self) -> Session:
        """The experiment on its devices."""

    @property
    def resources(self) -> Resources:
        """What the run takes of memory and disk."""

    @property
    def eval_federation(self) -> Federation:
        """The clients that evaluate the model and whose results are kept."""

    @property
    def is_byzantine(self) -> Any:
        """Which of these clients are Byzantine, bool[C, K]."""

    @property
    def origin(self) -> Origin:
        """What its history is of."""

    def describe(self) -> dict[str, Any]:
        """Return everything that a result depends on, as plain data."""

    def open(self, folder: Path, progress: Progress | None = None) -> AbstractContextManager[Any]:
        """Hold what a run needs beside memory, for instance files in a folder."""

    def requirements(self, solo: Solo) -> Thresholds:
        """Derive the requirements from solo results, [C, K] each."""

    def prepare(
        self, progress: Progress | None = None, solo_cache: SoloCache | None = None
    ) -> Prepared:
        """Let every client train alone, and derive the requirements."""

    def start(self) -> State:
        """Return the state before the first round."""

    def compiling(self) -> AbstractContextManager[Any]:
        """Compile the program of the rounds meanwhile, where that is known in advance."""

    def blocks(
        self, prepared: Prepared, state: State, done: int = 0
    ) -> Iterator[tuple[State, Block]]:
        """Train from the state after ``done`` blocks, giving state and results of each block."""

    def history(self, prepared: Prepared, blocks: Iterable[Block], state: State) -> History:
        """Put the blocks of a run together."""

    def like(self, blocks: int) -> Snapshot:
        """Return the structure of a snapshot after so many blocks; its leaves mean nothing."""


@contextmanager
def shown_progress(progress: Progress | bool | None) -> Iterator[Progress | None]:
    """Give the callback that shows how far a run is: the user's own, a bar's, or none.

    True is a bar and False nothing; None is a bar in a notebook. Of several processes, process 0
    alone shows one.
    """
    wanted = in_notebook() if progress is None else progress
    if callable(wanted):
        yield wanted
    elif not isinstance(wanted, bool):
        raise InputError(
            f"progress = {shorten(progress)}: expected a function of (stage, done, total), True "
            f"for a bar, or False for none"
        )
    elif wanted and is_leader():
        from maxfl.runs.progress_bar import progress_bar

        with progress_bar() as report:
            yield report
    else:
        yield None


def train(trainer: Trainer, progress: Progress | None = None) -> Trained:
    """Train from the start to the end, without checkpoints."""
    _warn_of_small_clients(trainer.session)
    with trainer.compiling():
        state, prepared = trainer.start(), trainer.prepare(progress)
    rounds = trainer.session.experiment.training.rounds
    diagnosis = diagnose(trainer, prepared)
    blocks: list[Block] = []
    for now, block in trainer.blocks(prepared, state):
        state = now
        blocks.append(block)
        diagnosis.warn(block)
        if progress:
            progress("rounds", int(block.rounds[-1]), rounds)
    return Trained(finished_history(trainer, prepared, blocks, state, diagnosis), blocks)


def _warn_of_small_clients(session: Session) -> None:
    """Say which clients judge by their training data, as the summary of a run does."""
    federation = session.experiment.federation
    small = judges_by_training(federation, session.requirement.judging)
    if small.any():
        warnings.warn(small_words(federation, small), TrainingWarning, stacklevel=4)


def finished_history(
    trainer: Trainer,
    prepared: Prepared,
    blocks: Iterable[Block],
    state: State,
    diagnosis: Diagnosis,
) -> History:
    """Put the blocks of a whole run together, with what went wrong in it.

    Warns if all clients left, and says what would have kept them.
    """
    history = trainer.history(prepared, blocks, state)
    left = departures(history, trainer.session.experiment)
    if said := [finding.text for found in left for finding in found]:
        among = f"{len(said)} of {len(left)} configurations: " if len(left) > 1 else ""
        warnings.warn(f"{among}{said[0]}", TrainingWarning, stacklevel=4)
    findings = [[*found, *more] for found, more in zip(diagnosis.findings(), left, strict=True)]
    return history._replace(origin=trainer.origin._replace(findings=findings))


def diagnose(trainer: Trainer, prepared: Prepared) -> Diagnosis:
    """Return what follows a run and says what goes wrong in it."""
    return Diagnosis(
        trainer.session, trainer.eval_federation, trainer.is_byzantine,
        prepared.solo.judging_loss, prepared.thresholds.judging,
    )  # fmt: skip


def schedule(training: Training) -> list[list[tuple[int, int]]]:
    """Cut a run into blocks of periods (rounds done before, rounds to do); the first does none."""
    total, every = training.rounds, training.evaluate_every
    starts = range(0, total, every)
    periods = [(0, 0)] + [(begin, min(every, total - begin)) for begin in starts]
    size = min(max(1, training.checkpoint_every // every), len(periods))
    blocks = [periods[i : i + size] for i in range(0, len(periods), size)]
    blocks[-1] += [(total, SKIP)] * (size - len(blocks[-1]))
    return blocks


def solo_requirements(
    session: Session,
    federation: Federation,
    data: Callable[[], Data],
    client_ids: Any,
    progress: Progress | None,
    solo_cache: SoloCache | None,
) -> Prepared:
    """Let the clients of a federation train alone, and derive their requirements.

    Solo models depend on the federation, the seed and the requirement, but on no method and, by
    default, on no number of the training. ``solo_cache`` holds those of earlier simulations and
    gains those of this one, so that none is trained twice.

    Args:
        session: The experiment on its devices.
        federation: The clients.
        data: Gives their data on the devices, if somebody must train.
        client_ids: Of the clients, int32[K]; None where they are all there are.
        progress: Called with ("solo training", done, total).
        solo_cache: Shared between runs.
    """
    for why in session.moving_requirements:
        warnings.warn(why, TrainingWarning, stacklevel=5)
    whole = session.experiment.federation
    for why in session.requirement.training.wasteful_batches(whole.train_sizes, whole.names):
        warnings.warn(why, SpeedWarning, stacklevel=5)
    solo_cache = SoloCache() if solo_cache is None else solo_cache
    spec = session.solo_spec
    shared = federation.digest(), spec.model, spec.local_optimizer, spec.criterion
    everyone = np.arange(federation.clients)
    ways = [session.one_by_one(way) for way in session.solo_ways]

    def key(one: SoloHParams) -> tuple[Any, ...]:
        return (*shared, *(float(leaf[0]) for leaf in jax.tree.leaves(one)))

    keys = {key(one) for way in ways for one in way}

    def train(one: SoloHParams) -> Solo:
        return train_clients(spec, data(), one, everyone, client_ids, next(shown))

    def trained(one: SoloHParams) -> Solo:
        return solo_cache.get(key(one), partial(train, one))

    with solo_cache.lock:
        shown = _each_of(progress, sum(key not in solo_cache for key in keys))
        found = [
            best_solo(spec.criterion, [trained(way[c]) for way in ways])
            for c in range(session.configurations)
        ]
    solo = jax.tree.map(lambda *parts: np.stack(parts), *found)
    return Prepared(solo, requirements(session, federation, solo, client_ids))


def _each_of(progress: Progress | None, tasks: int) -> Iterator[Progress | None]:
    """Yield for each of some trainings what shows how far all of them are."""

    def show(before: int, stage: str, done: int, total: int) -> None:
        if progress:
            progress(stage, before * total + done, tasks * total)

    return (partial(show, before) for before in range(tasks))


def requirements(
    session: Session, federation: Federation, solo: Solo, client_ids: Any = None
) -> Thresholds:
    """Derive the requirements of a federation from solo results, [C, K] each.

    ``client_ids`` are its clients' among all, where these are more.
    """
    criterion, count = session.spec.criterion, session.configurations
    return thresholds(session.requirement, criterion, federation, solo, count, client_ids)


def put_data(session: Session, federation: Federation) -> Data:
    """Put the samples of a federation on every device."""
    judging = () if federation.judging is None else federation.judging
    scaling = compiled_scaling(federation.input_scaling, federation.train.x)
    arrays = Data(federation.train, federation.test, scaling, (), judging)
    return session.replicate(arrays)._replace(frozen=session.frozen)


def finite_start(session: Session) -> State:
    """Return the state before the first round, or say that the model's ``init`` is wrong."""
    state = session.init_state()
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.server.params)):
        raise InputError("model.init gives parameters that are NaN or infinite: correct it")
    return state


def collect_history(
    trainer: Trainer, prepared: Prepared, blocks: Iterable[Block], state: State
) -> History:
    """Put the blocks of a run together, for the clients that evaluate the model."""
    session, blocks = trainer.session, list(blocks)
    evaluation, cohorts, steps = jax.tree.map(
        lambda *parts: np.concatenate(parts, axis=1),
        *((b.evaluation, b.cohorts, b.steps) for b in blocks),
    )
    return History(
        rounds=np.concatenate([b.rounds for b in blocks]),
        is_seen=trainer.eval_federation.is_seen,
        evaluation=evaluation,
        cohorts=cohorts,
        solo=prepared.solo,
        thresholds=prepared.thresholds,
        is_byzantine=trainer.is_byzantine,
        params=session.narrow(session.fetch(state.server.params)),
        steps=steps,
        metric_infos=session.metric_infos,
        criterion=session.spec.criterion,
        judge=session.requirement.judging.data,
        origin=trainer.origin,
    )


def snapshot_like(session: Session, state: State, blocks: int, counts: Any = ()) -> Snapshot:
    """Return the structure of a snapshot with such a state after so many blocks."""
    leaf: Any = 0
    metrics = (leaf,) * len(session.metric_infos)
    decides = () if session.spec.criterion.metric is None else leaf
    personal = Personal(leaf, leaf, metrics, decides) if session.spec.has_personal_models else ()
    picked = leaf if session.spec.has_portfolio else ()
    evaluation = Evaluation(leaf, leaf, metrics, leaf, leaf, personal, decides, picked)
    cohorts = CohortRecord(leaf, leaf, leaf, leaf, picked)
    prepared = Prepared(Solo(0, 0, metrics, decides), Thresholds(0, 0))
    block = Block(0, evaluation, cohorts, ModelStep(leaf, leaf), counts)
    return Snapshot(prepared, state, [block] * blocks)
