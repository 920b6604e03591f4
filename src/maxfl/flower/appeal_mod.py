"""A client's part: measure the model that comes in, weigh, and decide, around any ClientApp.

The app trains as it did before. The mod computes F_k(w) and, once, ρ_k; adds q_k to the reply's
metrics; or answers for the app that the client stays away. Loss and requirement stay on the client.

A client should judge by data that it does not train on: a model that it trained alone may have
learnt its training samples by heart, and no other beats it there, however much better it is on new
ones. So split a client's data into three parts: what it trains on, what it judges by, and what is
for reported figures alone.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from flwr.app import ConfigRecord, Context, Error, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp.typing import ClientAppCallable, Mod

from maxfl.core import appeal
from maxfl.flower import keys
from maxfl.utils.errors import InputError

Loss = Callable[[Message, Context], float]
"""``loss(message, context)``: F_k of the model in ``message.content``, on the client's data."""
RENAMED = {"held_out": "test"}
"""Arguments of earlier versions, and what they are called now."""


class _Criterion(NamedTuple):
    """A loss and what it must stay below.

    Attributes:
        loss_key: Metric by which the loss is sent, where losses are collected.
        requirement_key: Metric by which ρ_k is sent, and its name in the client's state.
        loss_fn: Measures the loss.
        requirement: ρ_k, or what computes it.
    """

    loss_key: str
    requirement_key: str
    loss_fn: Loss
    requirement: float | Loss


class _Measurement(NamedTuple):
    """F_k(w) and ρ_k."""

    loss: float
    requirement: float

    @property
    def satisfied(self) -> bool:
        return bool(appeal.satisfied(self.loss, self.requirement))


def appeal_mod(
    loss_fn: Loss,
    requirement: float | Loss,
    *,
    test: tuple[Loss, float | Loss] | None = None,
    **unknown: Any,
) -> Mod:
    """Return a mod that makes an app a client of MaxFL: ``ClientApp(mods=[appeal_mod(...)])``.

    Args:
        loss_fn: Mean loss of the incoming model over the client's judging data, which it does not
            train on. In the paper these are its training data.
        requirement: ρ_k: a number, or ``requirement(message, context)``, called once per client and
            run, such as one that trains a model alone and returns its loss on the same data.
        test: A loss and a requirement for test data, by which clients say whether they are
            satisfied when the model is evaluated; without it, judging data serve for that too.
            Weights and declining are by judging data in any case.
        unknown: Nothing else is taken.
    """
    _refuse_unknown(unknown)
    _check_functions(loss_fn, requirement)
    judging = _Criterion(keys.LOSS, keys.REQUIREMENT, loss_fn, requirement)
    reported = None
    if test is not None:
        _check_functions(*_pair(test))
        reported = _Criterion(keys.TEST_LOSS, keys.TEST_REQUIREMENT, *test)

    def mod(message: Message, context: Context, app: ClientAppCallable) -> Message:
        kind = message.metadata.message_type
        if kind not in (MessageType.TRAIN, MessageType.EVALUATE):
            return app(message, context)
        if keys.SECURE in message.content.config_records:
            raise InputError(
                "the server asks for secure aggregation, for which this client has no mod: "
                "ClientApp(mods=[secure_mod, appeal_mod(...)])"
            )
        if kind == MessageType.TRAIN:
            return _train(judging, message, context, app)
        return _evaluate(judging, reported, message, context, app)

    return mod


def _train(
    criterion: _Criterion, message: Message, context: Context, app: ClientAppCallable
) -> Message:
    """Let the app train and add the weight to its reply, or decline for it."""
    config = _config(message)
    measured = _measure(criterion, message, context)
    if config.get(keys.MAY_DECLINE, False) and not measured.satisfied:
        reason = "by its judging data, the model does not meet its requirement"
        return Message(Error(keys.DECLINED, reason), reply_to=message)
    losses: dict[str, float] = {}
    if config.get(keys.COLLECT_LOSSES, False):
        losses = _losses(criterion, measured) | _client_id(context)
    reply = app(message, context)
    if reply.has_error():
        return reply
    temperature: Any = config.get(keys.TEMPERATURE, 1.0)
    weight = float(appeal.weight(measured.loss, measured.requirement, temperature))
    solver = _solver_metrics(measured, config.get(keys.SCALE), config.get(keys.QUANTILE))
    metrics = {keys.SATISFIED: int(measured.satisfied), keys.WEIGHT: weight}
    _add_metrics(reply, metrics | solver | losses)
    return reply


