"""What a run takes of memory and disk, predicted from shapes, and what to lower."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from maxfl.core.aggregators import AggregationRule
from maxfl.core.algorithm import trained
from maxfl.core.federation import Federation
from maxfl.core.model import Model
from maxfl.distributed.processes import free_bytes
from maxfl.engine.client_state import init_memory
from maxfl.engine.evaluation import score_samples
from maxfl.engine.experiment import Experiment
from maxfl.engine.layout import SWEEP, EvalBatch, Layout
from maxfl.engine.minibatches import Minibatches, Task, batch_gradient
from maxfl.engine.state import CohortRecord, Evaluation, ModelStep, Personal, State
from maxfl.utils.disk_space import explain_disk_full, format_bytes, require_space
from maxfl.utils.errors import OutOfMemoryError

ROOM = 0.7
"""Share of the free memory that predictions may fill: compilers keep more than they must."""
DISK_BLOCK = 4096
"""Bytes that the smallest file takes."""
OTHER_FILES = 16
"""Of a run and its checkpoint, folders included, beside a file for every block."""
SORTED = 6
"""Copies of a gathered update that an aggregator makes at most: cleaned, in order, with weights."""


class Footprint(NamedTuple):
    """Predicted bytes on a device.

    Attributes:
        data: The federation's arrays, once.
        configuration: A configuration, without clients at work.
        client: A client at work.
    """

    data: int
    configuration: int
    client: int

    def of(self, layout: Layout) -> int:
        """Return bytes of what a layout does at once."""
        each = self.configuration + layout.parallel_clients * self.client
        return self.data + layout.parallel_configurations * each


class Fits(NamedTuple):
    """How many configurations, and clients of each, fit on a device at once."""

    configurations: int
    clients: int


class StateBytes(NamedTuple):
    """Bytes of a configuration's state without client states, and of one client's state."""

    server: int
    client: int


class Resources:
    """What a run takes, predicted.

    Attributes:
        folder_bytes: In its folder, at most, while it goes on.
        min_folder_bytes: In its folder, for sure, while it goes on.
        result_bytes: In its folder once it is finished, about.

    Args:
        footprint: Gives the memory; predicting takes time, so it is called when it is needed.
        layouts: Of the rounds, and of training alone.
        folder_bytes: In its folder, for sure and at most; and once it is finished.
        to_lower: What to change where memory is short, in words.
    """

    def __init__(
        self,
        footprint: Callable[[], Footprint],
        layouts: Sequence[Layout],
        folder_bytes: tuple[int, int, int],
        to_lower: Sequence[str],
    ) -> None:
        self._footprint, self._layouts, self._to_lower = footprint, layouts, to_lower
        self.min_folder_bytes, self.folder_bytes, self.result_bytes = folder_bytes

    @property
    def device_bytes(self) -> int:
        """Memory that a device will need at most."""
        return self._footprint().of(self.largest_layout)

    @property
    def largest_layout(self) -> Layout:
        """The one that needs more memory: of the rounds, or of training alone."""
        return max(self._layouts, key=self._footprint().of)

    def advice(self) -> str:
        """Say what a device needs and what to lower."""
        layout = self.largest_layout
        configurations, clients = layout.parallel_configurations, layout.parallel_clients
        room = free_bytes(layout.mesh.devices.flat[0])
        parallel = max(configurations, clients)
        lower = [f"max_parallel (--max-parallel) below {parallel}"] if parallel > 1 else []
        lower += self._to_lower
        return (
            f"A device needs about {format_bytes(self.device_bytes)} of {format_bytes(room)} for "
            f"{configurations} configuration{'s' if configurations > 1 else ''} and {clients} "
            f"client{'s' if clients > 1 else ''} at once: lower {', or '.join(lower)}."
        )

    @contextmanager
    def explain_shortage(self, folder: Path, remedy: str, saved: str) -> Iterator[None]:
        """Say what to change where disk or memory is short.

        Args:
            folder: Of the run.
            remedy: What to do where the disk is full.
            saved: What is not lost, as a sentence.
        """
        with (
            explain_disk_full(
                folder, "the run", self.folder_bytes, f"make room.{saved} Or {remedy}"
            ),
            explain_out_of_memory(self.advice, saved),
        ):
            yield

    def require_space(self, folder: Path, remedy: str) -> None:
        """Refuse to begin what the disk can't hold."""
        require_space(folder, self.min_folder_bytes, "the run", remedy)


