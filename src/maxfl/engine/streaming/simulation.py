"""Train a federation whose data stay on disk: a cohort at a time is in memory.

The next cohort is read while the last one trains; client states are in a file beside it; the model
is evaluated by clients whose data are in memory.
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxfl.core.aggregators import Aggregator
from maxfl.core.algorithm import Algorithm
from maxfl.core.attacks import Attack
from maxfl.core.federation import Federation, Samples
from maxfl.core.local_optimizers import LocalOptimizer
from maxfl.core.model import Model
from maxfl.core.participation import Participation
from maxfl.core.portfolio import Portfolio
from maxfl.core.requirements.requirement import Requirement, Solo, Thresholds
from maxfl.core.schedules import Schedule
from maxfl.core.server_optimizers import ServerOptimizer
from maxfl.engine.client_state import ClientStates, rows_needed
from maxfl.engine.experiment import Origin, Training, make_experiment, origin_of
from maxfl.engine.history import History
from maxfl.engine.programs import SKIP
from maxfl.engine.resources import Resources, results_bytes, state_bytes
from maxfl.engine.session import Session
from maxfl.engine.solo import SoloCache
from maxfl.engine.state import (
    Block,
    CohortRecord,
    Data,
    Evaluation,
    ModelStep,
    RoundCounts,
    RoundRecord,
    State,
    Sweep,
)
from maxfl.engine.streaming.client_state_file import NO_ROWS, ClientStateFile, StoredRows
from maxfl.engine.streaming.cohort_reader import CohortData, CohortReader
from maxfl.engine.streaming.cohort_selection import CohortSelection
from maxfl.engine.streaming.eval_clients import by_slot, draw_eval_clients, read_eval_clients
from maxfl.engine.streaming.programs import evaluate_clients, run_cohort
from maxfl.engine.streaming.validation import validate_streaming
from maxfl.engine.trainer import (
    Prepared,
    Progress,
    Snapshot,
    collect_history,
    finite_start,
    put_data,
    requirements,
    schedule,
    snapshot_like,
    solo_requirements,
)
from maxfl.engine.validation import validate
from maxfl.utils.display import html_table, one_line
from maxfl.utils.errors import check_count
from maxfl.utils.paths import CLIENT_STATES

EVAL_CLIENTS = 1000
"""Clients of each kind, seen and unseen, that evaluate the model, if there are as many."""
TO_LOWER = (
    "training.cohort, training.batch_size or the model's size",
    "eval_clients (data.eval_clients)",
)


class ClientRecords(NamedTuple):
    """What is known of clients between rounds; in a state, in the place of their states.

    Attributes:
        rows: Where on disk each client's state is.
        client_ids: Clients whose requirement is known, int32[n].
        requirement: ρ of each of them, float32[n].
    """

    rows: StoredRows
    client_ids: Any
    requirement: Any


class StreamingSimulation:
    """A federation whose data stay on disk, ready to be trained with one configuration.

    Args:
        federation: The clients; its samples may be mapped files.
        model: What is trained.
        algorithm: The method.
        training: Rounds, steps and rates.
        eval_clients: Seen clients, and unseen ones, that evaluate the model; drawn once.
        max_candidates: For opt-out: most clients that are shown the model in a round, until enough
            are willing. With as many as there are, the rule is that of a simulation.
        devices: By default all of JAX's.
        max_parallel: Most clients vectorised on one device.

    The other arguments are those of ``Simulation``, which explains them.
    """

    def __init__(
        self,
        federation: Federation,
        model: Model,
        algorithm: Algorithm,
        training: Training | None = None,
        *,
        requirement: Requirement | None = None,
        participation: Participation | None = None,
        server_optimizer: ServerOptimizer | None = None,
        local_optimizer: LocalOptimizer | None = None,
        local_schedule: Schedule | None = None,
        server_schedule: Schedule | None = None,
        portfolio: Portfolio | None = None,
        aggregator: Aggregator | None = None,
        attack: Attack | None = None,
        finetune_steps: ArrayLike = 0,
        seed: ArrayLike = 0,
        eval_clients: int = EVAL_CLIENTS,
        max_candidates: int | None = None,
        devices: list[Any] | None = None,
        max_parallel: int | None = None,
    ) -> None:
        check_count("eval_clients", eval_clients, least=1)
        experiment = make_experiment(
            federation, model, algorithm, training,
            requirement=requirement, participation=participation,
            server_optimizer=server_optimizer, local_optimizer=local_optimizer,
            local_schedule=local_schedule, server_schedule=server_schedule,
            portfolio=portfolio,
            aggregator=aggregator, attack=attack, finetune_steps=finetune_steps, seed=seed,
        )  # fmt: skip
        validate(experiment)
        seed = int(np.ravel(experiment.seed)[0])
        self.eval_clients = draw_eval_clients(federation, eval_clients, seed)
        in_memory = _largest_in_memory(federation, experiment.training.cohort, self.eval_clients)
        self.session = Session(experiment, in_memory, devices, max_parallel)
        self._settings = {"eval_clients": eval_clients, "max_candidates": max_candidates}
        self._init_client = jax.jit(algorithm.init_client)
        self._client_state = jax.eval_shape(
            lambda many: algorithm.init_client(jax.tree.map(lambda a: a[0], many)),
            self.session.state_shape().server.params,
        )
        self._has_states = bool(jax.tree.leaves(self._client_state))
        validate_streaming(self.session, max_candidates, keeps_client_states=self._has_states)
        self._reader = CohortReader(self.session)
        self._selection = CohortSelection(self.session, self._reader, int(max_candidates or 0))

    @cached_property
    def eval_federation(self) -> Federation:
        """The evaluation clients, in memory."""
        session = self.session
        whole, judging = session.experiment.federation, session.requirement.judging
        return read_eval_clients(whole, self.eval_clients, judging)

    @property
    def is_byzantine(self) -> Any:
        """Which of them are Byzantine, bool[1, P]."""
        return self.session.narrow(self.session.is_byzantine)[:, self.eval_clients]

    @cached_property
    def resources(self) -> Resources:
        """What the run takes: in its folder two states, and rows of all that participate.

        If all that are sampled do, M (1 − (1 − m/M)^R) clients have a row in the end, and those of
        a block have two.
        """
        session, spec = self.session, self.session.spec
        training, seen = session.experiment.training, session.spec.seen
        server, row = state_bytes(session.state_shape(), 1, rows_needed(spec.cohort, seen))
        known = 8 * seen if self._reader.needs_solo else 0
        measured = results_bytes(
            session.experiment, 1, self.eval_federation.clients, personal=False
        )
        least = 2 * (server + known) + measured
        participants = seen * (1 - (1 - training.cohort / seen) ** training.rounds)
        block = max(training.checkpoint_every, training.evaluate_every)
        rows = int(participants) + block * training.cohort
        most = least + rows * (row + 12 if self._has_states else 0)
        return Resources(session.programs, (least, most, server + measured // 2), TO_LOWER)

    @cached_property
    def origin(self) -> Origin:
        """What a history of this simulation is of: its evaluation clients."""
        experiment = self.session.experiment
        return origin_of(experiment, self.eval_federation, 1, streaming=self._settings)

    def __repr__(self) -> str:
        """Return a line that says what is trained how."""
        return one_line("StreamingSimulation", self.session.words)

    def _repr_html_(self) -> str:
        """Return a small table for notebooks."""
        return html_table("StreamingSimulation", self.session.rows)

    def describe(self) -> dict[str, Any]:
        """Return everything that a result depends on, as plain data."""
        return {**self.session.experiment.describe(), "streaming": self._settings}

    @contextmanager
    def open(self, folder: Path, progress: Progress | None = None) -> Iterator[None]:
        """Keep client states in a folder, and read ahead, as long as the run goes on."""
        self._progress = progress or (lambda *_: None)
        folder.mkdir(parents=True, exist_ok=True)
        like = jax.tree.map(lambda a: np.zeros(a.shape, a.dtype), self._client_state)
        self._states = ClientStateFile(folder / CLIENT_STATES, like, self.session.spec.seen)
        try:
            with self._reader.reading():
                yield
        finally:
            self._states.close()

    def requirements(self, solo: Solo) -> Thresholds:
        """Derive the requirements from solo results, [1, P] each."""
        return requirements(self.session, self.eval_federation, solo, self.eval_clients)

    def prepare(
        self, progress: Progress | None = None, solo_cache: SoloCache | None = None
    ) -> Prepared:
        """Let the evaluation clients train alone, and derive their requirements."""
        return solo_requirements(
            self.session, self.eval_federation, lambda: self._data,
            self.eval_clients.astype(np.int32), progress, solo_cache,
        )  # fmt: skip

    def start(self) -> State:
        """Return the state before the first round."""
        nobody = np.zeros(0, np.int32)
        records: Any = ClientRecords(NO_ROWS, nobody, np.zeros(0, np.float32))
        return finite_start(self.session)._replace(client_states=records)

    def compiling(self) -> AbstractContextManager[Any]:
        """Compile nothing in advance: the programs' shapes are those of the cohorts that come."""
        return nullcontext()

    def blocks(
        self, prepared: Prepared, state: State, done: int = 0
    ) -> Iterator[tuple[State, Block]]:
        """Train from the state after ``done`` blocks, giving state and results of each block."""
        training = self.session.experiment.training
        state, plan = self._take_up(state), schedule(training)[done:]
        rounds = training.rounds
        coming = self._reader.read_ahead(plan[0][0][0]) if plan else None
        for periods in plan:
            evaluations, log, at = [], [], []
            for begin, count in periods:
                if count == SKIP:
                    continue
                for round_ in range(begin, begin + count):
                    cohort = self._reader.learn(coming.result())  # type: ignore[union-attr]
                    later = round_ + 1
                    coming = self._reader.read_ahead(later) if later < rounds else None
                    state, record, counts = self._round(round_, cohort, state)
                    log.append((record, counts))
                    self._progress("rounds", later, rounds)
                evaluations.append(self._evaluate(prepared, state, begin + count))
                at.append(begin + count)
            yield state._replace(client_states=self._records()), self._block(at, evaluations, log)
            self._states.saved()

    def history(self, prepared: Prepared, blocks: Iterable[Block], state: State) -> History:
        """Put the blocks of a run together: what evaluation clients saw, and counts of all."""
        blocks = [b._replace(cohorts=by_slot(self.eval_clients, b.cohorts)) for b in blocks]
        whole = collect_history(self, prepared, blocks, state)
        counts = jax.tree.map(lambda *parts: np.concatenate(parts, 1), *(b.counts for b in blocks))
        return whole._replace(counts=counts)

    def like(self, blocks: int) -> Snapshot:
        """Return the structure of a snapshot after so many blocks."""
        records: Any = ClientRecords(StoredRows(0, 0, 0), 0, 0)
        state = self.session.state_shape()._replace(client_states=records)
        return snapshot_like(self.session, state, blocks, RoundCounts(0, 0, 0))

    @cached_property
    def _data(self) -> Data:
        """The samples of the evaluation clients, on every device."""
        return put_data(self.session, self.eval_federation)

    def _block(self, at: list[int], evaluations: list[Evaluation], log: list[Any]) -> Block:
        """Put a block's results together, on the host."""
        stack = partial(jax.tree.map, lambda *rows: np.stack([np.asarray(r) for r in rows], 1))
        if not log:  # a first block may have no rounds
            slots: Any = np.zeros((1, 0, self.session.spec.cohort))
            none, no = np.zeros((1, 0), np.int32), slots.astype(bool)
            model: Any = slots.astype(np.int32) if self.session.spec.has_portfolio else ()
            empty = CohortRecord(slots.astype(np.int32), no, no, slots.astype(np.float32), model)
            still = ModelStep(*(none.astype(np.float32) for _ in ModelStep._fields))
            counts = RoundCounts(none, none, none)
            return Block(np.array(at), stack(*evaluations), empty, still, counts)
        (cohorts, steps), counts = stack(*log)
        return Block(np.array(at), stack(*evaluations), cohorts, steps, counts)

    def _take_up(self, state: State) -> State:
        """Go on from what is known of clients; the rest as the program returns it."""
        records: Any = state.client_states
        self._states.restore(records.rows)
        self._reader.restore(records.client_ids, records.requirement)
        # Laid out as the program returns it, or the second round would compile the program anew.
        return self.session.spread(state._replace(client_states=_ON_DISK))

    def _records(self) -> Any:
        return ClientRecords(self._states.save(), *self._reader.save())

    def _round(
        self, round_: int, cohort: CohortData, state: State
    ) -> tuple[State, RoundRecord, RoundCounts]:
        """Select a cohort, train it from the state so far, and keep what its clients keep."""
        session = self.session
        selected = self._selection.select(round_, cohort, state)
        cohort, client_ids = selected.cohort, selected.cohort.client_ids
        params = jax.tree.map(lambda a: a[0], state.server.params)
        rows = self._states.read(client_ids, self._init_client(params)) if self._has_states else ()
        # Every client of the cohort has a row, its slot.
        slots: Any = np.arange(1, len(client_ids) + 1)
        used: Any = np.int32(len(client_ids))
        states = jax.tree.map(lambda a: np.asarray(a)[None], ClientStates(slots, used, rows))
        sweep = Sweep(
            session.hparams, cohort.requirement, session.is_byzantine,
            state._replace(client_states=states),
        )  # fmt: skip
        state, record = run_cohort(
            session.spec, cohort.data, client_ids.astype(np.int32), sweep, np.int32(round_),
            selected.sampled, selected.measured,
        )  # fmt: skip
        if self._has_states:
            participated = np.asarray(record.cohort.participated[0])
            renewed = jax.tree.map(
                lambda a: np.asarray(a[0])[participated], state.client_states.rows
            )
            self._states.write(client_ids[participated], renewed)
        counts = self._selection.count(round_, selected, record.cohort)
        return state._replace(client_states=_ON_DISK), record, counts

    def _evaluate(self, prepared: Prepared, state: State, done: int) -> Evaluation:
        session = self.session
        rho = session.spec.criterion.bound(prepared.thresholds.judging)
        sweep = Sweep(session.hparams, rho, session.is_byzantine, state)
        client_ids = self.eval_clients.astype(np.int32)
        return evaluate_clients(session.spec, self._data, client_ids, sweep, np.int32(done))


def _largest_in_memory(
    whole: Federation, cohort: int, eval_clients: NDArray[np.int64]
) -> Federation:
    """Return shapes of the largest cohorts read at a time, and of the evaluation clients."""
    clients = 2 * cohort + len(eval_clients)

    def samples(total: int) -> Samples:
        shapes = (total, *whole.train.x.shape[1:]), (total,), (clients + 1,)
        types = whole.train.x.dtype, np.int32, np.int32
        return Samples(*map(jax.ShapeDtypeStruct, shapes, types))

    def read(part: Samples) -> Samples:
        sizes = np.diff(part.offsets)
        largest = int(np.sort(sizes[: whole.seen])[-cohort:].sum())
        return samples(4 * largest + int(sizes[eval_clients].sum()))

    return whole._replace(
        train=read(whole.train),
        judging=None if whole.judging is None else read(whole.judging),
        test=samples(int(whole.test_sizes[eval_clients].sum())),
        seen=cohort,
    )


_ON_DISK: Any = ()
"""Client states between rounds."""
