"""Train a federation whose data are in memory: check everything first, then block after block."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from maxfl.core.aggregators import Aggregator
from maxfl.core.algorithm import Algorithm
from maxfl.core.attacks import Attack
from maxfl.core.federation import Federation
from maxfl.core.judging import with_judging
from maxfl.core.local_optimizers import LocalOptimizer
from maxfl.core.model import Model
from maxfl.core.participation import Participation
from maxfl.core.portfolio import Portfolio
from maxfl.core.requirements.requirement import Requirement, Solo, Thresholds, solo
from maxfl.core.schedules import Schedule
from maxfl.core.server_optimizers import ServerOptimizer
from maxfl.distributed.processes import explain_lost_peer, is_distributed
from maxfl.engine.client_state import grow, rows_needed
from maxfl.engine.experiment import Origin, Training, make_experiment, origin_of
from maxfl.engine.history import History
from maxfl.engine.programs import SKIP, run_block
from maxfl.engine.resources import (
    Resources,
    explain_out_of_memory,
    results_bytes,
    state_bytes,
)
from maxfl.engine.session import Session
from maxfl.engine.solo import SoloCache
from maxfl.engine.state import Block, Data, Evaluation, RoundRecord, State, Sweep
from maxfl.engine.trainer import (
    Prepared,
    Progress,
    Snapshot,
    collect_history,
    finite_start,
    put_data,
    requirements,
    schedule,
    shown_progress,
    snapshot_like,
    solo_requirements,
    train,
)
from maxfl.utils.display import html_table, one_line

TO_LOWER = (
    "training.batch_size, training.cohort or the model's size",
    "write the data to disk (maxfl data write) and have a cohort at a time in memory",
)


def compiles_ahead() -> bool:
    """Tell whether programs are compiled while others run: on a CPU, in one process."""
    return jax.default_backend() == "cpu" and not is_distributed()


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
        requirement: What clients demand of the model, and what data they judge it by; by default
            their solo model's loss, on samples that they hold out from training.
        participation: Who participates; by default everyone.
        server_optimizer: See ``maxfl.server_optimizers``; by default plain steps.
        local_optimizer: Of the clients, in rounds and alone, see ``maxfl.local_optimizers``; by
            default plain steps.
        local_schedule: η_l over the rounds, see ``maxfl.schedules``; by default constant.
        server_schedule: η_g over the rounds; by default constant.
        portfolio: How many global models there are, see ``maxfl.portfolio``; by default one.
        aggregator: How updates are aggregated, see ``maxfl.aggregators``; by default their mean.
        attack: Who is Byzantine and how, see ``maxfl.attacks``; by default nobody.
        finetune_steps: SGD steps by which clients fine-tune a model on their own training data, in
            their weights and in what is measured as their personal models. Whether they participate
            is still decided by the model as they receive it.
        seed: Of every draw.
        devices: By default all of JAX's.
        max_parallel: Most clients or configurations vectorised on one device.
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
        devices: list[Any] | None = None,
        max_parallel: int | None = None,
    ) -> None:
        requirement = solo() if requirement is None else requirement
        if isinstance(federation, Federation) and isinstance(requirement, Requirement):
            federation = with_judging(federation, requirement.judging)  # else it is refused later
        experiment = make_experiment(
            federation, model, algorithm, training,
            requirement=requirement, participation=participation,
            server_optimizer=server_optimizer, local_optimizer=local_optimizer,
            local_schedule=local_schedule, server_schedule=server_schedule,
            portfolio=portfolio,
            aggregator=aggregator, attack=attack,
            finetune_steps=finetune_steps, seed=seed,
        )  # fmt: skip
        self.session = Session(experiment, federation, devices, max_parallel)

    @cached_property
    def eval_federation(self) -> Federation:
        """The clients that evaluate the model and whose results are kept: all of them."""
        federation = self.session.experiment.federation
        return federation._replace(known_digest=federation.digest())  # which is asked for often

    @property
    def is_byzantine(self) -> Any:
        """Which of them are Byzantine, bool[C, K]."""
        return self.session.narrow(self.session.is_byzantine)

    @cached_property
    def resources(self) -> Resources:
        """What the run takes: in its folder two states, and what is measured."""
        session, spec = self.session, self.session.spec
        experiment, configurations = session.experiment, session.configurations
        server, row = state_bytes(
            session.state_shape(), configurations, rows_needed(spec.cohort, spec.seen)
        )
        rows = rows_needed(experiment.training.rounds * spec.cohort, spec.seen)
        measured = results_bytes(
            experiment, configurations, self.eval_federation.clients,
            personal=spec.has_personal_models,
        )  # fmt: skip
        folder = 2 * configurations * (server + rows * row) + measured
        after = configurations * server + measured // 2
        return Resources(session.programs, (folder, folder, after), TO_LOWER)

    @cached_property
    def origin(self) -> Origin:
        """What a history of this simulation is of."""
        session = self.session
        return origin_of(session.experiment, self.eval_federation, session.configurations)

    def __repr__(self) -> str:
        """Return a line that says what is trained how."""
        return one_line("Simulation", self.session.words)

    def _repr_html_(self) -> str:
        """Return a small table for notebooks."""
        return html_table("Simulation", self.session.rows)

    def describe(self) -> dict[str, Any]:
        """Return everything that a result depends on, as plain data."""
        return self.session.experiment.describe()

    def open(
        self,
        folder: Path,  # noqa: ARG002 (streams have files there)
        progress: Progress | None = None,  # noqa: ARG002
    ) -> AbstractContextManager[Any]:
        """Hold what a run needs beside memory: here nothing."""
        return nullcontext()

    def requirements(self, solo: Solo) -> Thresholds:
        """Derive the requirements from solo results, [C, K] each."""
        return requirements(self.session, self.eval_federation, solo)

    def prepare(
        self, progress: Progress | None = None, solo_cache: SoloCache | None = None
    ) -> Prepared:
        """Let every client train alone, and derive the requirements.

        ``solo_cache`` holds what was trained alone in earlier simulations and gains that of this
        one, so that none is trained twice.
        """
        return solo_requirements(
            self.session, self.eval_federation, lambda: self._data, None, progress, solo_cache
        )

    def start(self) -> State:
        """Return the state before the first round."""
        return finite_start(self.session)

    def blocks(
        self, prepared: Prepared, state: State, done: int = 0
    ) -> Iterator[tuple[State, Block]]:
        """Train from the state after ``done`` blocks, giving state and results of each block."""
        session, spec = self.session, self.session.spec
        rho = session.spread(spec.criterion.bound(prepared.thresholds.judging))
        # Laid out as the program returns it, or the second block would compile the program anew.
        state = session.spread(state)
        for periods in schedule(session.experiment.training)[done:]:
            with explain_lost_peer():
                state, records, evaluation = run_block(*self._inputs(periods, rho, state))
                # Without the padding, so that a run can go on with another number of devices.
                narrow = session.narrow(state)
            found = session.narrow(session.fetch((records, evaluation)))
            rounds = np.array([n for _, n in periods if n != SKIP])
            yield narrow, _block(periods[0][0], rounds, spec.period, *found)

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Compile the program of the rounds meanwhile; the first block finds it ready.

        On a CPU alone: elsewhere the compiler picks kernels by timing them on the devices that
        clients train on. A thread of its own has JAX's settings of the whole process; where this
        one has others, the first block would compile again.
        """
        executor = ThreadPoolExecutor(1)
        alike = executor.submit(lambda: dict(jax.config.values)).result() == dict(jax.config.values)
        if alike and compiles_ahead() and self._has_plain_state():
            # Traced here: a model's functions need not bear two threads.
            executor.submit(run_block.lower(*self._first_inputs()).compile)
        try:
            yield  # what fails to compile fails again in the first block, and is explained there
        except BaseException:
            executor.shutdown(wait=False)
            raise
        executor.shutdown()

    def _has_plain_state(self) -> bool:
        """Tell whether zeros can stand for the state, as for keys and weakly typed numbers none."""
        leaves = jax.tree.leaves(self.session.state_shape())
        return not any(a.weak_type or jnp.issubdtype(a.dtype, jax.dtypes.extended) for a in leaves)

    def _first_inputs(self) -> tuple[Any, ...]:
        """Return inputs like those of the first block: requirements and state are zeros."""
        session, first = self.session, schedule(self.session.experiment.training)[0]
        rho = np.zeros((session.configurations, self.eval_federation.clients), np.float32)
        state = jax.tree.map(lambda a: np.zeros(a.shape, a.dtype), session.state_shape())
        return self._inputs(first, session.spread(rho), session.spread(state))

    def _inputs(self, periods: list[tuple[int, int]], rho: Any, state: State) -> tuple[Any, ...]:
        """Return what the program of a block is called with, in which clients may need rows."""
        session, spec = self.session, self.session.spec
        first, lengths = periods[0][0], np.array([n for _, n in periods], np.int32)
        after = first + int(lengths[lengths != SKIP].sum())
        states = grow(state.client_states, rows_needed(after * spec.cohort, spec.seen))
        state = state._replace(client_states=session.spread(states))
        sweep = Sweep(session.hparams, rho, session.is_byzantine, state)
        return spec, self._data, sweep, np.int32(first), lengths

    def history(self, prepared: Prepared, blocks: Iterable[Block], state: State) -> History:
        """Put the blocks of a run together."""
        return collect_history(self, prepared, blocks, state)

    def like(self, blocks: int) -> Snapshot:
        """Return the structure of a snapshot after so many blocks."""
        return snapshot_like(self.session, self.session.state_shape(), blocks)

    @cached_property
    def _data(self) -> Data:
        """The samples of all clients, on every device; brought there when first needed."""
        return put_data(self.session, self.eval_federation)


