"""Federations larger than memory: a round at a time, with the cohort's data alone.

The rounds are the engine's own, with the same draws: whatever fits into memory gives the same model
either way. The next cohort is read while the last one trains; what clients keep is on disk; and a
panel of clients, which stays in memory, says how the model does.

By opt-out, candidates are shown the model in random order, as many at a time as a cohort has, until
enough are willing or so many as ``ask`` says were asked. The order is that of the engine's draw, so
the cohort is the one that would be drawn among all willing clients, if only enough are asked.
"""

import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from maxfl.algorithms.contract import Algorithm, Client, Cohort, Server, Total, Work
from maxfl.client_store import NO_ROWS, ClientStore, Rows
from maxfl.disk import read_clients
from maxfl.errors import InputError, check_count
from maxfl.federation import Federation, Samples
from maxfl.footprint import Footprint, footprint
from maxfl.history import History, Survey
from maxfl.layout import SWEEP
from maxfl.memory import Memory
from maxfl.model import Model
from maxfl.participation import Presence, Rule, answers, sample
from maxfl.plan import Training
from maxfl.processes import several
from maxfl.program import SKIP, ask, look, run_cohort
from maxfl.randomness import Purpose, key
from maxfl.requirement import thresholds
from maxfl.shortage import told_if_full, told_if_out_of_memory
from maxfl.simulation import Block, Prepared, Progress, Simulation
from maxfl.spec import Asked, Data, Evaluation, State

PANEL = 1000
"""Clients of each kind, seen and unseen, that judge the model, if there are as many."""
STORE = "memory.bin"
ROOM = "give stream() a folder on a larger disk, or lower training.rounds or training.cohort"
NOT_ASKED = -1.0
"""In place of a requirement; losses are not negative."""


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

    rows: Rows
    client: Any
    requirement: Any


class Window(NamedTuple):
    """Some clients, int[n], with their data on the devices and their requirement, [1, n]."""

    clients: NDArray[np.int64]
    data: Data
    requirement: Any


