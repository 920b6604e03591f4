"""SCAFFOLD on a client: its control variate c_k stays on the node, and the app is handed c − c_k.

Karimireddy et al., ICML 2020, algorithm 1, option II:

    y ← y − η_l (∇f_k(y) + c − c_k)      the app's steps, τ of them
    c_k⁺ = c_k − c + (w − y)/(τη_l)

The app finds c − c_k as a record of its message, adds it to every gradient, and says τη_l in its
reply. What goes out in the place of c is c + (c_k⁺ − c_k).
"""

import copy
import math
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, RecordDict
from flwr.clientapp.typing import ClientAppCallable
from numpy.typing import NDArray

from maxfl.flower import keys
from maxfl.utils.errors import InputError, shorten

Named = dict[str, NDArray[Any]]


class Correction(Named):
    """Arrays by name; 0 for those that are not corrected."""

    def __missing__(self, name: str) -> NDArray[Any]:
        """Return 0."""
        return np.zeros((), np.float32)


def correction(message: Message) -> Correction:
    """Return c − c_k by the names of the model's arrays, to be added to every gradient.

    It is empty, and gives 0 for every name, unless the server trains by SCAFFOLD and the client
    not alone. The reply then needs the metric "maxfl-distance": steps × learning rate.
    """
    record = message.content.array_records.get(keys.CORRECTION)
    if record is None:
        return Correction()
    return Correction({name: array.numpy() for name, array in record.items()})


def without_control(message: Message) -> tuple[Message, Named]:
    """Return the message as it would be without control variates, and the server's c; maybe none.

    The given message stays as it is.
    """
    content: RecordDict = message.content
    records = content.array_records
    control = {
        name.removeprefix(keys.CONTROL): array.numpy()
        for record in records.values()
        for name, array in record.items()
        if name.startswith(keys.CONTROL)
    }
    if not control:
        return message, {}
    plain = {
        key: ArrayRecord(
            {name: array for name, array in record.items() if not name.startswith(keys.CONTROL)}
        )
        for key, record in records.items()
    }
    return _with_content(message, RecordDict({**content, **plain})), control


def train_corrected(
    message: Message, control: Named, run: int, context: Context, app: ClientAppCallable
) -> Message:
    """Let the app train with its correction, and renew c_k.

    Args:
        message: Without the control variate.
        control: c.
        run: Which run of the server it is of; c_k of another is forgotten.
        context: Where c_k is kept.
        app: That trains.
    """
    before = _recall(context, run, control)
    minus = {name: c - before[name] for name, c in control.items()}
    (model,) = message.content.array_records.values()
    content = RecordDict({**message.content, keys.CORRECTION: _record(minus)})
    reply = app(_with_content(message, content), context)
    if reply.has_error():
        return reply
    distance = _distance(reply)
    (arrays,) = reply.content.array_records.values()
    renewed = {
        name: (model[name].numpy() - arrays[name].numpy()).astype(c.dtype) / distance - minus[name]
        for name, c in control.items()
    }
    if all(np.isfinite(array).all() for array in renewed.values()):
        context.state[keys.CONTROL] = _record(renewed)
        context.state[keys.CONTROL_RUN] = ConfigRecord({keys.CONTROL_RUN: run})
    else:  # or what made it so would do it again
        context.state.pop(keys.CONTROL_RUN, None)
    for name, c in control.items():
        arrays[f"{keys.CONTROL}{name}"] = Array(np.asarray(c + (renewed[name] - before[name])))
    return reply


def _recall(context: Context, run: int, control: Named) -> Named:
    """Return c_k; 0 where the node has none of this run."""
    known = context.state.config_records.get(keys.CONTROL_RUN)
    if known is None or known[keys.CONTROL_RUN] != run:
        return {name: np.zeros_like(c) for name, c in control.items()}
    kept = context.state.array_records[keys.CONTROL]
    return {name: kept[name].numpy() for name in control}


def _distance(reply: Message) -> float:
    """Return τη_l, which the app must say."""
    records = list(reply.content.metric_records.values())
    distance: Any = records[0].get(keys.DISTANCE) if records else None
    if not isinstance(distance, int | float) or not 0 < distance < math.inf:
        raise InputError(
            f"the server trains by SCAFFOLD, whose clients add the record {keys.CORRECTION!r} of "
            f"their message to every gradient and say how far they went: the reply's metric "
            f"{keys.DISTANCE!r} is {shorten(distance)}; expected steps × learning rate"
        )
    return float(distance)


def _record(named: Named) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(array, order="C")) for name, array in named.items()})


def _with_content(message: Message, content: RecordDict) -> Message:
    """Return a message with other content, that can be replied to as the given one."""
    made = copy.copy(message)
    made.content = content
    return made
