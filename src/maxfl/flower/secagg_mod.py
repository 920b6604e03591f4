"""A client's part in secure aggregation: it sends masked terms of sums, and nothing else.

Flower's SecAgg+ (Bell et al., CCS 2020) adds up vectors whose terms are masked. Its mod would leave
metrics, and so q_k, in the clear; here a client's term is the vector (q_k Δ_k, q_k, a_k/4, d_k/4,
1/4, n_k/4, g_k/4G), and the reply has nothing beside it; the bits are "satisfied", "declined",
"here" and "near its requirement", and g_k is the client's gap, up to G, where s_t is not known yet.
A client that stays away sends zeros and d_k = 1: the server learns how many did, not who. Where
there is noise, one whose app fails sends zeros: whether enough clients stay to the protocol's end,
which no noise hides, is then a matter of machines and networks, not of anybody's data. Of several
models, the vector has a slot for each (``secure.slots``), with zeros in all but one.
"""

import json
import math
from logging import WARNING
from typing import Any

import numpy as np
from flwr.app import (
    Array,
    ArrayRecord,
    ConfigRecord,
    Context,
    Message,
    MessageType,
    MetricRecord,
    RecordDict,
)
from flwr.client.mod import secaggplus_mod
from flwr.clientapp.typing import ClientAppCallable
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.common.logger import log
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS
from flwr.compat.common.recorddict_compat import fitres_to_recorddict, recorddict_to_fitins
from numpy.typing import NDArray

from maxfl.flower import keys
from maxfl.flower.replies.sort import MAX_GAP, MAX_WEIGHT
from maxfl.flower.secure.slots import pack
from maxfl.utils.errors import InputError

NamedArrays = dict[str, NDArray[Any]]
OF_THE_PROTOCOL = (keys.ARRAY_NAMES, keys.CLIP, keys.HIDES_FAILURES)
"""Config that is for this mod alone."""


def secure_mod(message: Message, context: Context, app: ClientAppCallable) -> Message:
    """Answer by secure aggregation alone; goes before ``appeal_mod`` in a ClientApp's mods.

    ``ClientApp(mods=[secure_mod, appeal_mod(...)])``.
    """
    kind = message.metadata.message_type
    if kind == MessageType.TRAIN and RECORD_KEY_CONFIGS in message.content.config_records:
        return secaggplus_mod(message, context, lambda m, c: _reply_with_term(m, c, app))
    if any(keys.PREPARE in config for config in message.content.config_records.values()):
        app(message, context)  # whatever it replies stays here
        return Message(RecordDict(), reply_to=message)
    if kind in (MessageType.TRAIN, MessageType.EVALUATE):
        raise InputError(
            "this client answers by secure aggregation alone: the server's strategy needs "
            "privacy=Privacy(secure=True, ...) and fraction_evaluate=0"
        )
    return app(message, context)


def _reply_with_term(message: Message, context: Context, app: ClientAppCallable) -> Message:
    """Let the app train, and answer with this client's term of the sums."""
    request = recorddict_to_fitins(message.content, keep_input=True)
    names = json.loads(str(request.config[keys.ARRAY_NAMES]))
    model: NamedArrays = dict(zip(names, parameters_to_ndarrays(request.parameters), strict=True))
    config = {k: v for k, v in request.config.items() if k not in OF_THE_PROTOCOL}
    message.content = RecordDict({
        "arrays": ArrayRecord({name: Array(array) for name, array in model.items()}),
        "config": ConfigRecord(config),  # type: ignore[arg-type]
    })  # fmt: skip
    models = int(request.config.get(keys.MODELS, 1))
    try:
        term = _term(model, models, app(message, context), float(request.config[keys.CLIP]))
    except Exception as error:  # whatever a client's app may raise
        if not request.config.get(keys.HIDES_FAILURES):
            raise
        log(WARNING, "this client adds zeros, so that its failure stays hidden: %s", error)
        term = _zeros(model, models, 0 * _scalars(0.0))
    result = FitRes(Status(Code.OK, ""), ndarrays_to_parameters(term), num_examples=1, metrics={})
    return Message(fitres_to_recorddict(result, keep_input=False), reply_to=message)