@contextmanager
def explain_out_of_memory(advice: Callable[[], str], saved: str = "") -> Iterator[None]:
    """Say what was predicted, and which setting to lower; ``saved`` says what is not lost."""
    try:
        yield
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        why = str(error).split("\n")[0]
        if isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" not in why:
            raise
        raise OutOfMemoryError(f"out of memory ({why}). {advice()}{saved}") from error


def footprint(experiment: Experiment, in_memory: Federation, eval_batch: EvalBatch) -> Footprint:
    """Predict from the shapes of everything that is computed; nothing is computed."""
    model, algorithm, training = experiment.model, experiment.algorithm, experiment.training
    key = jax.eval_shape(lambda: jax.random.key(0))
    params = jax.eval_shape(model.init, key)
    client_state = jax.eval_shape(partial(init_memory, model, algorithm.init_client), params)
    moments = jax.eval_shape(experiment.local_optimizer.transformation().init, trained(params))
    shapes = _shapes(in_memory.train)
    number = jax.ShapeDtypeStruct((), jnp.int32)

    frozen = _shapes(() if model.frozen is None else model.frozen)

    def gradient(client: Any, key: Any, w: Any, draw: Any, train: Any, frozen: Any) -> Any:
        task = Task(model, in_memory.input_scaling, train, frozen)
        return batch_gradient(task, Minibatches(client, key, experiment.max_batch_size), w, draw)

    # Clients draw different rows: nothing but the data and frozen parameters is shared by them.
    step = _intermediates(gradient, (number, key, params, number, shapes, frozen), varying=4)
    models = experiment.portfolio.most_models
    state = models * _bytes(params) + in_memory.seen * _bytes(client_state)
    measures = _measures(model, personal=True)
    # An aggregator that is no sum must have all updates at once.
    gathered = 0 if experiment.aggregator.rule is AggregationRule.MEAN else training.cohort
    return Footprint(
        data=_bytes((in_memory[:2], in_memory.judging, frozen)),
        configuration=4 * state
        + SORTED * gathered * (_bytes(params) + _bytes(client_state))
        + models * _losses(in_memory, model, params, eval_batch.everyone, varying=1)
        + 4 * measures * training.evaluations * in_memory.clients,
        client=step
        + models * _losses(in_memory, model, params, eval_batch.client, varying=3)
        + 6 * _bytes(params)
        + 2 * _bytes(moments),
    )


