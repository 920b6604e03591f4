"""The engine's host side: check everything first, then run block after block."""

import platform
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from numpy.typing import ArrayLike

from maxfl.adversary import Adversary, liars, nobody
from maxfl.algorithms.contract import Algorithm
from maxfl.checks import check
from maxfl.describe import describe
from maxfl.errors import InputError, check_count
from maxfl.federation import Federation
from maxfl.footprint import Footprint, fits, footprint, free_bytes
from maxfl.history import History
from maxfl.layout import CLIENT, SWEEP, Layout, layout, most_at_once, rows_at_once
from maxfl.memory import grown, rows_needed
from maxfl.model import Model
from maxfl.optimisers import Optimiser, sgd
from maxfl.participation import Participation, everyone
from maxfl.plan import Plan, Training
from maxfl.processes import agree, attached, fetch, place, several
from maxfl.program import SKIP, run_block, start, train_alone
from maxfl.requirement import Requirement, Solo, SoloResults, Thresholds, solo, thresholds
from maxfl.robust import Robust
from maxfl.shortage import told_if_out_of_memory
from maxfl.spec import Asked, Data, Evaluation, Personal, SoloSpec, Spec, State

Progress = Callable[[str, int, int], None]
"""Called with (stage, done, total) while a run goes on."""

SOLO_CHUNK = 128
"""Clients per device that train alone in one call of the program, or more if at once."""


class Prepared(NamedTuple):
    """What is known before the first round, [C, K] each."""

    solo: Solo
    thresholds: Thresholds


class Block(NamedTuple):
    """What one call of the compiled program gave, on the host.

    Attributes:
        rounds: Rounds done at each of its evaluations, int[P].
        evaluation: [C, P, K] each.
        asked: [C, rounds of the block, m] each.
        survey: Of a stream, [C, rounds of the block] each; else ().
    """

    rounds: Any
    evaluation: Evaluation
    asked: Asked
    survey: Any = ()


