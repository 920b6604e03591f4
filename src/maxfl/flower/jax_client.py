"""A client in JAX that trains as the simulation does: the same draws, the same steps.

For federations whose clients run JAX; and since its draws are those of the simulation, it shows
that both train the same model.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from jax import Array as JaxArray

from maxfl.core.algorithm import descend
from maxfl.core.federation import Federation, InputScaling, Samples
from maxfl.core.local_optimizers import LocalOptimizer
from maxfl.core.model import Model, Params
from maxfl.core.prng import Purpose, key
from maxfl.core.schedules import Schedule, ScheduleKind, scheduled
from maxfl.engine.evaluation import Score, client_score
from maxfl.engine.experiment import Training
from maxfl.engine.layout import choose_eval_batch
from maxfl.engine.minibatches import Minibatches, Task, batch_gradient
from maxfl.flower import keys
from maxfl.flower.appeal_mod import appeal_mod
from maxfl.utils.errors import InputError
from maxfl.utils.files import from_named, to_named

MODEL_STATE = "maxfl.model-state"
"""Where a node keeps the state of a model that leaves it there."""


class Local(NamedTuple):
    """What a node needs to be one of a federation's clients.

    Attributes:
        federation: The data of all clients.
        model: What they train.
        training: How; its rounds are the server's business.
        seed: Of the run.
        local_optimizer: What takes local steps.
        local_schedule: η_l over the rounds.
    """

    federation: Federation
    model: Model
    training: Training
    seed: int
    local_optimizer: LocalOptimizer = LocalOptimizer()
    local_schedule: Schedule = Schedule()

    def train(self, params: Params, round_: int, client: int) -> Params:
        """Train the client's model for τ steps in a round, counted from 0."""
        draws = key(self.seed, Purpose.TRAINING, round_, client)
        steps: Any = self.training.local_steps
        schedule = self.local_schedule
        rate = scheduled(schedule, schedule.hparams, self.training.local_lr, round_)
        return self._descend(params, draws, client, int(steps), rate)

    def solo(self, steps: int, client: int) -> Params:
        """Train the model that the client would have alone."""
        params = self.model.init(key(self.seed, Purpose.SOLO_INIT, client=client))
        draws = key(self.seed, Purpose.SOLO_TRAINING, client=client)
        return self._descend(params, draws, client, steps, self.training.local_lr)

    def score(self, params: Params, client: int, *, held_out: bool = False) -> Score:
        """Measure a model on the client's training data, or on those it holds out."""
        samples = self.federation.test if held_out else self.federation.train
        chunk_size = choose_eval_batch(np.diff(samples.offsets), jax.devices()).client
        data = self._data(samples)
        return _score(self.model, chunk_size, data, client, params)

    def _descend(
        self, params: Params, draws: JaxArray, client: int, steps: int, rate: Any
    ) -> Params:
        optimizer = self.local_optimizer
        fixed = _Fixed(
            self.model,
            int(np.max(self.training.batch_size)),
            steps,
            optimizer._replace(hparams=None),
        )
        data = self._data(self.federation.train)
        return _descend(fixed, data, client, draws, rate, optimizer.hparams, params)

    def _data(self, samples: Samples) -> "_Data":
        frozen = () if self.model.frozen is None else self.model.frozen
        return _Data(self.federation.input_scaling, samples, frozen)


class _Data(NamedTuple):
    """The arrays of a task: with a model, which is compiled in, they are one."""

    input_scaling: InputScaling
    samples: Samples
    frozen: Any


class _Fixed(NamedTuple):
    """What is compiled into local training."""

    model: Model
    batch_size: int
    steps: int
    optimizer: LocalOptimizer


@partial(jax.jit, static_argnums=0)
def _descend(
    fixed: _Fixed, data: _Data, client: Any, draws: Any, rate: Any, hparams: Any, params: Params
) -> Params:
    minibatches = Minibatches(client, draws, fixed.batch_size)
    gradient = partial(batch_gradient, Task(fixed.model, *data), minibatches)
    optimizer = fixed.optimizer._replace(hparams=hparams)
    return descend(params, gradient, fixed.steps, rate, optimizer)


@partial(jax.jit, static_argnums=(0, 1))
def _score(model: Model, chunk_size: int, data: _Data, client: Any, params: Params) -> Score:
    return client_score(Task(model, *data), chunk_size, client, params)


def initial_arrays(model: Model, seed: int) -> ArrayRecord:
    """Return the model that the simulation starts from."""
    return _record(model.init(key(seed, Purpose.INIT)))


def client_app(local: Local, solo_steps: int = 100) -> ClientApp:
    """Return a ClientApp whose node is the client that its config names.

    ρ_k is the loss of a model that the client trains alone for ``solo_steps`` steps.
    """
    local = local._replace(model=local.model.for_federation(local.federation))
    like = local.model.init(key(0, Purpose.INIT))
    schedule = local.local_schedule
    if schedule.kind is not ScheduleKind.CONSTANT and schedule.hparams.rounds is None:
        raise InputError(
            f"local_schedule = {schedule.kind}: a client does not know how many rounds the server "
            f"plans; say over how many the rate falls, maxfl.schedules.{schedule.kind}(rounds=50)"
        )

    def sent(message: Message) -> Params:
        (arrays,) = message.content.array_records.values()
        return _params(arrays, like)

    def params_of(message: Message, context: Context) -> Params:
        return _recall(local.model, context, sent(message))

    def loss(message: Message, context: Context) -> float:
        return float(local.score(params_of(message, context), _client(context)).loss)

    def requirement(message: Message, context: Context) -> float:  # noqa: ARG001
        client = _client(context)
        return float(local.score(local.solo(solo_steps, client), client).loss)

    app = ClientApp(mods=[appeal_mod(loss, requirement)])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        client = _client(context)
        (config,) = message.content.config_records.values()
        round_ = int(config["server-round"]) - 1  # type: ignore[arg-type]
        trained = local.train(params_of(message, context), round_, client)
        if local.model.keep_local:
            # The server gets back the state that it sent, so that it changes nothing.
            context.state[MODEL_STATE] = _record(trained.state)
            trained = trained._replace(state=sent(message).state)
        size = int(local.federation.train_sizes[client])
        metrics = MetricRecord({"num-examples": size})
        content = RecordDict({"arrays": _record(trained), "metrics": metrics})
        return Message(content, reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        client = _client(context)
        score = local.score(params_of(message, context), client, held_out=True)
        metrics = MetricRecord({
            "num-examples": int(local.federation.test_sizes[client]),
            "test-loss": float(score.loss),
            **{
                f"test-{info.name}": float(value)
                for info, value in zip(local.model.metric_infos, score.metrics, strict=True)
            },
        })  # fmt: skip
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def _recall(model: Model, context: Context, params: Params) -> Params:
    """Return the model with the state that this node keeps, if it keeps any."""
    if not model.keep_local or MODEL_STATE not in context.state:
        return params
    arrays: ArrayRecord = context.state[MODEL_STATE]  # type: ignore[assignment]
    return params._replace(state=_params(arrays, params.state))


def _params(arrays: ArrayRecord, like: Params) -> Params:
    return from_named({name: array.numpy() for name, array in arrays.items()}, like)


def _record(params: Params) -> ArrayRecord:
    return ArrayRecord({name: Array(array) for name, array in to_named(params).items()})


def _client(context: Context) -> int:
    number = context.node_config.get(keys.PARTITION)
    if not isinstance(number, int):
        raise InputError(
            f"this node's config has no {keys.PARTITION}: start it with --node-config "
            f"'{keys.PARTITION}=0', another number for each node"
        )
    return number
