"""A client in JAX that trains and judges as the simulation does: the same draws, the same steps.

For federations whose clients run JAX; and since its draws are those of the simulation, it shows
that both train the same model. It trains on its training part alone, judges by its judging part,
and reports by its test part.
"""

from functools import cache, partial
from typing import Any, NamedTuple

import jax
import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from jax import Array as JaxArray

from maxfl.core.algorithm import Gradient, descend, move, pulled, trained
from maxfl.core.criterion import Criterion, find_criterion
from maxfl.core.federation import Federation, Samples
from maxfl.core.judging import with_judging
from maxfl.core.local_optimizers import LocalOptimizer
from maxfl.core.model import Model, Params, Scaling, Variables, compiled_scaling
from maxfl.core.prng import Purpose, key
from maxfl.core.requirements.requirement import Requirement, Solo, Thresholds, solo
from maxfl.core.requirements.thresholds import align, needs_solo, thresholds
from maxfl.core.schedules import Schedule, ScheduleKind, scheduled
from maxfl.engine.evaluation import Score, client_score
from maxfl.engine.experiment import Training
from maxfl.engine.layout import choose_eval_batch
from maxfl.engine.minibatches import BatchGradient, Minibatches, Task
from maxfl.engine.solo import best_solo
from maxfl.flower import keys
from maxfl.flower.appeal_mod import appeal_mod
from maxfl.flower.client.control_variate import correction
from maxfl.flower.client.measuring import Loss
from maxfl.flower.client.portfolio import config_of
from maxfl.flower.client.requirement_store import RequirementStore
from maxfl.flower.client.solo_description import describe_solo
from maxfl.utils.errors import InputError
from maxfl.utils.tensors import from_named, to_named

MODEL_STATE = "maxfl.model-state"
"""Where a node keeps the state of a model that leaves it there."""


SoloWay = tuple[int, Any, int | None]
"""A way to train alone: steps, learning rate and batch size; None for those of the run."""


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

    def train(
        self, params: Params, round_: int, client: int, drift: "Drift | None" = None
    ) -> Params:
        """Train the client's model for τ steps in a round, counted from 0."""
        draws = key(self.seed, Purpose.TRAINING, round_, client)
        steps: Any = self.training.local_steps
        return self._descend(params, draws, client, int(steps), self.rate(round_), drift=drift)

    def rate(self, round_: int) -> Any:
        """Return η_l of a round, counted from 0."""
        schedule = self.local_schedule
        return scheduled(schedule, schedule.hparams, self.training.local_lr, round_)

    def solo(self, way: SoloWay, client: int) -> Params:
        """Train the model that the client would have alone, in one of the ways that it tries."""
        steps, rate, batch_size = way
        params = self.model.init(key(self.seed, Purpose.SOLO_INIT, client=client))
        draws = key(self.seed, Purpose.SOLO_TRAINING, client=client)
        rate = self.training.local_lr if rate is None else rate
        return self._descend(params, draws, client, steps, rate, batch_size)

    def score(self, params: Params, client: int, *, on_test: bool = False) -> Score:
        """Measure a model on the data that the client judges by, or on its test data."""
        samples = self.federation.test if on_test else self.federation.judged
        chunk_size = choose_eval_batch(np.diff(samples.offsets), jax.devices()).client
        data = self._data(samples)
        return _score(self.model, chunk_size, data, client, params)

    def thresholds(self, requirement: Requirement, client: int) -> Thresholds:
        """Return what the client requires, by judging and by test data; numbers.

        It trains alone only if what it requires depends on that.
        """
        infos = self.model.metric_infos
        criterion = find_criterion(requirement.metric, infos)
        unknown = np.full(1, np.nan, np.float32)
        solo = Solo(unknown, unknown, (unknown,) * len(infos), unknown)
        if needs_solo(requirement):
            ways = requirement.training.ways
            solo = best_solo(criterion, [self._try_alone(criterion, way, client) for way in ways])
        # As if everybody were this client: its own threshold alone is read.
        shape = (1, self.federation.clients)
        everyone = jax.tree.map(lambda value: np.broadcast_to(value, shape), solo)
        found = thresholds(requirement, criterion, self.federation, everyone, 1)
        return Thresholds(*(float(side[0, client]) for side in found))

    def _try_alone(self, criterion: Criterion, way: SoloWay, client: int) -> Solo:
        """Return how the client does alone in one of its ways, [1] each."""
        params = self.solo(way, client)
        judged, test = (self.score(params, client, on_test=on_test) for on_test in (False, True))
        decides = () if criterion.metric is None else judged.metrics[criterion.metric]
        solo = Solo(judged.loss, test.loss, test.metrics, decides)
        return jax.tree.map(lambda value: np.asarray(value)[None], solo)

    def _descend(
        self,
        params: Params,
        draws: JaxArray,
        client: int,
        steps: int,
        rate: Any,
        batch_size: int | None = None,
        drift: "Drift | None" = None,
    ) -> Params:
        optimizer = self.local_optimizer
        size: Any = self.training.batch_size if batch_size is None else batch_size
        fixed = _Fixed(self.model, int(np.max(size)), steps, optimizer._replace(hparams=None))
        data = self._data(self.federation.train)
        return _descend(fixed, data, client, draws, rate, optimizer.hparams, params, drift)

    def _data(self, samples: Samples) -> "_Data":
        frozen = () if self.model.frozen is None else self.model.frozen
        scaling = compiled_scaling(self.federation.input_scaling, samples.x)
        return _Data(scaling, samples, frozen)


