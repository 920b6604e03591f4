"""A client's part: measure the model that comes in, weigh, and decide, around any ClientApp.

The app trains as it did before. The mod computes F_k(w) and, once, ρ_k; adds q_k to the reply's
metrics; or answers for the app that the client stays away. Loss and requirement stay on the client.
"""

import math
from collections.abc import Callable
from typing import Any

from flwr.app import ConfigRecord, Context, Error, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp.typing import ClientAppCallable, Mod

from maxfl import appeal
from maxfl.errors import InputError
from maxfl.flower import terms

Loss = Callable[[Message, Context], float]
"""``loss(message, context)``: F_k of the model in ``message.content``, on the client's own data."""


def appeal_mod(loss_fn: Loss, requirement: float | Loss) -> Mod:
    """A mod that makes a ClientApp a client of MaxFL: ``ClientApp(mods=[appeal_mod(...)])``.

    Args:
        loss_fn: Mean loss of the incoming model over the client's training data.
        requirement: ρ_k: a number, or ``requirement(message, context)``, called once per client and
            run, such as one that trains a model alone and returns its loss.
    """
    if not callable(loss_fn):
        raise InputError(f"appeal_mod(loss_fn, ...): loss_fn is {loss_fn!r}; want a function")
    if not callable(requirement) and not math.isfinite(requirement):
        raise InputError(f"appeal_mod(..., requirement): {requirement!r} is not a finite number")

    def mod(message: Message, context: Context, app: ClientAppCallable) -> Message:
        if message.metadata.message_type not in (MessageType.TRAIN, MessageType.EVALUATE):
            return app(message, context)
        config = next(iter(message.content.config_records.values()), ConfigRecord())
        bar = _requirement(requirement, message, context)
        loss = float(loss_fn(message, context))
        satisfied = bool(appeal.appealing(loss, bar))
        training = message.metadata.message_type == MessageType.TRAIN
        if training and config.get(terms.MAY_DECLINE, False) and not satisfied:
            reason = "the model does not meet this client's requirement"
            return Message(Error(terms.DECLINED, reason), reply_to=message)
        reply = app(message, context)
        if reply.has_error():
            return reply
        metrics = _metrics(reply.content)
        metrics[terms.APPEAL] = int(satisfied)
        if training:
            temperature: Any = config.get(terms.TEMPERATURE, 1.0)
            metrics[terms.WEIGHT] = float(appeal.weight(loss, bar, temperature))
        if config.get(terms.REVEAL, False):
            metrics[terms.LOSS], metrics[terms.REQUIREMENT] = loss, bar
        return reply

    return mod


def _requirement(requirement: float | Loss, message: Message, context: Context) -> float:
    """ρ_k, from the client's own state after the first time."""
    known = context.state.get(terms.STATE)
    if isinstance(known, MetricRecord):
        return float(known[terms.REQUIREMENT])  # type: ignore[arg-type]
    bar = float(requirement(message, context) if callable(requirement) else requirement)
    if not math.isfinite(bar):
        raise InputError(f"the requirement of this client came out as {bar}: want a finite loss")
    context.state[terms.STATE] = MetricRecord({terms.REQUIREMENT: bar})
    return bar


def _metrics(content: RecordDict) -> MetricRecord:
    """The reply's metrics; Flower's strategies want exactly one such record."""
    for record in content.metric_records.values():
        return record
    content["metrics"] = MetricRecord()
    return content.metric_records["metrics"]
