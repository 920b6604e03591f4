"""An experiment on devices: what is compiled in, and the hyper-parameters of all configurations."""

import platform
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from maxfl.core.attacks import byzantine_clients
from maxfl.core.criterion import Criterion, check_share, find_criterion
from maxfl.core.federation import Federation
from maxfl.core.local_optimizers import LocalOptimizer
from maxfl.core.metrics import MetricInfo
from maxfl.core.requirements.requirement import Requirement
from maxfl.core.requirements.solo_training import MOVING_LOCAL
from maxfl.core.requirements.thresholds import align, needs_solo
from maxfl.distributed.processes import assert_same, fetch, free_bytes, is_distributed, place
from maxfl.engine.client_state import rows_needed
from maxfl.engine.experiment import Experiment, as_arrays
from maxfl.engine.layout import (
    SWEEP,
    Layout,
    choose_eval_batch,
    default_parallelism,
    layout,
)
from maxfl.engine.memory.footprint import Footprint, Predictor, fits
from maxfl.engine.programs import init_state
from maxfl.engine.spec import SoloSpec, Spec
from maxfl.engine.state import HParams, SoloHParams, State
from maxfl.engine.validation import validate
from maxfl.utils.display import Rows, counted, numbers
from maxfl.utils.errors import InputError, check_count, shorten


