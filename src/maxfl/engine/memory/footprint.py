"""What runs take of a device's memory, predicted from shapes before anything is compiled."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from maxfl.core.aggregators import AggregationRule
from maxfl.core.algorithm import LocalTask, Server, advance, rate_in_loss, trained
from maxfl.core.federation import Federation
from maxfl.core.model import Scaling, compiled_scaling
from maxfl.core.participation import ParticipationRule
from maxfl.engine.client_state import init_memory
from maxfl.engine.evaluation import score_samples
from maxfl.engine.experiment import Experiment
from maxfl.engine.layout import EvalBatch, Layout
from maxfl.engine.memory.dataflow import Program, array_bytes
from maxfl.engine.minibatches import BatchGradient, Minibatches, Task
from maxfl.engine.state import count_measures
from maxfl.engine.trial_round import TrialGradient, TrialRound, trial_client, trial_round

ROOM = 0.7
"""Share of the free memory that predictions may fill: compilers keep more than they must."""
WORKSPACE = 2**27
"""Bytes that the compiler takes on an accelerator to time kernels, beside what they compute."""
SORTED = 6
"""Copies of a gathered update that an aggregator makes at most: cleaned, in order, with weights."""


class Footprint(NamedTuple):
    """Predicted bytes on a device.

    Attributes:
        data: What there is once, the federation's arrays.
        workspace: What the compiler takes once; it is free again when models are evaluated.
        configuration: What a configuration keeps.
        evaluation: What it takes to show its model to all clients, when none is at work.
        timing: What the compiler takes to time the kernels of that evaluation.
        client: A client at work.
    """

    data: int
    workspace: int
    configuration: int
    evaluation: int
    timing: int
    client: int

    def of(self, layout: Layout) -> int:
        """Return bytes of what a layout does at once."""
        configurations = layout.parallel_configurations
        return self.data + max(
            self.workspace + configurations * self.at_work(layout.parallel_clients),
            configurations * self.evaluated,
        )

    def at_work(self, clients: int) -> int:
        """Return bytes of a configuration with so many clients at work at once."""
        return self.configuration + max(self.timing, clients * self.client)

    @property
    def evaluated(self) -> int:
        """Bytes of a configuration whose model is shown to all clients."""
        return self.configuration + self.evaluation


class Fits(NamedTuple):
    """How many configurations, and clients of each, fit on a device at once."""

    configurations: int
    clients: int


class Work(NamedTuple):
    """Bytes of a function's values.

    Attributes:
        peak: Most at a time.
        timing: What the compiler takes before to time kernels, when there is nothing beside.
    """

    peak: int
    timing: int

    def beside(self, kept: int) -> int:
        """Return most bytes, with what is kept meanwhile."""
        return max(self.peak + kept, self.timing)

    def or_else(self, other: "Work") -> "Work":
        """Return what it takes to do one after the other."""
        return Work(max(self.peak, other.peak), max(self.timing, other.timing))

    def and_too(self, other: "Work", copies: int) -> "Work":
        """Return what it takes to do this and so many copies of the other at the same time."""
        return Work(self.peak + copies * other.peak, max(self.timing, copies * other.timing))


class Predictor:
    """Predicts footprints of an experiment from the shapes of everything that is computed.

    Args:
        experiment: What is run.
        in_memory: The clients whose data are on a device.
        eval_batch: Samples measured at once.
    """

    def __init__(
        self, experiment: Experiment, in_memory: Federation, eval_batch: EvalBatch
    ) -> None:
        self._experiment, self._in_memory, self._eval_batch = experiment, in_memory, eval_batch
        model, method = experiment.model, experiment.algorithm
        self._frozen = _shapes(() if model.frozen is None else model.frozen)
        self._key = jax.eval_shape(lambda: jax.random.key(0))
        self._params = jax.eval_shape(model.init, self._key)
        self._client_state = jax.eval_shape(
            partial(init_memory, model, method.init_client), self._params
        )

    def rounds(self) -> Footprint:
        """Predict the memory of rounds and of evaluations."""
        experiment, in_memory = self._experiment, self._in_memory
        training, models = experiment.training, experiment.portfolio.most_models
        params, client_state = tree_bytes(self._params), tree_bytes(self._client_state)
        # An aggregator that is no sum must have all updates at once.
        gathered = 0 if experiment.aggregator.rule is AggregationRule.MEAN else training.cohort
        measures = count_measures(len(experiment.model.named_metrics), personal=True)
        steps = training.local_steps if self._descends() else 1
        client = self._step(experiment.max_batch_size, steps)
        if self._judges():
            # Minibatches depend on nothing that is judged, and XLA was seen to have both in memory
            # at a time. For models that take steps one by one this is somewhat too much.
            client = client.and_too(self._judging(), models)
        # Samples are the same for all configurations, models are not.
        everyone = self._losses(self._eval_batch.everyone, varying=1)
        return Footprint(
            data=self._data(),
            workspace=_workspace(),
            configuration=4 * (models * params + in_memory.seen * client_state)
            + SORTED * gathered * (params + client_state)
            + 4 * measures * training.evaluations * in_memory.clients,
            evaluation=models * everyone.peak,
            timing=models * everyone.timing,
            client=client.beside(2 * client_state + self._trained()),
        )

    def solo(self) -> Footprint:
        """Predict the memory of clients that train alone and measure what they trained."""
        experiment = self._experiment
        sizes: Any = experiment.requirement.training.batch_size or experiment.max_batch_size
        step = self._step(int(np.max(sizes)), experiment.requirement.training.steps)
        client = step.or_else(self._judging()).beside(self._trained())
        return Footprint(
            self._data(), _workspace(), configuration=0, evaluation=0, timing=0, client=client
        )

    def _data(self) -> int:
        return tree_bytes((self._in_memory[:2], self._in_memory.judging, self._frozen))

    def _trained(self) -> int:
        """Count bytes of the model that a client trains, and of its optimizer's moments, twice."""
        optimizer = self._experiment.local_optimizer.transformation()
        moments = jax.eval_shape(optimizer.init, trained(self._params))
        return 2 * (tree_bytes(self._params) + tree_bytes(moments))

    def _step(self, batch_size: int, steps: ArrayLike) -> Work:
        """Count bytes on the way to a gradient, or to the weights after as many steps at once."""
        model, scaling = self._experiment.model, self._scaling()
        different = set(np.ravel(steps).tolist())
        known = different.pop() if len(different) == 1 else 0  # others are not compiled in
        # An optimizer wants the gradient itself.
        is_added = rate_in_loss() and self._experiment.local_optimizer.is_plain

        def step(client: Any, key: Any, w: Any, draw: Any, train: Any, frozen: Any) -> Any:
            task = Task(model, scaling, train, frozen)
            gradient = BatchGradient(task, Minibatches(client, key, batch_size))
            at_once = gradient.steps_at_once(w, known) if is_added else 0
            if at_once:
                return gradient.take_steps(w, draw, at_once, jnp.float32(0))
            found = gradient(w, draw)
            return advance(w, found, 1.0) if is_added else found

        number = jax.ShapeDtypeStruct((), jnp.int32)
        shared = _shapes(self._in_memory.train), self._frozen
        # Clients draw different rows: nothing but the data and frozen parameters is shared by them.
        return _work(step, (number, self._key, self._params, number, *shared), varying=4)

    def _scaling(self) -> Scaling:
        """Return from what to what features are scaled, as programs have it."""
        return compiled_scaling(self._in_memory.input_scaling, self._in_memory.train.x)

    def _judging(self) -> Work:
        """Count bytes on the way to a client's losses; its samples are looked up."""
        return self._losses(self._eval_batch.client, varying=2)

    def _losses(self, samples: int, varying: int) -> Work:
        """Count bytes on the way to some samples' losses; ``varying`` of (w, position) vary."""
        in_memory, scaling = self._in_memory, self._scaling()
        splits = in_memory.train, in_memory.test, in_memory.judging
        most = max((split for split in splits if split is not None), key=lambda s: len(s.y))
        size = min(samples, len(most.y))

        def losses(w: Any, position: Any, data: Any, frozen: Any) -> Any:
            task = Task(self._experiment.model, scaling, data, frozen)
            x, y = (jax.lax.dynamic_slice_in_dim(a, position, size) for a in (data.x, data.y))
            return score_samples(task, w, x, y)

        position = jax.ShapeDtypeStruct((), jnp.int32)
        return _work(losses, (self._params, position, _shapes(most), self._frozen), varying)

    def _judges(self) -> bool:
        """Return whether a round depends on what its clients measure; else it is left out."""
        experiment, method = self._experiment, self._experiment.algorithm
        if (
            experiment.participation.rule is not ParticipationRule.EVERYONE
            or experiment.portfolio.most_models > 1
            or method.personalize is not None
            or experiment.model.keep_local
            or np.any(experiment.finetune_steps)
        ):
            return True

        try:
            program = Program(jax.make_jaxpr(self._one_round)(jnp.float32(1), self._params).jaxpr)
        except Exception:  # it wants more than a trial has: then count what it may measure
            return True
        return not program.depends(program.inputs[:1]).isdisjoint(program.outputs)

    def _descends(self) -> bool:
        """Return whether clients take plain steps of the gradient itself: maybe many at once."""
        gradient = TrialGradient()
        task = LocalTask(gradient, 1, jnp.float32(1))
        try:
            jax.eval_shape(partial(self._one_round, task=task), jnp.float32(1), self._params)
        except Exception:  # then count what it may do
            return True
        return gradient.descended

    def _one_round(self, loss: Array, params: Any, task: LocalTask | None = None) -> TrialRound:
        """Let one client with a loss train, and the server take its step."""
        experiment, method = self._experiment, self._experiment.algorithm
        client = trial_client(loss, by_metric=experiment.requirement.metric is not None)
        server = Server(params, method.init_server(params, experiment.federation.seen))
        cohort = experiment.training.cohort
        return trial_round(method, server, params, client, cohort=cohort, task=task)