class Gathered(NamedTuple):
    """A cohort that can be trained.

    Attributes:
        window: m clients, of which some may be placeholders.
        sampled: Which of them are real, bool[m].
        losses: F_k(w), where clients were asked before, float32[m]; else ().
        answered: Honest clients that said whether they were willing; None where it shows later.
        willing: Those of them that were.
    """

    window: Window
    sampled: NDArray[np.bool_]
    losses: Any = ()
    answered: int | None = None
    willing: int = 0


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

    For a run that survives a kill, take ``maxfl.run(Stream(...), folder)``.

    Args:
        federation: The clients; its samples may be mapped files.
        model: What is trained.
        algorithm: The method.
        training: Rounds, steps and rates.
        folder: Where a temporary folder is made for what clients keep; by default the system's.
        progress: Called with (stage, done, total).
        options: Of ``Stream``.
    """
    own = Stream(federation, model, algorithm, training, **options)
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


class Stream(Simulation):
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
        one = jax.eval_shape(lambda: jax.tree.map(lambda a: a[0], self._start().server.params))
        self._fresh = jax.jit(self.spec.algorithm.memory)
        self._like = jax.eval_shape(self.spec.algorithm.memory, one)
        self._keeps = bool(jax.tree.leaves(self._like))
        self._known = np.zeros(0, np.float32)

    def _check(self) -> None:
        if several():
            raise InputError("a stream is one process's work: run it without maxfl.join()")
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
            check_count("ask", self._ask, least=self.training.cohort)
            if not opts_out:
                raise InputError("ask is for opt-out: by another rule, leave it out")

    @cached_property
    def panel(self) -> NDArray[np.int64]:
        """Numbers of the clients that judge the model, in order, int[P]."""
        rng = np.random.default_rng(int(np.ravel(self.plan.seed)[0]))
        groups = np.split(np.arange(self.federation.clients), [self.federation.seen])
        most = self._panel_size
        chosen = [rng.choice(group, min(most, len(group)), replace=False) for group in groups]
        return np.sort(np.concatenate(chosen))

    @cached_property
    def shown(self) -> Federation:
        """The panel, in memory."""
        whole, panel = self.federation, self.panel
        about = whole.about
        flipped = None if about.flipped is None else about.flipped[panel]
        note = f"judged by a panel of {len(panel)} of {whole.clients} clients"
        notes = (note,) if len(panel) < whole.clients else ()
        return whole._replace(
            train=read_clients(whole.train, panel),
            test=read_clients(whole.test, panel),
            seen=int((panel < whole.seen).sum()),
            about=about._replace(names=whole.names[panel], flipped=flipped,
                                 notes=(*about.notes, *notes)),
            known_digest=None,
        )  # fmt: skip

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
        return footprint(at_work, self.plan.model, algorithm, batch_size, self._looks, self._rows)

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
        requirements = 8 * self.spec.seen if self._wants_requirement else 0
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
            with ThreadPoolExecutor(1) as self._reader:
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
        kept: Any = Kept(Rows(0, 0, 0), 0, 0)
        return super().state_shape()._replace(memory=kept)

    def survey_shape(self) -> Any:
        """What a block's survey has."""
        return Survey(0, 0, 0)

    def blocks(
        self, prepared: Prepared, state: State, done: int = 0
    ) -> Iterator[tuple[State, Block]]:
        """Train from the state after ``done`` blocks, giving state and results of each block."""
        state, plans = self._take_up(state), self._plans()[done:]
        rounds = self.training.rounds
        coming = self._read_ahead(plans[0][0][0]) if plans else None
        for plan in plans:
            looks, log, at = [], [], []
            for begin, count in plan:
                if count == SKIP:
                    continue
                for round_ in range(begin, begin + count):
                    window = coming.result()  # type: ignore[union-attr]
                    self._learn(window)
                    coming = self._read_ahead(round_ + 1) if round_ + 1 < rounds else None
                    state, asked, survey = self._round(round_, window, state)
                    log.append((asked, survey))
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
        asked, survey = stack(*log)
        return Block(np.array(at), stack(*looks), asked, survey)

    def history(self, prepared: Prepared, blocks: Iterable[Block], state: State) -> History:
        """Put the blocks of a run together: what the panel saw, and the survey of all."""
        blocks = [b._replace(asked=self._of_panel(b.asked)) for b in blocks]
        whole = super().history(prepared, blocks, state)
        survey = jax.tree.map(lambda *parts: np.concatenate(parts, 1), *(b.survey for b in blocks))
        return whole._replace(
            is_seen=self.shown.is_seen, lies=whole.lies[:, self.panel], survey=survey
        )

    def _take_up(self, state: State) -> State:
        """Go on from what is known of clients; the rest as the program returns it."""
        kept: Any = state.memory
        self._store.restore(kept.rows)
        self._known = np.full(self.federation.seen, NOT_ASKED, np.float32)
        self._known[kept.client] = kept.requirement
        # Laid out as the program returns it, or the second round would compile the program anew.
        where = jax.sharding.NamedSharding(self.spec.layout.mesh, jax.sharding.PartitionSpec(SWEEP))
        return jax.device_put(state._replace(memory=_NO_MEMORY), where)

    def _kept(self) -> Any:
        client = np.flatnonzero(self._known != NOT_ASKED).astype(np.int32)
        return Kept(self._store.save(), client, self._known[client])

    @cached_property
    def _wants_requirement(self) -> bool:
        """Whether rounds depend on ρ at all, and it must be found by training alone."""
        params = self.spec.model.init(jax.random.key(0))
        return self.plan.requirement.loss is None and reads_requirement(
            self.spec.algorithm, self.numbers.hyper, params, self.spec.rule
        )

    def _learn(self, window: Window) -> None:
        """Remember what clients require, so that none trains alone twice."""
        if self._wants_requirement:
            self._known[window.clients] = window.requirement[0]

    def _candidates(self, round_: int, count: int) -> NDArray[np.int64]:
        """The first clients in the order of a round's draw: the engine's, if all are willing."""
        seed = jnp.uint32(self.numbers.seed[0])
        drawn = _draw(seed, jnp.int32(round_), self.federation.seen, count)
        return np.asarray(drawn, np.int64)

    def _read_ahead(self, round_: int) -> Future[Window]:
        """Read the clients that a round asks first, while something else is computed."""
        first = partial(self._candidates, round_, self.training.cohort)
        return self._reader.submit(lambda: self._window(first()))

    def _window(self, clients: NDArray[np.int64]) -> Window:
        train, decoding = self.federation.train, self.federation.decoding
        rows = int((train.offsets[clients + 1] - train.offsets[clients]).sum())
        # A power of two, so that few programs are compiled.
        own = read_clients(train, clients, 1 << max(rows - 1, 0).bit_length())
        data = self.everywhere(Data(own, self._no_samples(own, len(clients)), decoding))
        return Window(clients, data, self._requirement(clients, data))

    @staticmethod
    def _no_samples(like: Samples, clients: int) -> Samples:
        """A cohort's test data, which training does not look at: one sample of each client."""
        offsets = np.arange(clients + 1, dtype=np.int32)
        return Samples(like.x[:clients], like.y[:clients], offsets)

    def _requirement(self, clients: NDArray[np.int64], data: Data) -> Any:
        """ρ of some clients, float32[1, n]: by training alone, where rounds depend on it."""
        wanted = self.plan.requirement
        if not self._wants_requirement:
            loss = np.nan if wanted.loss is None else np.asarray(wanted.loss)
            return np.full((1, len(clients)), loss, np.float32)
        known = self._known[clients]
        if (new := np.flatnonzero(known == NOT_ASKED)).size:
            found = self._alone_at(new, 0, data, clients.astype(np.int32))
            alone = jax.tree.map(lambda a: a[None], found)
            known[new] = thresholds(wanted, _Count(len(new)), alone, 1).train[0]  # type: ignore[arg-type]
        return known[None]

    def _round(self, round_: int, window: Window, state: State) -> tuple[State, Asked, Survey]:
        """Gather a cohort, train it from the state so far, and keep what its clients keep."""
        gathered = self._gather(round_, window, state)
        window, clients = gathered.window, gathered.window.clients
        params = jax.tree.map(lambda a: a[0], state.server.params)
        rows = self._store.read(clients, self._fresh(params)) if self._keeps else ()
        # Every client of the cohort has a row, its place.
        held = Memory(np.arange(1, len(clients) + 1), np.int32(len(clients)), rows)  # type: ignore[arg-type]
        memory = jax.tree.map(lambda a: np.asarray(a)[None], held)
        state, asked = run_cohort(
            self.spec, window.data, clients.astype(np.int32), self.numbers, window.requirement,
            self.lies, state._replace(memory=memory), np.int32(round_), gathered.sampled,
            gathered.losses,
        )  # fmt: skip
        if self._keeps:
            took_part = np.asarray(asked.took_part[0])
            kept = jax.tree.map(lambda a: np.asarray(a[0])[took_part], state.memory.rows)
            self._store.write(clients[took_part], kept)
        survey = self._survey(round_, gathered, asked)
        return state._replace(memory=_NO_MEMORY), asked, survey

    def _gather(self, round_: int, window: Window, state: State) -> Gathered:
        """Those that are asked, or by opt-out the willing ones among as many as may be asked."""
        everybody = np.ones(self.spec.cohort, bool)
        if not self.spec.watches:
            return Gathered(window, everybody)
        order = self._candidates(round_, min(int(self._ask or 0), self.federation.seen))
        losses, wants = self._show(round_, window, state)
        for begin in range(len(losses), len(order), len(window.clients)):
            if wants.sum() >= self.spec.cohort:
                break
            more = self._window(order[begin : begin + len(window.clients)])
            self._learn(more)
            found = self._show(round_, more, state)
            losses, wants = np.append(losses, found[0]), np.append(wants, found[1])
        honest = ~self.lies[0, order[: len(losses)]]
        counts = int(honest.sum()), int((wants & honest).sum())
        # The willing ones in their order, then others, which take no part.
        first = np.argsort(~wants, kind="stable")[: self.spec.cohort]
        if not np.array_equal(first, np.arange(self.spec.cohort)):
            window = self._window(order[first])
        return Gathered(window, wants[first], losses[first], *counts)

    def _show(self, round_: int, window: Window, state: State) -> tuple[Any, Any]:
        """F_k(w) of a window's clients and whether they are willing, [n] each."""
        found = ask(
            self.spec, window.data, window.clients.astype(np.int32), self.numbers,
            window.requirement, self.lies, state, np.int32(round_),
        )  # fmt: skip
        loss, wants = (np.asarray(a)[0] for a in found)
        return loss, wants

    def _survey(self, round_: int, gathered: Gathered, asked: Asked) -> Survey:
        """Counts of honest clients, int32[1] each."""
        clients = gathered.window.clients
        honest = ~self.lies[0, clients]
        took_part = int((np.asarray(asked.took_part[0]) & honest).sum())
        answered, willing = gathered.answered, gathered.willing
        if answered is None:  # who answers when asked to train says so by taking part
            presence = jax.tree.map(lambda a: a[0], self.numbers.presence)
            heard = _answers(self.numbers.seed[0], round_, presence, clients)
            answered, willing = int((np.asarray(heard) & honest).sum()), took_part
        return Survey(*(np.array([n], np.int32) for n in (answered, willing, took_part)))

    def _look(self, prepared: Prepared, state: State, done: int) -> Evaluation:
        return look(
            self.spec, self._data, self._names, self.numbers, prepared.thresholds.train,
            self.lies, state, np.int32(done),
        )  # fmt: skip

    def _of_panel(self, asked: Asked) -> Asked:
        """The same by places in the panel; others were not asked, as far as it knows."""
        place: Any = np.minimum(np.searchsorted(self.panel, asked.client), len(self.panel) - 1)
        there = self.panel[place] == asked.client
        return Asked(place * there, asked.sampled & there, asked.took_part & there,
                     asked.weight * there)  # fmt: skip


