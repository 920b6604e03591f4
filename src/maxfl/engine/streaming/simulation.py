"""Federations larger than memory: a round at a time, with the cohort's data alone.

The rounds are the engine's own, with the same draws: whatever fits into memory gives the same model
either way. The next cohort is read while the last one trains; what clients keep is on disk; and a
panel of clients, which stays in memory, says how the model does.
"""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from maxfl.core.algorithm import Algorithm
from maxfl.core.federation import Federation, Samples
from maxfl.core.model import Model
from maxfl.core.participation import Rule
from maxfl.distributed.processes import several
from maxfl.engine.blocks import Block, block_plans
from maxfl.engine.client_state import Memory
from maxfl.engine.experiment import Training
from maxfl.engine.history import History, Survey
from maxfl.engine.layout import SWEEP
from maxfl.engine.programs import SKIP, look, run_cohort
from maxfl.engine.resources import Footprint, footprint
from maxfl.engine.shortage import told_if_out_of_memory
from maxfl.engine.simulation import Prepared, Progress, Simulation
from maxfl.engine.spec import Asked, Evaluation, State
from maxfl.engine.streaming.client_state_file import NO_ROWS, ClientStore, Stored
from maxfl.engine.streaming.cohort_reader import Window, Windows
from maxfl.engine.streaming.cohort_selection import gather, survey
from maxfl.engine.streaming.eval_clients import by_place, draw_panel, read_panel
from maxfl.utils.disk_space import told_if_full
from maxfl.utils.errors import InputError, check_count

PANEL = 1000
"""Clients of each kind, seen and unseen, that judge the model, if there are as many."""
STORE = "memory.bin"
ROOM = "give stream() a folder on a larger disk, or lower training.rounds or training.cohort"


class Streamed(NamedTuple):
    """What happened.

    Attributes:
        panel: Numbers of the clients that judged the model, int[P]; the history is theirs.
        history: As of a simulation, of the panel; its ``survey`` counts all clients.
        asked: Who was asked to train in each round, by number, [1, T, m] each.
    """

    panel: NDArray[np.int64]
    history: History
    asked: Asked


class Kept(NamedTuple):
    """What is known of clients between rounds; in the state, it takes the place of their memory.

    Attributes:
        rows: Where on disk each client's memory is.
        client: Clients whose requirement is known, int32[n].
        requirement: ρ of each of them, float32[n].
    """

    rows: Stored
    client: Any
    requirement: Any