def fits(needed: Footprint, cohort: int, free: int) -> Fits:
    """Return how much fits into so many bytes; at least one of each."""
    room = ROOM * free - needed.data
    clients = max(1, min(cohort, int((room - needed.configuration) // needed.client)))
    each = needed.configuration + clients * needed.client
    return Fits(max(1, int(room // each)), clients)


def parallel_configurations(layout: Layout, configurations: int) -> int:
    """Return how many configurations run side by side, on all devices together."""
    return min(configurations, layout.parallel_configurations * layout.mesh.shape[SWEEP])


def state_bytes(state: State, configurations: int, rows: int) -> StateBytes:
    """Count those of a state, given by its shapes, with so many rows of client states."""
    states = state.client_states
    server = _bytes((state.server, state.opt_state, states.slot))
    return StateBytes(server // configurations, _bytes(states.rows) // (configurations * rows))


def results_bytes(
    experiment: Experiment, configurations: int, clients: int, *, personal: bool
) -> int:
    """Count bytes of all evaluations by so many clients, and of all rounds.

    Twice, since tables are written before the checkpoint is removed; and what files take beyond
    their content.
    """
    training = experiment.training
    measures = _measures(experiment.model, personal=personal)
    cohort = training.cohort * len(CohortRecord._fields) + len(ModelStep._fields)
    rounds = training.rounds * cohort
    content = 4 * configurations * (training.evaluations * clients * measures + rounds)
    blocks = -(
        -training.evaluations // max(1, training.checkpoint_every // training.evaluate_every)
    )
    return 2 * content + DISK_BLOCK * (blocks + OTHER_FILES)


def _measures(model: Model, *, personal: bool) -> int:
    """Count the numbers of a client in an evaluation."""
    more = len(model.named_metrics) - 1  # the fields have a place for one
    return len(Evaluation._fields) + more + (len(Personal._fields) + more if personal else 0)


def _losses(federation: Federation, model: Model, params: Any, samples: int, varying: int) -> int:
    """Count bytes on the way to the losses of some samples; ``varying`` of (w, x, y) vary."""
    train = federation.train
    x = jax.ShapeDtypeStruct((samples, *train.x.shape[1:]), train.x.dtype)
    y = jax.ShapeDtypeStruct((samples, *train.y.shape[1:]), train.y.dtype)
    frozen = _shapes(() if model.frozen is None else model.frozen)

    def losses(w: Any, x: Any, y: Any, frozen: Any) -> Any:
        return score_samples(Task(model, federation.input_scaling, train, frozen), w, x, y)

    return _intermediates(losses, (params, x, y, frozen), varying)


def _shapes(tree: Any) -> Any:
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), tree)


def _intermediates(function: Any, args: tuple[Any, ...], varying: int) -> int:
    """Count most bytes of a function's values at a time, freed after their last use.

    Values that do not depend on the first ``varying`` arguments are computed once for all, and
    don't count. What the compiler fuses never reaches memory: an upper bound.
    """
    jaxpr = jax.make_jaxpr(function)(*args).jaxpr
    counted = sum(len(jax.tree.leaves(a)) for a in args[:varying])
    return _peak(jaxpr, [i < counted for i in range(len(jaxpr.invars))])


def _peak(jaxpr: Any, counted: list[bool]) -> int:
    """Count most bytes alive at a time in a program and those that it calls, of what counts."""
    mine = {v for v, counts in zip(jaxpr.invars, counted, strict=True) if counts}
    last = {v: i for i, e in enumerate(jaxpr.eqns) for v in e.invars if not _is_literal(v)}
    last |= dict.fromkeys((v for v in jaxpr.outvars if not _is_literal(v)), len(jaxpr.eqns))
    alive: dict[Any, int] = {}
    most = 0
    for i, equation in enumerate(jaxpr.eqns):
        given = [not _is_literal(v) and v in mine for v in equation.invars]
        if not any(given):
            continue
        mine.update(equation.outvars)
        called = [p for p in _flat(equation.params.values()) if hasattr(p, "eqns")]
        inner = max((_peak(c, _passed(given, c)) for c in called), default=0)
        before = sum(alive.values())
        alive |= {v: _size(v.aval) for v in equation.outvars}
        after = sum(alive.values())
        # What a call returns is alive within it; what a loop returns, beside what it works on.
        is_loop = equation.primitive.name in ("scan", "while")
        most = max(most, after + inner if is_loop else max(after, before + inner))
        alive = {v: size for v, size in alive.items() if last.get(v, i) > i}
    return most


def _passed(given: list[bool], called: Any) -> list[bool]:
    """Return which inputs of a called program count; all, where they do not match."""
    return given if len(given) == len(called.invars) else [True] * len(called.invars)


def _is_literal(value: Any) -> bool:
    return hasattr(value, "val")


def _flat(params: Iterable[Any]) -> list[Any]:
    """Return the parameters of an operation, those in tuples too, closed programs opened."""
    flat = []
    for p in params:
        flat += _flat(p) if isinstance(p, tuple | list) else [getattr(p, "jaxpr", p)]
    return flat


def _bytes(tree: Any) -> int:
    return sum(_size(leaf) for leaf in jax.tree.leaves(tree))


def _size(a: Any) -> int:
    """Count bytes of an array or its shape; random keys are small enough to count as nothing."""
    itemsize = getattr(a.dtype, "itemsize", 0) if hasattr(a, "dtype") else 0
    return int(a.size) * itemsize