def all_asked(blocks: Iterable[Block]) -> Asked:
    """Who was asked to train in each round, by number, [1, T, m] each."""
    return jax.tree.map(lambda *parts: np.concatenate(parts, 1), *(b.asked for b in blocks))


_NO_MEMORY: Any = ()
"""Between rounds it is on disk."""


class _Count(NamedTuple):
    """What of a federation the requirements depend on."""

    clients: int


@partial(jax.jit, static_argnums=(2, 3))
def _draw(seed: Any, round_: Any, seen: int, count: int) -> Any:
    client, _ = sample(key(seed, Purpose.SAMPLING, round_), jnp.ones(seen, bool), count)
    return client


@jax.jit
def _answers(seed: Any, round_: Any, presence: Presence, clients: Any) -> Any:
    return answers(key(seed, Purpose.UNAVAILABLE, round_), presence, clients)


def reads_requirement(algorithm: Algorithm, hyper: Any, params: Any, rule: Rule) -> bool:
    """Whether training depends on ρ_k at all; FedAvg's does not, and then nobody trains alone.

    A client with a loss of 1 is tried with a requirement that is met, and one that is not.
    """
    if rule is not Rule.EVERYONE:
        return True

    def all_of_it(rho: Any) -> Any:
        own = jax.tree.map(lambda a: a[0], hyper)
        server, one = Server(params, algorithm.init(params, 1)), jnp.float32(1)
        client = Client(jnp.int32(0), jnp.int32(1), one, one, rho)
        work = Work(lambda w, _: w, 1, one)
        weight = algorithm.weight(own, server, client)
        update, kept = algorithm.local(own, server, algorithm.memory(params), client, work)
        cohort = Cohort(*(jnp.asarray(a)[None] for a in (0, True, one, rho, weight)))
        return kept, algorithm.server(own, server, Total(update, weight), cohort)

    # Met exactly too: far from it a weight may have vanished on both sides.
    far, *others = (
        jax.tree.leaves(jax.jit(all_of_it)(jnp.float32(rho))) for rho in (0.5, 1.0, 3.0)
    )
    pairs = (zip(far, other, strict=True) for other in others)
    return not all(np.array_equal(a, b) for pair in pairs for a, b in pair)
