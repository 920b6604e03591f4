"""Federations larger than memory: a round at a time, with the cohort's data alone.

The rounds are the engine's own, with the same draws: whatever fits into memory gives the same model
either way. The next cohort is read while the last one trains; what clients keep is on disk; and a
panel of clients, which stays in memory, says how the model does.
"""

import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from maxfl.algorithms.contract import Algorithm, Client, Cohort, Server, Total, Work
from maxfl.client_store import ClientStore
from maxfl.disk import read_clients
from maxfl.errors import InputError, check_count
from maxfl.federation import Federation
from maxfl.history import History
from maxfl.memory import Memory
from maxfl.model import Model
from maxfl.participation import Rule, sample
from maxfl.plan import Training
from maxfl.processes import several
from maxfl.program import look, run_cohort, train_alone
from maxfl.randomness import Purpose, key
from maxfl.requirement import Solo, Thresholds, thresholds
from maxfl.simulation import Progress, Simulation
from maxfl.spec import Asked, Data, Evaluation

PANEL = 1000
"""Clients of each kind, seen and unseen, that judge the model, if there are as many."""


class Streamed(NamedTuple):
    """What happened.

    Attributes:
        panel: Numbers of the clients that judged the model, int[P]; the history is theirs.
        history: As of a simulation, of the panel.
        asked: Who was asked in each round, by number, [1, T, m] each.
    """

    panel: NDArray[np.int64]
    history: History
    asked: Asked


class Window(NamedTuple):
    """A cohort with its data, on the devices: numbers int32[m], and their requirement [1, m]."""

    clients: NDArray[np.int64]
    data: Data
    requirement: Any