def stream(
    federation: Federation,
    model: Model,
    algorithm: Algorithm,
    training: Training | None = None,
    *,
    folder: str | Path | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Streamed:
    """Train a federation whose data stay on disk (``maxfl.disk.open_federation``).

    For a run that survives a kill, take ``maxfl.run(StreamingSimulation(...), folder)``.

    Args:
        federation: The clients; its samples may be mapped files.
        model: What is trained.
        algorithm: The method.
        training: Rounds, steps and rates.
        folder: Where a temporary folder is made for what clients keep; by default the system's.
        progress: Called with (stage, done, total).
        options: Of ``StreamingSimulation``.
    """
    own = StreamingSimulation(federation, model, algorithm, training, **options)
    with (
        tempfile.TemporaryDirectory(dir=folder) as place,
        told_if_full(Path(place), "what clients keep", own.folder_bytes, ROOM),
        told_if_out_of_memory(own),
        own.working_in(Path(place), progress),
    ):
        prepared, state, blocks = own.prepare(progress), own.start(), []
        for now, block in own.blocks(prepared, state):
            state = now
            blocks.append(block)
    return Streamed(own.panel, own.history(prepared, blocks, state), all_asked(blocks))


class StreamingSimulation(Simulation):
    """A simulation whose data stay on disk, for one configuration.

    Args:
        federation: The clients; its samples may be mapped files.
        model: What is trained.
        algorithm: The method.
        training: Rounds, steps and rates.
        panel: Seen clients, and unseen ones, that judge the model; drawn once.
        ask: For opt-out: most clients that are shown the model in a round, until enough are
            willing. With as many as there are, the rule is that of a simulation.
        options: Of ``Simulation``.
    """

    def __init__(
        self,
        federation: Federation,
        model: Model,
        algorithm: Algorithm,
        training: Training | None = None,
        *,
        panel: int = PANEL,
        ask: int | None = None,
        **options: Any,
    ) -> None:
        check_count("panel", panel, least=1)
        self._panel_size, self._ask = panel, ask
        super().__init__(federation, model, algorithm, training, **options)
        self._check()
        self._fresh = jax.jit(self.spec.algorithm.memory)
        self._like = jax.eval_shape(
            lambda many: self.spec.algorithm.memory(jax.tree.map(lambda a: a[0], many)),
            self._start_shape().server.params,
        )
        self._keeps = bool(jax.tree.leaves(self._like))
        self._windows = Windows(self)

    def _check(self) -> None:
        if several():
            raise InputError(
                "a federation on disk is one process's work: run it without --coordinator and "
                "--distributed (maxfl.join)"
            )
        if self.configurations > 1:
            raise InputError("a stream has one configuration: run a sweep's one after another")
        if self.personal:
            raise InputError(
                "personal and tuned models are not measured in a stream yet: take a method without "
                "them and tuning = 0, or a federation in memory"
            )
        if self.plan.requirement.rule is not None:
            raise InputError("a rule of your own wants all clients at once: take solo() or fixed()")
        opts_out = self.plan.participation.rule is Rule.OPT_OUT
        if opts_out and self._ask is None:
            raise InputError(
                "opt-out would ask every client in every round, and so read all data: say how many "
                "to ask at most (ask = 5000, or participation.ask), or take the rule decline, by "
                "which clients refuse when they are asked"
            )
        if self._ask is not None:
            check_count("ask", self._ask, least=1)
            if self._ask < self.training.cohort:
                raise InputError(
                    f"ask = {self._ask} (participation.ask): want at least the cohort, "
                    f"{self.training.cohort} (training.cohort)"
                )
            if not opts_out:
                raise InputError("ask is for opt-out: by another rule, leave it out")

    @cached_property
    def panel(self) -> NDArray[np.int64]:
        """Numbers of the clients that judge the model, in order, int[P]."""
        seed = int(np.ravel(self.plan.seed)[0])
        return draw_panel(self.federation, self._panel_size, seed)

    @cached_property
    def shown(self) -> Federation:
        """The panel, in memory."""
        return read_panel(self.federation, self.panel)

    @property
    def _names(self) -> Any:
        return self.panel.astype(np.int32)

    @cached_property
    def footprint(self) -> Footprint:
        """Memory for the cohorts that are read at a time, and the panel, predicted from shapes."""
        whole, _, algorithm, training, *_ = self.plan
        sizes = np.sort(whole.train_sizes[: whole.seen])[-training.cohort :]
        clients = 2 * training.cohort + len(self.panel)
        panel = (int(own[self.panel].sum()) for own in (whole.train_sizes, whole.test_sizes))
        rows = np.add((4 * int(sizes.sum()), 0), tuple(panel)).tolist()

        def samples(total: int) -> Samples:
            shapes = (total, *whole.train.x.shape[1:]), (total,), (clients + 1,)
            types = whole.train.x.dtype, np.int32, np.int32
            return Samples(*map(jax.ShapeDtypeStruct, shapes, types))

        at_work = whole._replace(
            train=samples(rows[0]), test=samples(rows[1]), seen=training.cohort
        )
        batch_size = int(np.max(training.batch_size))
        return footprint(
            at_work, self.plan.model, algorithm, batch_size, self._looks, self._rows, self._gathered
        )

    @property
    def memory_settings(self) -> list[str]:
        """What to lower where memory is short."""
        return ["training.cohort, training.batch_size or the model's size", "panel (data.panel)"]

    @property
    def folder_bytes(self) -> int:
        """Bytes that a run will take in its folder, if all that are asked take part.

        Then M (1 − (1 − m/M)^T) clients have a row in the end, and those of a block have two.
        """
        training, seen = self.training, self.spec.seen
        taking_part = seen * (1 - (1 - training.cohort / seen) ** training.rounds)
        rows = int(taking_part) + max(training.block, training.evaluate_every) * training.cohort
        return self.least_folder_bytes + rows * (self._state_bytes[1] + 12 if self._keeps else 0)

    @property
    def least_folder_bytes(self) -> int:
        """The same if nobody does."""
        requirements = 8 * self.spec.seen if self._windows.requires else 0
        return 2 * (self._state_bytes[0] + requirements) + self._measured_bytes

    def describe(self) -> dict[str, Any]:
        """Everything that a result depends on, as plain data."""
        return {**super().describe(), "stream": {"panel": self._panel_size, "ask": self._ask}}

    @contextmanager
    def working_in(self, folder: Path, progress: Progress | None = None) -> Iterator[None]:
        """Keep clients' memory in a folder, and read ahead, as long as the run goes on."""
        self._progress = progress or (lambda *_: None)
        folder.mkdir(parents=True, exist_ok=True)
        like = jax.tree.map(lambda a: np.zeros(a.shape, a.dtype), self._like)
        self._store = ClientStore(folder / STORE, like, self.federation.seen)
        try:
            with self._windows.reading():
                yield
        finally:
            self._store.close()

    def start(self) -> State:
        """State before the first round."""
        nobody = np.zeros(0, np.int32)
        kept: Any = Kept(NO_ROWS, nobody, np.zeros(0, np.float32))
        return super().start()._replace(memory=kept)

    def state_shape(self) -> State:
        """What a state has."""
        kept: Any = Kept(Stored(0, 0, 0), 0, 0)
        return super().state_shape()._replace(memory=kept)

    def survey_shape(self) -> Any:
        """What a block's survey has."""
        return Survey(0, 0, 0)

    def blocks(
        self, prepared: Prepared, state: State, done: int = 0
    ) -> Iterator[tuple[State, Block]]:
        """Train from the state after ``done`` blocks, giving state and results of each block."""
        state, plans = self._take_up(state), block_plans(self.training)[done:]
        rounds = self.training.rounds
        coming = self._windows.ahead(plans[0][0][0]) if plans else None
        for plan in plans:
            looks, log, at = [], [], []
            for begin, count in plan:
                if count == SKIP:
                    continue
                for round_ in range(begin, begin + count):
                    window = self._windows.learn(coming.result())  # type: ignore[union-attr]
                    coming = self._windows.ahead(round_ + 1) if round_ + 1 < rounds else None
                    state, *answers = self._round(round_, window, state)
                    log.append(tuple(answers))
                    self._progress("rounds", round_ + 1, rounds)
                looks.append(self._look(prepared, state, begin + count))
                at.append(begin + count)
            yield state._replace(memory=self._kept()), self._packed(at, looks, log)
            self._store.saved()

    def _packed(self, at: list[int], looks: list[Evaluation], log: list[Any]) -> Block:
        """A block's results, on the host."""
        stack = partial(jax.tree.map, lambda *rows: np.stack([np.asarray(r) for r in rows], 1))
        if not log:  # a first block may have no rounds
            slots: Any = np.zeros((1, 0, self.training.cohort))
            none = np.zeros((1, 0), np.int32)
            no = slots.astype(bool)
            asked = Asked(slots.astype(np.int32), no, no, slots.astype(np.float32))
            return Block(np.array(at), stack(*looks), asked, Survey(none, none, none))
        return Block(np.array(at), stack(*looks), *stack(*log))

    def history(self, prepared: Prepared, blocks: Iterable[Block], state: State) -> History:
        """Put the blocks of a run together: what the panel saw, and the survey of all."""
        blocks = [b._replace(asked=by_place(self.panel, b.asked)) for b in blocks]
        whole = super().history(prepared, blocks, state)
        counts = jax.tree.map(lambda *parts: np.concatenate(parts, 1), *(b.survey for b in blocks))
        return whole._replace(
            is_seen=self.shown.is_seen, lies=whole.lies[:, self.panel], survey=counts
        )

    def _take_up(self, state: State) -> State:
        """Go on from what is known of clients; the rest as the program returns it."""
        kept: Any = state.memory
        self._store.restore(kept.rows)
        self._windows.remember(kept.client, kept.requirement)
        # Laid out as the program returns it, or the second round would compile the program anew.
        where = jax.sharding.NamedSharding(self.spec.layout.mesh, jax.sharding.PartitionSpec(SWEEP))
        return jax.device_put(state._replace(memory=_NO_MEMORY), where)

    def _kept(self) -> Any:
        return Kept(self._store.save(), *self._windows.remembered())

    def _round(self, round_: int, window: Window, state: State) -> tuple[State, Asked, Survey]:
        """Gather a cohort, train it from the state so far, and keep what its clients keep."""
        gathered = gather(self, self._windows, int(self._ask or 0), round_, window, state)
        window, clients = gathered.window, gathered.window.clients
        params = jax.tree.map(lambda a: a[0], state.server.params)
        rows = self._store.read(clients, self._fresh(params)) if self._keeps else ()
        # Every client of the cohort has a row, its place.
        held = Memory(np.arange(1, len(clients) + 1), np.int32(len(clients)), rows)  # type: ignore[arg-type]
        memory = jax.tree.map(lambda a: np.asarray(a)[None], held)
        state, asked = run_cohort(
            self.spec, window.data, clients.astype(np.int32),
            (self.numbers, window.requirement, self.lies, state._replace(memory=memory)),
            np.int32(round_), gathered.sampled, gathered.losses,
        )  # fmt: skip
        if self._keeps:
            took_part = np.asarray(asked.took_part[0])
            kept = jax.tree.map(lambda a: np.asarray(a[0])[took_part], state.memory.rows)
            self._store.write(clients[took_part], kept)
        return state._replace(memory=_NO_MEMORY), asked, survey(self, round_, gathered, asked)

    def _look(self, prepared: Prepared, state: State, done: int) -> Evaluation:
        sweep = self.numbers, prepared.thresholds.train, self.lies, state
        return look(self.spec, self._data, self._names, sweep, np.int32(done))


def all_asked(blocks: Iterable[Block]) -> Asked:
    """Who was asked to train in each round, by number, [1, T, m] each."""
    return jax.tree.map(lambda *parts: np.concatenate(parts, 1), *(b.asked for b in blocks))


_NO_MEMORY: Any = ()
"""Between rounds it is on disk."""