class Simulation:
    """A federation ready to be trained, once or as a sweep over C configurations.

    Any number that is a one-dimensional array, of the training, the algorithm, the requirement,
    the participation, or the seed, makes a sweep: arrays have one length C and are read side by
    side (configuration c takes entry c of each). All of it is checked here, before any training.

    Args:
        federation: The clients and their data.
        model: What is trained.
        algorithm: The method.
        training: Rounds, steps and rates.
        requirement: What clients demand of the model; by default their solo model's loss.
        participation: Who takes part; by default everyone.
        optimiser: The server's, see ``maxfl.optimisers``; by default plain steps.
        robust: How updates are put together, see ``maxfl.robust``; by default the weighted mean.
        adversary: Who lies and how, see ``maxfl.adversary``; by default nobody.
        tuning: SGD steps by which clients tune a model on their own training data, in their
            weights and in what is measured as their personal models. Whether they take part is
            still decided by the model as they receive it.
        seed: Of every draw.
        devices: By default all of JAX's.
        at_once: Most clients or configurations vectorised on one device.
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
        optimiser: Optimiser | None = None,
        robust: Robust | None = None,
        adversary: Adversary | None = None,
        tuning: ArrayLike = 0,
        seed: ArrayLike = 0,
        devices: list[Any] | None = None,
        at_once: int | None = None,
    ) -> None:
        self.plan = Plan(
            federation,
            model,
            algorithm,
            Training() if training is None else training,
            solo() if requirement is None else requirement,
            everyone() if participation is None else participation,
            sgd() if optimiser is None else optimiser,
            Robust() if robust is None else robust,
            nobody() if adversary is None else adversary,
            tuning,
            seed,
        )
        check(self.plan)
        _, _, _, training, requirement, participation, optimiser, robust, adversary, *_ = self.plan
        given = _arrays(self.plan.numbers)
        self.configurations = _count((given, _arrays(requirement._replace(rule=None))))
        if at_once is not None:
            check_count("at_once", at_once, least=1)
        largest = int(np.max(training.batch_size))
        masks = bool(np.min(training.batch_size) < largest)
        devices = jax.devices() if devices is None else devices
        if not several() and any(d.process_index != jax.process_index() for d in devices):
            raise InputError("there are several processes: call maxfl.join() in all of them first")
        at_once = most_at_once(devices) if at_once is None else at_once
        self._rows = rows_at_once(federation.train_sizes, devices)

        def lay_out(configurations: int, clients: int) -> Layout:
            # One after another always fits; predicting would only take time.
            most = fits(self.footprint, clients, free_bytes(devices[0])) if at_once > 1 else None
            return layout(
                configurations, clients, self._rows, devices=devices, at_once=at_once, most=most
            )

        here = lay_out(self.configurations, training.cohort)
        alone = lay_out(1, federation.clients)
        self.spec = Spec(
            model=model,
            algorithm=algorithm._replace(hyper=None),
            rule=participation.rule,
            optimiser=optimiser.kind,
            robust=robust.rule,
            clips=robust.clips,
            attack=adversary.active,
            flip_labels=adversary.flip_labels,
            collude=adversary.collude,
            tunes=bool(np.any(np.asarray(tuning) > 0)),
            classes=federation.classes,
            seen=federation.seen,
            cohort=training.cohort,
            local_steps=_compiled_steps(training.local_steps, devices[0].platform),
            batch_size=largest,
            masks=masks,
            period=min(training.evaluate_every, training.rounds),
            layout=here,
        )
        self.alone = SoloSpec(model, largest, masks, requirement.steps, alone)
        self._width = -(-self.configurations // here.mesh.shape[SWEEP]) * here.mesh.shape[SWEEP]
        self.numbers = jax.tree.map(self._wide, given)
        self.numbers = self.numbers._replace(
            seed=self._wide(seed, np.uint32),
            local_steps=self._wide(training.local_steps, np.int32),
            batch_size=self._wide(training.batch_size, np.int32),
            tuning=self._wide(tuning, np.int32),
        )
        self.lies = self._liars()

    @cached_property
    def _data(self) -> Data:
        """The samples of all clients shown, on every device; brought there when first needed."""
        shown = self.shown
        return self.everywhere(Data(shown.train, shown.test, shown.decoding))

    def everywhere(self, arrays: Any) -> Any:
        """Arrays on every device."""
        mesh, alike = self.spec.layout.mesh, jax.sharding.PartitionSpec()
        return place(arrays, jax.sharding.NamedSharding(mesh, alike))

    def fetch(self, tree: Any) -> Any:
        """Arrays on the devices as host arrays, in every process."""
        return fetch(tree, self.spec.layout.mesh)

    @cached_property
    def footprint(self) -> Footprint:
        """Memory that the run needs, predicted from shapes."""
        federation, model, algorithm, training, *_ = self.plan
        batch_size = int(np.max(training.batch_size))
        return footprint(federation, model, algorithm, batch_size, self._looks, self._rows)

    @property
    def _looks(self) -> int:
        """Evaluations, that of the untrained model included."""
        return 1 + -(-self.training.rounds // self.training.evaluate_every)

    @property
    def at_once(self) -> int:
        """Configurations that run side by side, on all devices together."""
        layout = self.spec.layout
        return min(self.configurations, layout.configurations_at_once * layout.mesh.shape[SWEEP])

    @property
    def predicted_bytes(self) -> int:
        """Memory that a device will need, predicted from shapes."""
        own, layout = self.footprint, self.spec.layout
        each = own.configuration + layout.clients_at_once * own.client
        return own.data + layout.configurations_at_once * each

    @property
    def memory_settings(self) -> list[str]:
        """What to lower where memory is short."""
        return [
            "training.batch_size, training.cohort or the model's size",
            "write the data to disk (maxfl data write) and have a cohort at a time in memory",
        ]

    @property
    def folder_bytes(self) -> int:
        """Bytes that a run will take in its folder, at most: two states, and what is measured."""
        state, row = self._state_bytes
        rows = rows_needed(self.training.rounds * self.spec.cohort, self.spec.seen)
        return 2 * self.configurations * (state + rows * row) + self._measured_bytes

    @property
    def least_folder_bytes(self) -> int:
        """Bytes that it will take for sure."""
        return self.folder_bytes

    @property
    def _measured_bytes(self) -> int:
        """Bytes of all evaluations, and of who was asked."""
        training = self.training
        numbers = len(Evaluation._fields) + (len(Personal._fields) if self.personal else 0)
        asked = training.rounds * training.cohort * len(Asked._fields)
        return 4 * self.configurations * (self._looks * self.shown.clients * numbers + asked)

    @cached_property
    def _state_bytes(self) -> tuple[int, int]:
        """Bytes of a configuration's state without clients' memory, and of a client's memory."""

        def size(tree: Any) -> int:
            return sum(int(a.size) * a.dtype.itemsize for a in jax.tree.leaves(tree))

        state = jax.eval_shape(self._start)
        rows = state.memory.rows
        server = size(state.server) + size(state.optimiser) + size(state.memory.place)
        rows_there = rows_needed(self.spec.cohort, self.spec.seen)
        return server // self.configurations, size(rows) // (self.configurations * rows_there)

    @property
    def personal(self) -> bool:
        """Whether clients use personal or tuned models, which are then measured too."""
        return self.spec.personal

    @property
    def federation(self) -> Federation:
        """The clients and their data."""
        return self.plan.federation

    @property
    def shown(self) -> Federation:
        """The clients that judge the model and whose results are kept: all of them."""
        return self.federation

    @property
    def _names(self) -> Any:
        """Numbers of the clients shown, int32[K]; None where they are all there are."""
        return None

    def working_in(
        self,
        folder: Path,  # noqa: ARG002 (a stream has files there)
        progress: Progress | None = None,  # noqa: ARG002
    ) -> AbstractContextManager[Any]:
        """Hold what a run needs beside memory, for instance files in a folder: here nothing."""
        return nullcontext()

    @property
    def training(self) -> Training:
        """Rounds, steps and rates."""
        return self.plan.training

    def prepare(
        self, progress: Progress | None = None, known: SoloResults | None = None
    ) -> Prepared:
        """Let every client train alone, and derive the requirements.

        Solo models depend on the federation, the seed, η_l and b, but on no method. ``known`` holds
        those of earlier simulations and gains those of this one, so that none is trained twice.
        """
        known = SoloResults() if known is None else known
        numbers = self.numbers
        shared = self.shown.digest(), self.alone.model, self.alone.steps
        own = (a.tolist() for a in (numbers.seed, numbers.local_lr, numbers.batch_size))
        keys = [(*shared, *row) for row in zip(*own, strict=True)][: self.configurations]
        with known.lock:
            rows = [
                known.get(key, partial(self._train_alone, c, progress))
                for c, key in enumerate(keys)
            ]
        alone = jax.tree.map(lambda *parts: np.stack(parts), *rows)
        return Prepared(alone, self.demand(alone))

    def demand(self, alone: Solo) -> Thresholds:
        """The requirements that follow from solo results, [C, K] each."""
        return thresholds(self.plan.requirement, self.shown, alone, self.configurations)

    def _train_alone(self, c: int, progress: Progress | None) -> Solo:
        """Solo results of one configuration, [K]."""
        everyone = np.arange(self.shown.clients)
        return self._alone_at(everyone, c, self._data, self._names, progress)

    def _alone_at(
        self, places: Any, c: int, data: Data, names: Any, progress: Progress | None = None
    ) -> Solo:
        """Solo results of the clients at some places of the data, [n], one chunk after another.

        For one configuration at a time, so that the bits do not depend on what else is in the
        sweep; chunks are of few widths, so that few programs do.
        """
        numbers, layout = self.numbers, self.alone.layout
        own = [a[c : c + 1] for a in (numbers.seed, numbers.local_lr, numbers.batch_size)]
        devices, clients = layout.mesh.shape[CLIENT], len(data.train.offsets) - 1
        width = min(max(SOLO_CHUNK, layout.clients_at_once), -(-clients // devices)) * devices
        chunks, total = [], len(places)
        width = min(width, devices << (-(-total // devices) - 1).bit_length())
        for begin in range(0, total, width):
            chunk = np.minimum(np.arange(begin, begin + width), total - 1)
            with attached():
                results = train_alone(self.alone, data, *own, places[chunk].astype(np.int32), names)
            chunks.append(self.fetch(results))
            if progress:
                progress("solo training", min(begin + width, total), total)
        return jax.tree.map(lambda *parts: np.concatenate(parts, axis=1)[0, :total], *chunks)

    def start(self) -> State:
        """State before the first round."""
        state = self._start()
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.server.params)):
            raise InputError("model.init gives parameters that are NaN or infinite: mend it")
        return state

    def state_shape(self) -> State:
        """Shapes and types of the state, computing nothing."""
        return jax.eval_shape(self._start)

    def survey_shape(self) -> Any:
        """What a block's survey has."""
        return ()

    def _start(self) -> State:
        spec, algorithm = self.spec, self.spec.algorithm
        seeds = self.numbers.seed[: self.configurations]
        rows = rows_needed(spec.cohort, spec.seen)
        return start(
            spec.model, algorithm.init, algorithm.memory, spec.optimiser, spec.seen, rows, seeds
        )

    def _liars(self) -> Any:
        """Who lies in each configuration, bool[C, K]."""
        federation = self.federation
        if not self.spec.attack:
            return np.zeros((self._width, federation.clients), bool)
        who = jax.vmap(liars, (0, 0, None, None))
        shares = self.numbers.attack.share
        return np.asarray(who(self.numbers.seed, shares, federation.seen, federation.clients))

    def blocks(
        self, prepared: Prepared, state: State, done: int = 0
    ) -> Iterator[tuple[State, Block]]:
        """Train from the state after ``done`` blocks, giving state and results of each block."""
        rho = self._wide_rows(prepared.thresholds.train)
        # Laid out as the program returns it, or the second block would compile the program anew.
        each = jax.sharding.PartitionSpec(SWEEP)
        where = jax.sharding.NamedSharding(self.spec.layout.mesh, each)
        state = place(jax.tree.map(self._wide_rows, state), where)
        for plan in self._plans()[done:]:
            rounds = np.array([n for _, n in plan if n != SKIP])
            first = plan[0][0]
            lengths = np.array([n for _, n in plan], np.int32)
            after = (first + int(rounds.sum())) * self.spec.cohort
            with attached():
                memory = grown(state.memory, rows_needed(after, self.spec.seen))
                state = state._replace(memory=place(memory, where))
                state, asked, evaluation = run_block(
                    *(self.spec, self._data, self.numbers, rho, self.lies, state),
                    *(np.int32(first), lengths),
                )
                # Without the padding, so that a run can go on with another number of devices.
                narrow = jax.tree.map(lambda a: a[: self.configurations], state)
            yield narrow, self._block(first, rounds, *self.fetch((asked, evaluation)))

    def history(self, prepared: Prepared, blocks: Iterable[Block], state: State) -> History:
        """Put the blocks of a run together."""
        blocks = list(blocks)
        evaluation, asked = (
            jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *parts)
            for parts in ([b.evaluation for b in blocks], [b.asked for b in blocks])
        )
        return History(
            rounds=np.concatenate([b.rounds for b in blocks]),
            is_seen=self.federation.is_seen,
            evaluation=evaluation,
            asked=asked,
            solo=prepared.solo,
            thresholds=prepared.thresholds,
            lies=self._narrow(self.lies),
            params=jax.tree.map(self._narrow, self.fetch(state.server.params)),
        )

    def describe(self) -> dict[str, Any]:
        """Everything that a result depends on, as plain data."""
        return describe(self.plan)

    def agree(self, description: dict[str, Any]) -> None:
        """Refuse to go on unless every process runs what is described, on devices of one kind."""
        mesh, *at_once = self.spec.layout
        hardware = f"{jax.local_devices()[0].device_kind}, {platform.machine()}"
        layout = {"devices": list(mesh.devices.shape), "at_once": at_once, "hardware": hardware}
        agree({**description, "layout": layout})

    def _plans(self) -> list[list[tuple[int, int]]]:
        """Blocks of periods (rounds done before, rounds to do); the first period does none."""
        total, every = self.training.rounds, self.training.evaluate_every
        starts = range(0, total, every)
        periods = [(0, 0)] + [(begin, min(every, total - begin)) for begin in starts]
        size = min(max(1, self.training.block // every), len(periods))
        blocks = [periods[i : i + size] for i in range(0, len(periods), size)]
        blocks[-1] += [(total, SKIP)] * (size - len(blocks[-1]))
        return blocks

    def _block(self, first: int, rounds: Any, asked: Asked, evaluation: Evaluation) -> Block:
        """A block's results, without what padding and unused room added."""
        used = np.concatenate([np.arange(n) + p * self.spec.period for p, n in enumerate(rounds)])

        def every_round(a: Any) -> Any:
            flat = self._narrow(a).reshape(self.configurations, -1, self.training.cohort)
            return flat[:, used]

        return Block(
            first + np.cumsum(rounds),
            jax.tree.map(lambda a: self._narrow(a)[:, : len(rounds)], evaluation),
            jax.tree.map(every_round, asked),
        )

    def _wide(self, number: ArrayLike, dtype: Any = np.float32) -> Any:
        """A number as one per configuration, repeated to a multiple of the devices."""
        return self._wide_rows(np.broadcast_to(np.asarray(number, dtype), self.configurations))

    def _wide_rows(self, rows: Any) -> Any:
        return rows[np.minimum(np.arange(self._width), self.configurations - 1)]

    def _narrow(self, a: Any) -> Any:
        return a[: self.configurations]


def simulate(
    federation: Federation,
    model: Model,
    algorithm: Algorithm,
    training: Training | None = None,
    *,
    progress: Progress | None = None,
    **options: Any,
) -> History:
    """Train a federation in memory and return its history.

    Options are those of ``Simulation``: requirement, participation, optimiser, robust, adversary,
    tuning, seed, devices, at_once.
    """
    simulation = Simulation(federation, model, algorithm, training, **options)
    if several():
        simulation.agree(simulation.describe())
    with told_if_out_of_memory(simulation):
        state, blocks = simulation.start(), []
        prepared = simulation.prepare(progress)
        for now, block in simulation.blocks(prepared, state):
            state = now
            blocks.append(block)
            if progress:
                progress("rounds", int(block.rounds[-1]), simulation.training.rounds)
        return simulation.history(prepared, blocks, state)


def _arrays(numbers: Any) -> Any:
    """Every number as an array; a plain list or tuple is an array too, not a pytree."""

    def is_list(value: Any) -> bool:
        return isinstance(value, list) or (type(value) is tuple and value != ())

    return jax.tree.map(np.asarray, numbers, is_leaf=is_list)


def _compiled_steps(local_steps: ArrayLike, platform: str) -> int | None:
    """τ, if it is worth a program of its own.

    An accelerator asks the host after every step of a loop whether to go on, and where every
    configuration has its own τ, keeps those that are done by copying them. A CPU loses nothing by
    a τ that is known at run time only, and compiles once for all.
    """
    steps = set(np.ravel(local_steps).tolist())
    return steps.pop() if len(steps) == 1 and platform != "cpu" else None


def _count(numbers: Any) -> int:
    """C, the common length of all arrays among the numbers."""
    shapes = {np.shape(leaf) for leaf in jax.tree.leaves(numbers)} - {()}
    if any(len(shape) != 1 for shape in shapes) or len(shapes) > 1 or (0,) in shapes:
        raise InputError(
            f"arrays of a sweep must be one-dimensional and of one length, not {sorted(shapes)}"
        )
    return shapes.pop()[0] if shapes else 1