def stream(
    federation: Federation,
    model: Model,
    algorithm: Algorithm,
    training: Training | None = None,
    *,
    panel: int = PANEL,
    folder: str | Path | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Streamed:
    """Train a federation whose data stay on disk (``maxfl.disk.open_federation``).

    Options are those of ``Simulation``, for one configuration. Participation is by ``everyone`` or
    ``decline``: nobody can ask a million clients in every round whether they would be willing.

    Args:
        federation: The clients; its samples may be mapped files.
        model: What is trained.
        algorithm: The method.
        training: Rounds, steps and rates.
        panel: Seen clients, and unseen ones, that judge the model; drawn once.
        folder: For what clients keep; by default a temporary one.
        progress: Called with (stage, done, total).
        options: Of the simulation.
    """
    own = Simulation(federation, model, algorithm, training, **options)
    _check(own, panel)
    with tempfile.TemporaryDirectory(dir=folder) as place, ThreadPoolExecutor(1) as reader:
        return _Stream(own, panel, Path(place), reader, progress or (lambda *_: None)).run()


def _check(own: Simulation, panel: int) -> None:
    check_count("panel", panel, least=1)
    if several():
        raise InputError("a stream is one process's work: run it without maxfl.join()")
    if own.configurations > 1:
        raise InputError("a stream has one configuration: run a sweep's one after another")
    if own.plan.participation.rule is Rule.OPT_OUT:
        raise InputError(
            "opt-out asks every client in every round whether it is willing, and so reads all "
            "data: take maxfl.decline(), by which clients refuse when they are asked"
        )
    if own.personal:
        raise InputError("personal and tuned models are not measured in a stream yet")
    if own.plan.requirement.rule is not None:
        raise InputError("a rule of your own wants all clients at once: take solo() or fixed()")


class _Stream:
    def __init__(
        self, own: Simulation, panel: int, place: Path, reader: ThreadPoolExecutor,
        progress: Callable[[str, int, int], None],
    ) -> None:  # fmt: skip
        self._own, self._reader, self._progress = own, reader, progress
        self._spec, self._numbers = own.spec, own.numbers
        self._lies = own.lies
        federation, rng = own.federation, np.random.default_rng(int(self._numbers.seed[0]))
        groups = np.split(np.arange(federation.clients), [federation.seen])
        chosen = [rng.choice(group, min(panel, len(group)), replace=False) for group in groups]
        self._panel = np.sort(np.concatenate(chosen))
        state = own.start()
        one = jax.tree.map(lambda a: a[0], state.server.params)
        self._fresh = jax.jit(self._spec.algorithm.memory)
        self._store = ClientStore(place, self._fresh(one), federation.seen)
        self._keeps = bool(jax.tree.leaves(self._fresh(one)))
        self._wants_requirement = own.plan.requirement.loss is None and reads_requirement(
            self._spec.algorithm, self._numbers.hyper, one, self._spec.rule
        )
        self._state = state

    def run(self) -> Streamed:
        training = self._own.training
        judges, alone, bars = self._judges()
        looks, log, at = [self._look(judges, bars, 0)], [], [0]
        with self._store:
            for done, window in enumerate(self._windows(), 1):
                log.append(self._round(done - 1, window))
                if done % training.evaluate_every == 0 or done == training.rounds:
                    looks.append(self._look(judges, bars, done))
                    at.append(done)
                self._progress("rounds", done, training.rounds)
        asked = jax.tree.map(lambda *rows: np.stack([np.asarray(r) for r in rows], 1), *log)
        evaluation = jax.tree.map(lambda *rows: np.stack([np.asarray(r) for r in rows], 1), *looks)
        history = History(
            np.array(at),
            self._panel < self._own.federation.seen,
            evaluation,
            self._of_panel(asked),
            alone,
            bars,
            np.asarray(self._lies)[:1, self._panel],
            jax.tree.map(np.asarray, self._state.server.params),
        )
        return Streamed(self._panel, history, asked)

    def _cohort(self, round_: int) -> NDArray[np.int64]:
        """Those that the engine would draw from memory."""
        seed = jnp.uint32(self._numbers.seed[0])
        drawn = _draw(seed, jnp.int32(round_), self._own.federation.seen, self._spec.cohort)
        return np.asarray(drawn, np.int64)

    def _windows(self) -> Iterator[Window]:
        """The cohorts of all rounds, the next one read while this one trains."""
        rounds = self._own.training.rounds
        coming: Future[Window] = self._reader.submit(self._window, 0)
        for number in range(1, rounds + 1):
            window = coming.result()
            if number < rounds:
                coming = self._reader.submit(self._window, number)
            yield window

    def _window(self, round_: int) -> Window:
        clients, federation = self._cohort(round_), self._own.federation
        train = federation.train
        rows = int((train.offsets[clients + 1] - train.offsets[clients]).sum())
        # A power of two, so that few programs are compiled.
        room = 1 << max(rows - 1, 0).bit_length()
        own = read_clients(train, clients, room)
        data = self._own.everywhere(Data(own, self._no_samples(own), federation.decoding))
        return Window(clients, data, self._requirement(clients, data))

    def _no_samples(self, like: Any) -> Any:
        """A cohort's test data, which training does not look at: one sample of each client."""
        return like._replace(
            x=like.x[: self._spec.cohort], y=like.y[: self._spec.cohort],
            offsets=np.arange(self._spec.cohort + 1, dtype=np.int32),
        )  # fmt: skip

    def _requirement(self, clients: NDArray[np.int64], data: Data) -> Any:
        """ρ of a cohort, float32[1, m]: by training alone, where the method looks at it."""
        wanted = self._own.plan.requirement
        if not self._wants_requirement:
            loss = np.nan if wanted.loss is None else np.asarray(wanted.loss)
            return np.full((1, len(clients)), loss, np.float32)
        alone = self._alone(clients, data)
        return thresholds(wanted, _Count(len(clients)), alone, 1).train  # type: ignore[arg-type]

    def _alone(self, clients: NDArray[np.int64], data: Data) -> Solo:
        numbers = self._numbers
        own = [a[:1] for a in (numbers.seed, numbers.local_lr, numbers.batch_size)]
        devices = self._own.alone.layout.mesh.devices.size
        places = np.arange(-(-len(clients) // devices) * devices, dtype=np.int32)
        places = np.minimum(places, len(clients) - 1)
        found = train_alone(self._own.alone, data, *own, places, clients.astype(np.int32))
        return jax.tree.map(lambda a: np.asarray(a)[:, : len(clients)], found)

    def _round(self, round_: int, window: Window) -> Asked:
        """Train a cohort, from the state so far, and keep what its clients keep."""
        clients = window.clients
        params = jax.tree.map(lambda a: a[0], self._state.server.params)
        rows = self._store.read(clients, self._fresh(params)) if self._keeps else ()
        places = jnp.arange(1, len(clients) + 1)  # every client of the cohort has a row, its place
        held = Memory(places, jnp.int32(len(clients)), rows)
        state = self._state._replace(memory=jax.tree.map(lambda a: jnp.asarray(a)[None], held))
        state, asked = run_cohort(
            self._spec, window.data, clients.astype(np.int32), self._numbers, window.requirement,
            self._lies, state, np.int32(round_),
        )  # fmt: skip
        if self._keeps:
            took_part = np.asarray(asked.took_part[0])
            kept = jax.tree.map(lambda a: np.asarray(a[0])[took_part], state.memory.rows)
            self._store.write(clients[took_part], kept)
        self._state = state._replace(memory=_NO_MEMORY)
        return asked

    def _judges(self) -> tuple[Data, Solo, Thresholds]:
        """The panel's data, what its clients reach alone, and what they require."""
        federation = self._own.federation
        train, test = (
            read_clients(own, self._panel) for own in (federation.train, federation.test)
        )
        data = self._own.everywhere(Data(train, test, federation.decoding))
        self._progress("solo training", 0, len(self._panel))
        alone = self._alone(self._panel, data)
        self._progress("solo training", len(self._panel), len(self._panel))
        count: Any = _Count(len(self._panel))
        return data, alone, thresholds(self._own.plan.requirement, count, alone, 1)

    def _look(self, judges: Data, bars: Thresholds, done: int) -> Evaluation:
        return look(
            self._spec, judges, self._panel.astype(np.int32), self._numbers, bars.train,
            self._lies, self._state._replace(memory=_NO_MEMORY), np.int32(done),
        )  # fmt: skip

    def _of_panel(self, asked: Asked) -> Asked:
        """The same by places in the panel; others were not asked, as far as it knows."""
        place: Any = np.minimum(np.searchsorted(self._panel, asked.client), len(self._panel) - 1)
        there = self._panel[place] == asked.client
        return Asked(place * there, asked.sampled & there, asked.took_part & there,
                     asked.weight * there)  # fmt: skip


_NO_MEMORY: Any = ()
"""Between rounds it is on disk."""


class _Count(NamedTuple):
    """What of a federation the requirements depend on."""

    clients: int


@partial(jax.jit, static_argnums=(2, 3))
def _draw(seed: Any, round_: Any, seen: int, cohort: int) -> Any:
    client, _ = sample(key(seed, Purpose.SAMPLING, round_), jnp.ones(seen, bool), cohort)
    return client


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

    low, high = (jax.tree.leaves(jax.jit(all_of_it)(jnp.float32(rho))) for rho in (0.5, 3.0))
    return not all(np.array_equal(a, b) for a, b in zip(low, high, strict=True))
