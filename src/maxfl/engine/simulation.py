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

from maxfl.core.aggregators import Robust, Rule
from maxfl.core.algorithm import Algorithm
from maxfl.core.attacks import Adversary, liars, nobody
from maxfl.core.federation import Federation
from maxfl.core.model import Model
from maxfl.core.participation import Participation, everyone
from maxfl.core.requirement import Requirement, Solo, SoloResults, Thresholds, solo, thresholds
from maxfl.core.server_optimizers import Optimiser, sgd
from maxfl.distributed.processes import agree, attached, fetch, free_bytes, place, several
from maxfl.engine.blocks import Block, block_plans
from maxfl.engine.client_state import grown, rows_needed
from maxfl.engine.experiment import Plan, Training, describe
from maxfl.engine.history import History
from maxfl.engine.layout import SWEEP, Layout, layout, most_at_once, rows_at_once
from maxfl.engine.programs import SKIP, run_block, start
from maxfl.engine.resources import Footprint, fits, footprint
from maxfl.engine.session import specs
from maxfl.engine.shortage import told_if_out_of_memory
from maxfl.engine.side_by_side import as_arrays, count
from maxfl.engine.sizes import StateBytes, measured_bytes, state_bytes
from maxfl.engine.solo import solo_results
from maxfl.engine.spec import Asked, Data, Evaluation, State
from maxfl.engine.validation import check
from maxfl.utils.errors import InputError, check_count

Progress = Callable[[str, int, int], None]
"""Called with (stage, done, total) while a run goes on."""


class Prepared(NamedTuple):
    """What is known before the first round, [C, K] each."""

    solo: Solo
    thresholds: Thresholds


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
        optimiser: The server's, see ``maxfl.server_optimizers``; by default plain steps.
        robust: How updates are put together, see ``maxfl.aggregators``; by default their mean.
        adversary: Who lies and how, see ``maxfl.attacks``; by default nobody.
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
        training = self.plan.training
        given = as_arrays(self.plan.numbers)
        self.configurations = count((given, as_arrays(self.plan.requirement._replace(rule=None))))
        if at_once is not None:
            check_count("at_once", at_once, least=1)
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
        self.spec, self.alone = specs(self.plan, here, alone)
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
        return footprint(
            federation, model, algorithm, batch_size, self._looks, self._rows, self._gathered
        )

    @property
    def _gathered(self) -> int:
        """Updates that the server must have all at once, since its rule is no sum."""
        plan = self.plan
        return 0 if plan.robust.rule is Rule.MEAN else plan.training.cohort

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
        """Memory that a device will need at most, predicted from shapes."""
        return self._needs(self.largest_layout)

    @property
    def largest_layout(self) -> Layout:
        """The one that needs more memory: of the rounds, or of clients that train alone."""
        return max(self.spec.layout, self.alone.layout, key=self._needs)

    def _needs(self, layout: Layout) -> int:
        own = self.footprint
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
        return measured_bytes(
            self.training, self.configurations, self._looks, self.shown.clients,
            personal=self.personal,
        )  # fmt: skip

    @cached_property
    def _state_bytes(self) -> StateBytes:
        rows = rows_needed(self.spec.cohort, self.spec.seen)
        return state_bytes(self._start_shape(), self.configurations, rows)

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
        return solo_results(
            self.alone, self._data, self.numbers, c, everyone, self._names, progress
        )

    def start(self) -> State:
        """State before the first round."""
        state = start(*self._to_start)
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.server.params)):
            raise InputError("model.init gives parameters that are NaN or infinite: mend it")
        return state

    def state_shape(self) -> State:
        """Shapes and types of the state, computing nothing."""
        return self._start_shape()

    def survey_shape(self) -> Any:
        """What a block's survey has."""
        return ()

    @property
    def _to_start(self) -> tuple[Any, ...]:
        """What ``program.start`` is called with."""
        spec, algorithm = self.spec, self.spec.algorithm
        seeds = self.numbers.seed[: self.configurations]
        rows = rows_needed(spec.cohort, spec.seen)
        return (
            spec.model, algorithm.init, algorithm.memory, spec.optimiser, spec.seen, rows, seeds
        )  # fmt: skip

    def _start_shape(self) -> State:
        return start.eval_shape(*self._to_start)

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
        for plan in block_plans(self.training)[done:]:
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