def fits(needed: Footprint, cohort: int, free: int) -> Fits:
    """Return how much fits into so many bytes; at least one of each."""
    room = ROOM * free - needed.data
    room_at_work = room - needed.workspace
    clients = max(1, min(cohort, int((room_at_work - needed.configuration) // needed.client)))
    at_work = room_at_work // needed.at_work(clients)
    evaluated = room // max(1, needed.evaluated)  # nothing is, where clients train alone
    return Fits(max(1, int(min(at_work, evaluated))), clients)


def _workspace() -> int:
    """Count bytes that the compiler takes here beside what it times; free again when it is done."""
    return 0 if jax.default_backend() == "cpu" else WORKSPACE


def tree_bytes(tree: Any) -> int:
    """Count bytes of arrays, or of their shapes."""
    return sum(map(array_bytes, jax.tree.leaves(tree)))


def _shapes(tree: Any) -> Any:
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), tree)


def _work(function: Any, args: tuple[Any, ...], varying: int) -> Work:
    """Count bytes of a function's values.

    Values that do not depend on the first ``varying`` arguments are computed once for all, and
    don't count.
    """
    program = Program(jax.make_jaxpr(function)(*args).jaxpr)
    inputs = program.inputs[: len(jax.tree.leaves(args[:varying]))]
    timing = 0 if jax.default_backend() == "cpu" else program.timing_bytes(inputs)
    return Work(program.peak_bytes(inputs), timing)
