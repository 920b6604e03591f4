"""A client's part: measure the model that comes in, weigh, and decide, around any ClientApp.

The app trains as it did before. The mod computes F_k(w) and, once, ρ_k; adds q_k to the reply's
metrics; or answers for the app that the client stays away. Loss and requirement stay on the client.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from flwr.app import ConfigRecord, Context, Error, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp.typing import ClientAppCallable, Mod

from maxfl.core import appeal
from maxfl.flower import keys
from maxfl.utils.errors import InputError

Loss = Callable[[Message, Context], float]
"""``loss(message, context)``: F_k of the model in ``message.content``, on the client's own data."""


class _Measure(NamedTuple):
    """A loss and what it must stay below; ``name`` is that of ρ_k in the client's state."""

    name: str
    loss_fn: Loss
    requirement: float | Loss


def appeal_mod(
    loss_fn: Loss,
    requirement: float | Loss,
    *,
    held_out: tuple[Loss, float | Loss] | None = None,
) -> Mod:
    """A mod that makes a ClientApp a client of MaxFL: ``ClientApp(mods=[appeal_mod(...)])``.

    Args:
        loss_fn: Mean loss of the incoming model over the client's training data.
        requirement: ρ_k: a number, or ``requirement(message, context)``, called once per client and
            run, such as one that trains a model alone and returns its loss.
        held_out: The same two for data kept from training, by which a client judges the model when
            it is evaluated; without it, training data serve for that too. Weights and declining
            are by training data in any case, as in the paper.
    """
    train = _Measure(keys.REQUIREMENT, *_checked(loss_fn, requirement))
    test = None if held_out is None else _Measure(keys.TEST_REQUIREMENT, *_checked(*held_out))

    def mod(message: Message, context: Context, app: ClientAppCallable) -> Message:
        kind = message.metadata.message_type
        if kind not in (MessageType.TRAIN, MessageType.EVALUATE):
            return app(message, context)
        if keys.SECURE in message.content.config_records:
            raise InputError(
                "the server wants secure aggregation, for which this client has no mod: "
                "ClientApp(mods=[secure_mod, appeal_mod(...)])"
            )
        config = next(iter(message.content.config_records.values()), ConfigRecord())
        training, reveal = kind == MessageType.TRAIN, bool(config.get(keys.REVEAL, False))
        judge = train if training or test is None else test
        loss, bar = _measured(judge, message, context)
        satisfied = bool(appeal.appealing(loss, bar))
        if training and config.get(keys.MAY_DECLINE, False) and not satisfied:
            reason = "by its training data, the model does not meet its requirement"
            return Message(Error(keys.DECLINED, reason), reply_to=message)
        known = {judge.name: (loss, bar)}
        more = _revealed(train, test, known, message, context) if reveal else {}
        reply = app(message, context)
        if reply.has_error():
            return reply
        metrics = _metrics(reply.content)
        metrics[keys.APPEAL] = int(satisfied)
        if training:
            temperature: Any = config.get(keys.TEMPERATURE, 1.0)
            metrics[keys.WEIGHT] = float(appeal.weight(loss, bar, temperature))
        else:
            metrics[keys.HELD_OUT] = int(judge is test)
        for name, value in more.items():
            metrics[name] = value
        return reply

    return mod


def _checked(loss_fn: Loss, requirement: float | Loss) -> tuple[Loss, float | Loss]:
    if not callable(loss_fn):
        raise InputError(f"appeal_mod(loss_fn, ...): loss_fn is {loss_fn!r}; want a function")
    if callable(requirement):
        return loss_fn, requirement
    if not isinstance(requirement, int | float) or not math.isfinite(requirement):
        raise InputError(
            f"appeal_mod(..., requirement): {requirement!r} is neither a finite number nor a "
            f"function"
        )
    return loss_fn, requirement


def _measured(own: _Measure, message: Message, context: Context) -> tuple[float, float]:
    """F_k(w) and ρ_k."""
    bar = _requirement(own, message, context)
    return _called("loss", own.loss_fn, message, context), bar


def _requirement(own: _Measure, message: Message, context: Context) -> float:
    """ρ_k, from the client's own state after the first time."""
    known = context.state.get(keys.STATE)
    if isinstance(known, MetricRecord) and own.name in known:
        return float(known[own.name])  # type: ignore[arg-type]
    wanted = own.requirement
    bar = _called("requirement", wanted, message, context) if callable(wanted) else float(wanted)
    if not math.isfinite(bar):
        raise InputError(f"the requirement of this client came out as {bar}: want a finite loss")
    if not isinstance(known, MetricRecord):
        known = context.state[keys.STATE] = MetricRecord()
    known[own.name] = bar
    return bar


def _called(name: str, function: Loss, message: Message, context: Context) -> float:
    """What a function of the user's gives; if it fails, its client's log says so first."""
    try:
        return float(function(message, context))
    except Exception as error:
        raise InputError(
            f"the {name} function that this client gave to appeal_mod raised "
            f"{type(error).__name__}: {error}. Mend it in the client's app"
        ) from error


def _revealed(
    train: _Measure,
    test: _Measure | None,
    known: dict[str, tuple[float, float]],
    message: Message,
    context: Context,
) -> dict[str, float]:
    """Losses and requirements, for an operator who asks; ``known`` are measured already."""
    training = message.metadata.message_type == MessageType.TRAIN
    told: dict[str, float] = {}
    for own, name in ((train, keys.LOSS), (test, keys.TEST_LOSS)):
        if own is not None and (own is train or not training):
            there = own.name in known
            told[name], told[own.name] = (
                known[own.name] if there else _measured(own, message, context)
            )
    number = context.node_config.get(keys.PARTITION)
    return told | ({keys.PARTITION: number} if isinstance(number, int) else {})


def _metrics(content: RecordDict) -> MetricRecord:
    """The reply's metrics; Flower's strategies want exactly one such record."""
    for record in content.metric_records.values():
        return record
    content["metrics"] = MetricRecord()
    return content.metric_records["metrics"]