class Drift(NamedTuple):
    """What a method does against the drift of local steps; None of what it does not.

    Attributes:
        pull: μ of FedProx.
        correction: c − c_k of SCAFFOLD, of what gradients train.
    """

    pull: Any = None
    correction: Any = None

    def against(self, gradient: Gradient, centre: Params) -> Gradient:
        """Return the gradient with a pull to the model that came in, or with the correction."""
        if self.pull is not None:
            return pulled(gradient, centre, self.pull)
        if self.correction is None:
            return gradient
        correction = self.correction

        def corrected(w: Params, r: Any, scale: Any = 1.0) -> Params:
            return move(gradient(w, r, scale), correction, scale)

        return corrected


class _Data(NamedTuple):
    """The arrays of a task: with a model, which is compiled in, they are one."""

    input_scaling: Scaling
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
    fixed: _Fixed, data: _Data, client: Any, draws: Any, rate: Any, hparams: Any, params: Params,
    drift: Drift | None,
) -> Params:  # fmt: skip
    minibatches = Minibatches(client, draws, fixed.batch_size)
    gradient: Gradient = BatchGradient(Task(fixed.model, *data), minibatches)
    if drift is not None:
        gradient = drift.against(gradient, params)
    optimizer = fixed.optimizer._replace(hparams=hparams)
    return descend(params, gradient, fixed.steps, rate, optimizer)


@partial(jax.jit, static_argnums=(0, 1))
def _score(model: Model, chunk_size: int, data: _Data, client: Any, params: Params) -> Score:
    return client_score(Task(model, *data), chunk_size, client, params)


def initial_arrays(model: Model, seed: int) -> ArrayRecord:
    """Return the model that the simulation starts from."""
    return _record(model.init(key(seed, Purpose.INIT)))


def initial_models(model: Model, seed: int, models: int) -> list[ArrayRecord]:
    """Return the models that a simulation with a portfolio of so many starts from."""
    return [_record(model.init(key(seed, Purpose.INIT, client=j))) for j in range(models)]