class Session:
    """An experiment laid out on devices.

    Attributes:
        experiment: What the user chose, checked.
        configurations: C.
        spec: What shapes the program of the rounds.
        solo_spec: What shapes the program in which clients train alone.
        requirement: What clients require, aligned with the federation.
        hparams: Of all configurations, repeated to a multiple of the devices.
        is_byzantine: Who is Byzantine in each configuration, bool[C, K]; likewise.

    Args:
        experiment: What the user chose.
        in_memory: The data that are in memory at a time; shapes will do.
        devices: By default all of JAX's.
        max_parallel: Most clients or configurations vectorised on one device.
    """

    def __init__(
        self,
        experiment: Experiment,
        in_memory: Federation,
        devices: list[Any] | None = None,
        max_parallel: int | None = None,
    ) -> None:
        validate(experiment)
        self.experiment, self._in_memory = experiment, in_memory
        given = as_arrays(experiment.hparams)
        self.requirement = align(experiment.requirement, experiment.federation)
        rates = self.requirement.training.local_lr or ()
        numbers = [as_arrays(number) for number in (*self.requirement.numbers, *rates)]
        _check_no_array_of_clients(given, experiment)
        _check_shares(self.requirement, experiment.model.metric_infos)
        self.configurations = _count((given, numbers))
        if max_parallel is not None:
            check_count("max_parallel", max_parallel, least=1)
        devices = jax.devices() if devices is None else devices
        _check_devices(devices)
        if not is_distributed() and any(d.process_index != jax.process_index() for d in devices):
            raise InputError("there are several processes: call maxfl.join() in all of them first")
        self._max_parallel = default_parallelism(devices) if max_parallel is None else max_parallel
        judged = experiment.federation.judged
        self._eval_batch = choose_eval_batch(np.diff(judged.offsets), devices)
        rounds = self._lay_out(
            self.configurations, experiment.training.cohort, devices, lambda: self.footprint
        )
        solo = self._lay_out(1, experiment.federation.clients, devices, lambda: self.solo_footprint)
        self.spec, self.solo_spec = _specs(experiment, rounds, solo)
        self.hparams = self._widened(given)
        self.is_byzantine = self._draw_byzantine()

    def _lay_out(
        self,
        configurations: int,
        clients: int,
        devices: list[Any],
        footprint: Callable[[], Footprint],
    ) -> Layout:
        most = None
        if self._max_parallel > 1:  # one after another always fits; predicting only takes time
            most = fits(footprint(), clients, free_bytes(devices[0]))
        return layout(
            configurations, clients, self._eval_batch,
            devices=devices, max_parallel=self._max_parallel, most=most,
        )  # fmt: skip

    def words(self) -> str:
        """Return a line that says what is trained how, for people."""
        experiment, federation = self.experiment, self.experiment.federation
        data = f"{federation.metadata.title}, {counted(federation.clients, 'client')}"
        parts = [f"{experiment.algorithm} on {data}", experiment.model.name, self._length()]
        return "; ".join(part for part in parts if part)

    def _length(self) -> str:
        training, count = self.experiment.training, self.configurations
        length = f"{counted(training.rounds, 'round')} of {counted(training.cohort, 'client')}"
        return f"{length}, {counted(count, 'configuration')}" if count > 1 else length

    def rows(self) -> Rows:
        """Return the same for a table, with requirement, participation and seed."""
        experiment = self.experiment
        yield "method", experiment.algorithm
        yield "data", experiment.federation
        yield "model", experiment.model
        yield "training", self._length()
        yield "requirement", experiment.requirement
        yield "participation", experiment.participation
        yield "seed", numbers(experiment.seed)

    @cached_property
    def footprint(self) -> Footprint:
        """Memory that rounds take, predicted from shapes."""
        return self._predictor.rounds()

    @cached_property
    def solo_footprint(self) -> Footprint:
        """Memory that training alone takes, predicted from shapes."""
        return self._predictor.solo()

    @property
    def programs(self) -> tuple[tuple[Layout, Callable[[], Footprint]], ...]:
        """The layouts of the rounds and of training alone, each with what predicts its memory."""
        return (
            (self.spec.layout, lambda: self.footprint),
            (self.solo_spec.layout, lambda: self.solo_footprint),
        )

    @cached_property
    def _predictor(self) -> Predictor:
        return Predictor(self.experiment, self._in_memory, self._eval_batch)

    @cached_property
    def frozen(self) -> Any:
        """The model's frozen parameters, on every device once; () where it has none."""
        frozen = self.experiment.model.frozen
        return () if frozen is None else self.replicate(frozen)

    @property
    def metric_infos(self) -> tuple[MetricInfo, ...]:
        """The model's metrics, in their order."""
        return self.experiment.model.metric_infos

    @property
    def solo_ways(self) -> list[SoloHParams]:
        """What training alone depends on, leading axis C, of each way in which clients try it."""
        hparams = self.hparams

        def each(number: Any, like: Any) -> Any:
            if number is None:
                return like
            return self._widen(np.broadcast_to(np.asarray(number, like.dtype), self.configurations))

        return [
            SoloHParams(
                hparams.seed, each(rate, hparams.local_lr), each(size, hparams.batch_size),
                each(steps, hparams.local_steps), hparams.local_optimizer,
            )
            for steps, rate, size in self.requirement.training.ways
        ]  # fmt: skip

    @property
    def moving_requirements(self) -> list[str]:
        """Why what clients require differs between configurations as the training does, if so."""
        experiment, alone = self.experiment, self.requirement.training
        if not needs_solo(self.requirement):
            return []
        follows = any(_varies(getattr(experiment.training, name)) for name in alone.followed)
        local = any(map(_varies, experiment.local_optimizer.hparams))
        return [*([alone.moving_words()] if follows else []), *([MOVING_LOCAL] if local else [])]

    def one_by_one(self, tree: Any) -> list[Any]:
        """Return arrays with a leading axis C of each configuration, with a leading axis 1."""
        return [jax.tree.map(lambda a, c=c: a[c : c + 1], tree) for c in range(self.configurations)]

    def init_state(self) -> State:
        """Compute the state before the first round."""
        return init_state(*self._initial)

    def state_shape(self) -> State:
        """Return shapes and types of that state, computing nothing."""
        return init_state.eval_shape(*self._initial)

    @property
    def _initial(self) -> tuple[Any, ...]:
        spec, algorithm = self.spec, self.spec.algorithm
        return (
            spec.model, algorithm.init_server, algorithm.init_client, spec.server_optimizer,
            spec.seen, rows_needed(spec.cohort, spec.seen), spec.models,
            self.narrow(self.hparams.seed),
        )  # fmt: skip

    def replicate(self, arrays: Any) -> Any:
        """Put arrays on every device."""
        mesh, alike = self.spec.layout.mesh, jax.sharding.PartitionSpec()
        return place(arrays, jax.sharding.NamedSharding(mesh, alike))

    def spread(self, tree: Any) -> Any:
        """Put arrays with a leading axis C on the devices along it, as the programs return them.

        The last of them is repeated, up to a multiple of the devices.
        """
        mesh, each = self.spec.layout.mesh, jax.sharding.PartitionSpec(SWEEP)
        wide = jax.tree.map(self._widen, tree)
        return place(wide, jax.sharding.NamedSharding(mesh, each))

    def fetch(self, tree: Any) -> Any:
        """Return arrays on the devices as host arrays, in every process."""
        return fetch(tree, self.spec.layout.mesh)

    def narrow(self, tree: Any) -> Any:
        """Return arrays with a leading axis C, without what was repeated."""
        count = self.configurations
        # A slice of a device's array is a program to compile, also where it changes nothing.
        return jax.tree.map(lambda rows: rows if len(rows) == count else rows[:count], tree)

    def assert_same(self, description: dict[str, Any]) -> None:
        """Refuse to go on unless every process runs what is described, on devices of one kind."""
        mesh, *parallel = self.spec.layout
        hardware = f"{jax.local_devices()[0].device_kind}, {platform.machine()}"
        layout = {"devices": list(mesh.devices.shape), "parallel": parallel, "hardware": hardware}
        assert_same({**description, "layout": layout})

    def _widen(self, rows: Any) -> Any:
        devices = self.spec.layout.mesh.shape[SWEEP]
        width = -(-self.configurations // devices) * devices
        if len(rows) == width:
            return rows
        return rows[np.minimum(np.arange(width), self.configurations - 1)]

    def _widened(self, given: HParams) -> HParams:
        def each(number: ArrayLike, dtype: Any = np.float32) -> Any:
            return self._widen(np.broadcast_to(np.asarray(number, dtype), self.configurations))

        return jax.tree.map(each, given)._replace(
            seed=each(given.seed, np.uint32),
            local_steps=each(given.local_steps, np.int32),
            batch_size=each(given.batch_size, np.int32),
            finetune_steps=each(given.finetune_steps, np.int32),
            portfolio=jax.tree.map(partial(each, dtype=np.int32), given.portfolio),
        )

    def _draw_byzantine(self) -> Any:
        seen, clients = self.spec.seen, self.experiment.federation.clients
        if not self.spec.attacked:
            return np.zeros((len(self.hparams.seed), clients), bool)
        draw = jax.vmap(byzantine_clients, (0, 0, None, None))
        return np.asarray(draw(self.hparams.seed, self.hparams.attack.fraction, seen, clients))


def _specs(experiment: Experiment, rounds: Layout, solo: Layout) -> tuple[Spec, SoloSpec]:
    """Return what shapes the rounds, and training alone, on their layouts."""
    training, aggregator, attack = experiment.training, experiment.aggregator, experiment.attack
    largest = experiment.max_batch_size
    masks = bool(np.min(training.batch_size) < largest)
    platform = rounds.mesh.devices.flat[0].platform
    local = experiment.local_optimizer._replace(hparams=None)
    criterion = find_criterion(experiment.requirement.metric, experiment.model.metric_infos)
    spec = Spec(
        model=experiment.model,
        algorithm=experiment.algorithm._replace(hparams=None),
        criterion=criterion,
        participation=experiment.participation.rule,
        server_optimizer=experiment.server_optimizer.kind,
        local_optimizer=local,
        local_schedule=experiment.local_schedule._replace(hparams=None),
        server_schedule=experiment.server_schedule._replace(hparams=None),
        aggregator=aggregator.rule,
        clips=aggregator.clips,
        attacked=attack.active,
        flip_labels=attack.flip_labels,
        collude=attack.collude,
        finetunes=bool(np.any(np.asarray(experiment.finetune_steps) > 0)),
        classes=experiment.federation.classes,
        seen=experiment.federation.seen,
        cohort=training.cohort,
        local_steps=compiled_steps(training.local_steps, platform),
        batch_size=largest,
        masks_batches=masks,
        models=experiment.portfolio.most_models,
        period=min(training.evaluate_every, training.rounds),
        layout=rounds,
    )
    return spec, _solo_spec(experiment, local, solo, criterion)


def _solo_spec(
    experiment: Experiment, local: LocalOptimizer, layout: Layout, criterion: Criterion
) -> SoloSpec:
    """Return what shapes training alone."""
    ways = experiment.requirement.training
    sizes: Any = ways.batch_size or np.ravel(experiment.training.batch_size)
    platform = layout.mesh.devices.flat[0].platform
    return SoloSpec(
        experiment.model, int(max(sizes)), bool(min(sizes) < max(sizes)),
        compiled_steps(ways.steps, platform), local, layout, criterion,
    )  # fmt: skip


def compiled_steps(steps: ArrayLike, platform: str) -> int | None:
    """Return a number of SGD steps, if it is worth a program of its own.

    An accelerator asks the host after every step of a loop whether to go on, and where every
    configuration has its own number, keeps those that are done by copying them. A CPU loses nothing
    by a number that is known at run time only, and compiles once for all.
    """
    different = set(np.ravel(steps).tolist())
    return different.pop() if len(different) == 1 and platform != "cpu" else None


def _varies(numbers: Any) -> bool:
    """Tell whether a number differs between configurations."""
    return len({*np.ravel(numbers).tolist()}) > 1


def _count(numbers: Any) -> int:
    """Return C, the common length of all arrays among the numbers."""
    shapes = {np.shape(leaf) for leaf in jax.tree.leaves(numbers)} - {()}
    if any(len(shape) != 1 for shape in shapes) or len(shapes) > 1 or (0,) in shapes:
        raise InputError(
            f"arrays of a sweep must be one-dimensional and of one length, not {sorted(shapes)}"
        )
    return shapes.pop()[0] if shapes else 1


def _check_shares(requirement: Requirement, infos: tuple[MetricInfo, ...]) -> None:
    """Refuse values of a share that are none."""
    index = find_criterion(requirement.metric, infos).metric
    if index is None:
        return
    stated = [] if requirement.value is None else [requirement.value]
    for values in (*stated, *(requirement.clients or (None,))[1:]):
        check_share(infos[index], values)


def _check_no_array_of_clients(hparams: Any, experiment: Experiment) -> None:
    """Refuse a value for each client where arrays are for configurations."""
    requirement, clients = experiment.requirement, experiment.federation.clients
    lengths = {len(leaf) for leaf in jax.tree.leaves(hparams) if np.ndim(leaf) == 1}
    seen = experiment.federation.seen
    for name, number in zip(("multiple", "value"), requirement.numbers, strict=True):
        shape = np.shape(0 if number is None else number)
        if shape not in ((clients,), (seen,)) or shape in ((1,), *((n,) for n in lengths)):
            continue
        what, instead = {
            "solo": ("multiples", "maxfl.custom(lambda federation, solo: ...)"),
            "fixed": ("losses", "maxfl.per_client(losses)"),
            "metric": (f"values of {requirement.metric}", "maxfl.per_client(values, metric=...)"),
        }["solo" if name == "multiple" else requirement.kind]
        whose = "clients" if shape == (clients,) else "seen clients"
        raise InputError(
            f"the requirement has {shape[0]} {what} and the federation {shape[0]} {whose}: an "
            f"array makes a sweep of as many configurations. For one of each client take "
            f"{instead}; for a sweep, give another number of it as an array too, such as "
            f"seed=[0] * {shape[0]}"
        )


def _check_devices(devices: Any) -> None:
    """Refuse anything but some of JAX's devices."""
    are_devices = isinstance(devices, list | tuple) and all(
        isinstance(device, jax.Device) for device in devices
    )
    if not are_devices or not devices:
        raise InputError(
            f"devices = {shorten(devices)}: expected some of JAX's, such as jax.devices()[:1], or "
            f"None for all"
        )