def _solver_metrics(measured: _Measurement, scale: Any, quantile: Any) -> dict[str, float]:
    """Return what the temperature follows: ``appeal.nearness``, whether the gap is below s_t.

    The gap itself goes out only where the server knows no s_t yet, and begins at the mean gap.
    """
    if scale is None:
        return {}
    gap = measured.loss - measured.requirement
    near = float(appeal.nearness(gap, measured.requirement, scale, quantile))
    return {keys.NEAR: near} | ({} if scale > 0 else {keys.GAP: abs(gap)})


def _evaluate(
    judging: _Criterion,
    test: _Criterion | None,
    message: Message,
    context: Context,
    app: ClientAppCallable,
) -> Message:
    """Let the app evaluate, and add to its reply whether the client is satisfied."""
    criterion = judging if test is None else test
    measured = _measure(criterion, message, context)
    losses: dict[str, float] = {}
    if _config(message).get(keys.COLLECT_LOSSES, False):
        if criterion is test:
            losses = _losses(judging, _measure(judging, message, context))
        losses |= _losses(criterion, measured) | _client_id(context)
    reply = app(message, context)
    if reply.has_error():
        return reply
    satisfied, on_test = int(measured.satisfied), int(criterion is test)
    _add_metrics(reply, {keys.SATISFIED: satisfied, keys.ON_TEST: on_test, **losses})
    return reply


def _refuse_unknown(arguments: Iterable[str]) -> None:
    """Refuse arguments of earlier versions with their new names, and others."""
    for name in arguments:
        new = f"{name}= is called {RENAMED[name]}= now" if name in RENAMED else f"no {name}= here"
        raise InputError(
            f"appeal_mod: {new}; expected appeal_mod(loss_fn, requirement, test=(loss_fn, "
            f"requirement))"
        )


def _pair(test: Any) -> tuple[Any, Any]:
    if not isinstance(test, tuple | list) or len(test) != 2:
        raise InputError(
            f"appeal_mod(..., test={test!r:.60}): expected a pair (loss_fn, requirement) for the "
            f"client's test data"
        )
    return test[0], test[1]


def _check_functions(loss_fn: Loss, requirement: float | Loss) -> None:
    if not callable(loss_fn):
        raise InputError(f"appeal_mod(loss_fn, ...): loss_fn is {loss_fn!r}; expected a function")
    if callable(requirement):
        return
    if not isinstance(requirement, int | float) or not math.isfinite(requirement):
        raise InputError(
            f"appeal_mod(..., requirement): {requirement!r} is neither a finite number nor a "
            f"function"
        )


def _config(message: Message) -> ConfigRecord:
    return next(iter(message.content.config_records.values()), ConfigRecord())


def _measure(criterion: _Criterion, message: Message, context: Context) -> _Measurement:
    requirement = _requirement(criterion, message, context)
    return _Measurement(_call("loss", criterion.loss_fn, message, context), requirement)


def _requirement(criterion: _Criterion, message: Message, context: Context) -> float:
    """Return ρ_k, from the client's state after the first time."""
    state = context.state.get(keys.STATE)
    if isinstance(state, MetricRecord) and criterion.requirement_key in state:
        return float(state[criterion.requirement_key])  # type: ignore[arg-type]
    given = criterion.requirement
    value = _call("requirement", given, message, context) if callable(given) else float(given)
    if not math.isfinite(value):
        raise InputError(
            f"the requirement of this client came out as {value}: expected a finite loss"
        )
    if not isinstance(state, MetricRecord):
        state = context.state[keys.STATE] = MetricRecord()
    state[criterion.requirement_key] = value
    return value


def _call(name: str, function: Loss, message: Message, context: Context) -> float:
    """Call a function of the user's; if it fails, its client's log says so first."""
    try:
        return float(function(message, context))
    except Exception as error:
        raise InputError(
            f"the {name} function that this client gave to appeal_mod raised "
            f"{type(error).__name__}: {error}. Fix it in the client's app"
        ) from error


def _losses(criterion: _Criterion, measured: _Measurement) -> dict[str, float]:
    """Return loss and requirement as metrics, for an operator who collects them."""
    return {criterion.loss_key: measured.loss, criterion.requirement_key: measured.requirement}


def _client_id(context: Context) -> dict[str, float]:
    number = context.node_config.get(keys.PARTITION)
    return {keys.PARTITION: number} if isinstance(number, int) else {}


def _add_metrics(reply: Message, metrics: dict[str, float]) -> None:
    """Add to the reply's metrics; Flower's strategies expect exactly one such record."""
    content: RecordDict = reply.content
    if not content.metric_records:
        content["metrics"] = MetricRecord()
    record = next(iter(content.metric_records.values()))
    for name, value in metrics.items():
        record[name] = value