def _term(
    model: NamedArrays, models: int, reply: Message, clip: float
) -> list[NDArray[np.float64]]:
    """Return what a client adds to the sums, by the reply of its app."""
    if not reply.has_error():
        (arrays,) = reply.content.array_records.values()
        (metrics,) = reply.content.metric_records.values()
        trained = {name: arrays[name].numpy() for name in model}
        if models > 1:
            return _slotted_term(model, models, trained, metrics, clip)
        return _participant_term(model, trained, metrics, clip)
    if reply.error.code == keys.DECLINED:
        return _zeros(model, models, _scalars(0.0, declined=1))
    raise InputError(f"the client's app failed: {reply.error.reason}")


def _zeros(
    model: NamedArrays, models: int, scalars: NDArray[np.float64]
) -> list[NDArray[np.float64]]:
    """Return the term of a client without an update."""
    beside = scalars if models == 1 else pack(scalars, models)
    return [*(np.zeros(array.shape) for array in model.values()), beside]


def _slotted_term(
    before: NamedArrays, models: int, after: NamedArrays, metrics: MetricRecord, clip: float
) -> list[NDArray[np.float64]]:
    """Return the term of a participant with a slot for each model, zeros in all but its own."""
    number: Any = metrics[keys.MODEL]
    unmet_gap: Any = metrics.get(keys.UNMET_GAP, 0.0)
    alone = {name: array[number, ...] for name, array in before.items()}
    *updates, scalars = _participant_term(alone, after, metrics, clip)
    term = [np.zeros(array.shape) for array in before.values()]
    for slots, update in zip(term, updates, strict=True):
        slots[number] = update
    return [*term, pack(scalars, models, number, unmet_gap)]


def _participant_term(
    before: NamedArrays, after: NamedArrays, metrics: MetricRecord, clip: float
) -> list[NDArray[np.float64]]:
    """Return q_k Δ_k, with Δ_k clipped to C, and (q_k, a_k/4, 0, 1/4, n_k/4, g_k/4G).

    Nobody could see a bad term among the masks, and it would spoil everybody's sum: so a client
    refuses to send one.
    """
    weight: Any = metrics[keys.WEIGHT]
    satisfied: Any = metrics[keys.SATISFIED]
    near: Any = metrics.get(keys.NEAR, 0)  # nobody is asked where T is fixed
    gap: Any = metrics.get(keys.GAP, 0.0)
    if not 0 <= weight <= MAX_WEIGHT:
        raise InputError(f"this client's weight is {weight}: its loss or requirement is no number")
    for name, array in before.items():
        if after[name].shape != array.shape:
            raise InputError(
                f"{name} is {after[name].shape} after training; expected {array.shape}"
            )
    update = [before[name].astype(np.float64) - after[name] for name in before]
    norm = math.sqrt(sum(float((u**2).sum()) for u in update))
    if not math.isfinite(norm):
        raise InputError("this client's trained model has values that are not finite")
    factor = weight * min(1.0, clip / norm if norm else 1.0)
    return [factor * u for u in update] + [
        _scalars(weight, satisfied=int(satisfied), near=float(near), gap=gap)
    ]


def _scalars(
    weight: float, *, satisfied: int = 0, declined: int = 0, near: float = 0, gap: float = 0.0
) -> NDArray[np.float64]:
    """Return what a client adds to the sums beside its update; all of it is at most ¼, as weights.

    In the order of ``RoundSums``.
    """
    share = min(gap, MAX_GAP) / MAX_GAP
    return np.array([weight, satisfied / 4, declined / 4, 1 / 4, near / 4, share / 4])