def simulate(
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
    devices: list[Any] | None = None,
    max_parallel: int | None = None,
    progress: Progress | bool | None = None,
) -> History:
    """Train a federation in memory and return its history.

    All arguments but the last are those of ``Simulation``, which explains them. ``progress`` is a
    function that is called with (stage, done, total); True shows a bar and False nothing; by
    default there is a bar in a notebook.
    """
    simulation = Simulation(
        federation, model, algorithm, training,
        requirement=requirement, participation=participation,
        server_optimizer=server_optimizer, local_optimizer=local_optimizer,
        local_schedule=local_schedule, server_schedule=server_schedule,
            portfolio=portfolio,
        aggregator=aggregator, attack=attack,
        finetune_steps=finetune_steps, seed=seed, devices=devices, max_parallel=max_parallel,
    )  # fmt: skip
    if is_distributed():
        simulation.session.assert_same(simulation.describe())
    with (
        explain_out_of_memory(lambda: simulation.resources.advice()),
        shown_progress(progress) as report,
    ):
        return train(simulation, report).history


def _block(
    first: int, rounds: Any, period: int, records: RoundRecord, evaluation: Evaluation
) -> Block:
    """Return what the program gave for periods of so many ``rounds``, without unused room.

    Args:
        first: Rounds done before.
        rounds: int[P], each at most ``period``.
        period: Room for rounds in a period.
        records: [C, periods, period, ...] each; there may be more periods than P.
        evaluation: [C, periods, K] each.
    """
    used = np.concatenate([np.arange(n) + p * period for p, n in enumerate(rounds)])

    def every_round(a: Any) -> Any:
        return a.reshape(len(a), -1, *a.shape[3:])[:, used]

    cohorts, steps = jax.tree.map(every_round, records)
    evaluation = jax.tree.map(lambda a: a[:, : len(rounds)], evaluation)
    return Block(first + np.cumsum(rounds), evaluation, cohorts, steps)