def client_app(local: Local, requirement: Requirement | None = None) -> ClientApp:
    """Return a ClientApp whose node is the client that its config names.

    Args:
        local: The federation, what its clients train and how.
        requirement: What they demand of the model, and by what data they judge it, as for
            ``maxfl.simulate``; by default ``maxfl.solo()``. Where a metric decides, it stands in
            the place of the loss in what a client reports, negated if more of it is better. A
            node whose config names a folder, ``maxfl-requirements``, keeps it from run to run.
    """
    requirement = solo() if requirement is None else requirement
    _refuse(local, requirement)
    local = local._replace(
        federation=with_judging(local.federation, requirement.judging),
        model=local.model.for_federation(local.federation),
    )
    requirement = align(requirement, local.federation)
    criterion = find_criterion(requirement.metric, local.model.metric_infos)
    like = local.model.init(key(0, Purpose.INIT))
    thresholds_of = cache(partial(local.thresholds, requirement))
    client_of = partial(_client, federation=local.federation)

    def sent(message: Message) -> Params:
        records = message.content.array_records
        (arrays,) = (records[name] for name in records if name != keys.CORRECTION)
        return _params(arrays, like)

    def params_of(message: Message, context: Context) -> Params:
        if local.model.keep_local and keys.MODELS in config_of(message):
            raise InputError(
                "keep_local: a client that keeps the model's state would need one for each model "
                "of the server's portfolio; let the state travel (keep_local=False)"
            )
        return _recall(local.model, context, sent(message))

    def scored(message: Message, context: Context, *, on_test: bool) -> Score:
        return local.score(params_of(message, context), client_of(context), on_test=on_test)

    def measure(*, on_test: bool) -> tuple[Loss, Loss]:
        """Return the cost of a model that comes in, and what it must lie below."""

        def cost(message: Message, context: Context) -> float:
            score = scored(message, context, on_test=on_test)
            return float(criterion.cost(criterion.value(score.loss, score.metrics)))

        def bound(_: Message, context: Context) -> float:
            found = thresholds_of(client_of(context))
            return float(criterion.bound(found.test if on_test else found.judging))

        return cost, bound

    keep = RequirementStore(lambda _: describe_solo(
        local.federation, local.model, local.training, local.seed, local.local_optimizer,
        requirement,
    ))  # fmt: skip
    mod = appeal_mod(*measure(on_test=False), test=measure(on_test=True), keep=keep)
    if criterion.metric is not None:  # of models with the same metric, the one of least loss
        mod.judging = mod.judging._replace(
            tie_loss=lambda message, context: float(scored(message, context, on_test=False).loss)
        )
    app = ClientApp(mods=[mod])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        client = client_of(context)
        (config,) = message.content.config_records.values()
        round_ = int(config["server-round"]) - 1  # type: ignore[arg-type]
        drift = _drift(message, config, like)
        if keys.FAIRNESS in config or drift.correction is not None:
            _check_plain(local.local_optimizer)
        after = local.train(params_of(message, context), round_, client, drift)
        if local.model.keep_local:
            # The server gets back the state that it sent, so that it changes nothing.
            context.state[MODEL_STATE] = _record(after.state)
            after = after._replace(state=sent(message).state)
        size = int(local.federation.train_sizes[client])
        metrics = MetricRecord({"num-examples": size})
        if drift.correction is not None:
            steps: Any = local.training.local_steps
            metrics[keys.DISTANCE] = float(steps * local.rate(round_))
        content = RecordDict({"arrays": _record(after), "metrics": metrics})
        return Message(content, reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        client = client_of(context)
        score = scored(message, context, on_test=True)
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


def _drift(message: Message, config: ConfigRecord, like: Params) -> Drift:
    """Return what the server's method does against drift."""
    found = correction(message)
    pull: Any = config.get(keys.PROXIMAL_MU)
    if not found:
        return Drift(pull)
    part = {"params": trained(like)} if isinstance(like, Variables) else like
    named = from_named(found, part)
    return Drift(pull, named["params"] if isinstance(like, Variables) else named)


def _check_plain(optimizer: LocalOptimizer) -> None:
    """Refuse local steps that a method's definition does not have."""
    if not optimizer.is_plain:
        raise InputError(
            "the server trains by q-FFL or SCAFFOLD, which are defined for plain local SGD: leave "
            "local_optimizer out, or take another method"
        )


def _refuse(local: Local, requirement: Any) -> None:
    """Refuse what a client can't know."""
    if not isinstance(requirement, Requirement):
        raise InputError(
            f"client_app(local, requirement={requirement!r:.60}): expected a requirement, such as "
            f"maxfl.solo(steps=100)"
        )
    if requirement.rule is not None:
        raise InputError(
            "client_app: a node knows its own solo model alone, and the requirement's rule is of "
            "all clients: take maxfl.solo, fixed, metric or per_client"
        )
    numbers = *requirement.numbers, *(requirement.training.local_lr or ())
    if any(np.ndim(number) for number in numbers if number is not None):
        raise InputError("client_app: the requirement has arrays, which are of a sweep: give one")
    schedule = local.local_schedule
    if schedule.kind is not ScheduleKind.CONSTANT and schedule.hparams.rounds is None:
        raise InputError(
            f"local_schedule = {schedule.kind}: a client does not know how many rounds the server "
            f"plans; say over how many the rate falls, maxfl.schedules.{schedule.kind}(rounds=50)"
        )


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


def _client(context: Context, federation: Federation) -> int:
    number = context.node_config.get(keys.PARTITION)
    if not isinstance(number, int):
        raise InputError(
            f"this node's config has no {keys.PARTITION}: start it with --node-config "
            f"'{keys.PARTITION}=0', another number for each node"
        )
    if not 0 <= number < federation.clients:
        raise InputError(
            f"this node's {keys.PARTITION} is {number}, and the federation has "
            f"{federation.clients} clients: expected 0 to {federation.clients - 1}"
        )
    return number
