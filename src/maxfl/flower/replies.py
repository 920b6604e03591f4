"""What came back in a round, sorted: accepted, declined, failed, rejected, each with its node.

A reply is checked by itself and rejected alone: one broken client must not end a round.
"""

import math
from collections.abc import Iterable, Mapping
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord
from numpy.lib import format as npy
from numpy.typing import NDArray

from maxfl.flower import keys

Arrays = dict[str, NDArray[np.floating]]
"""A model, or an update of one, by the names of its arrays."""
MAX_WEIGHT = 0.25
"""s(1 − s) is never larger."""
MAX_GAP = 100.0
"""G: under secure aggregation a larger gap counts as this, since numbers there have bounds."""
MAX_EXAMPLES = 1e12
"""More samples than any client has."""


def to_record(model: Arrays) -> ArrayRecord:
    """Return a model as Flower sends it."""
    return ArrayRecord({name: Array(array) for name, array in model.items()})


def to_arrays(record: ArrayRecord) -> Arrays:
    """Return a model that Flower sends."""
    return {name: array.numpy() for name, array in record.items()}


class AcceptedReply(NamedTuple):
    """A reply that counts.

    Attributes:
        node: Its sender.
        update: Δ_k = w − w_k, by name.
        weight: q_k.
        satisfied: Whether the model that went out met the client's requirement.
        near: 1 if its loss was within s_t of the requirement, where that is asked, else 0; p in a
            tie.
        gap: How far its loss was from the requirement, where that is asked; else 0.
        examples: Samples that it trained on, as it says; 0 if it does not.
    """

    node: int
    update: Arrays
    weight: float
    satisfied: bool
    near: float
    gap: float
    examples: float


class RefusedReply(NamedTuple):
    """A node whose reply does not count, and why."""

    node: int
    reason: str


class SortedReplies(NamedTuple):
    """A round's replies."""

    accepted: list[AcceptedReply]
    declined: list[RefusedReply]
    failed: list[RefusedReply]
    rejected: list[RefusedReply]


class ReplyLimits(NamedTuple):
    """What a reply must keep to.

    Attributes:
        max_update_norm: Largest norm of its update.
        examples_key: Metric that holds the number of its samples.
        needs_examples: Whether that number is needed, since it is the weight.
        quantile: p, if it must say whether its loss is near the requirement, 1, 0 or, in a tie, p.
        needs_gap: Whether it must say how far it is.
    """

    max_update_norm: float
    examples_key: str
    needs_examples: bool
    quantile: float | None
    needs_gap: bool = False


def sort_replies(
    replies: Iterable[Message], model: Mapping[str, NDArray[np.floating]], limits: ReplyLimits
) -> SortedReplies:
    """Check every reply against the model that went out."""
    sorted_replies = SortedReplies([], [], [], [])
    for reply in replies:
        node = reply.metadata.src_node_id
        if reply.has_error():
            declined = reply.error.code == keys.DECLINED
            group = sorted_replies.declined if declined else sorted_replies.failed
            group.append(RefusedReply(node, str(reply.error.reason or f"error {reply.error.code}")))
            continue
        checked = _check_reply(reply, model, limits)
        if isinstance(checked, str):
            sorted_replies.rejected.append(RefusedReply(node, checked))
        else:
            sorted_replies.accepted.append(checked)
    return sorted_replies


def _check_reply(
    reply: Message, model: Mapping[str, NDArray[np.floating]], limits: ReplyLimits
) -> AcceptedReply | str:
    """Return the reply as an update, or what is wrong with it."""
    arrays = list(reply.content.array_records.values())
    records = list(reply.content.metric_records.values())
    if len(arrays) != 1 or len(records) != 1:
        return (
            f"{len(arrays)} array records and {len(records)} metric records; expected one of each"
        )
    metrics = records[0]
    if problem := _wrong_metrics(metrics, limits):
        return problem
    update = _update(arrays[0], model)
    if isinstance(update, str):
        return update
    norm = np.sqrt(sum(float((u.astype(np.float64) ** 2).sum()) for u in update.values()))
    if norm > limits.max_update_norm:
        return (
            f"its update has norm {norm:.3g}; the largest allowed is {limits.max_update_norm:.3g}"
        )
    examples: Any = metrics[limits.examples_key] if _has_examples(metrics, limits) else 0
    weight: Any = metrics[keys.WEIGHT]
    gap: Any = metrics[keys.GAP] if limits.needs_gap else 0
    near: Any = metrics[keys.NEAR] if limits.quantile is not None else 0
    return AcceptedReply(
        reply.metadata.src_node_id, update, weight, bool(metrics[keys.SATISFIED]),
        float(near), float(gap), float(examples),
    )  # fmt: skip


def _wrong_metrics(metrics: MetricRecord, limits: ReplyLimits) -> str:
    """Return what is wrong with the metrics of a reply, "" if nothing is."""
    weight, satisfied = metrics.get(keys.WEIGHT), metrics.get(keys.SATISFIED)
    if not isinstance(weight, float) or not 0 <= weight <= MAX_WEIGHT:
        return f"{keys.WEIGHT} is {weight!r}; expected a number from 0 to {MAX_WEIGHT}"
    if satisfied is None and keys.OLD_SATISFIED in metrics:
        return "its client runs maxfl 0.1: install the server's version there"
    if satisfied not in (0, 1):
        return f"{keys.SATISFIED} is {satisfied!r}; expected 0 or 1"
    if problem := _wrong_solver_metrics(metrics, limits):
        return problem
    if limits.needs_examples and not _has_examples(metrics, limits):
        examples = metrics.get(limits.examples_key)
        return f"{limits.examples_key} is {examples!r}; expected a number above 0"
    return ""


def _wrong_solver_metrics(metrics: MetricRecord, limits: ReplyLimits) -> str:
    """Return what is wrong with what the temperature follows, "" if nothing is."""
    needed = {keys.NEAR: limits.quantile is not None, keys.GAP: limits.needs_gap}
    if missing := [name for name, is_needed in needed.items() if is_needed and name not in metrics]:
        return (
            f"no {missing[0]}, which the temperature follows: its client runs an older maxfl; "
            f"install the server's version there"
        )
    near, gap = metrics.get(keys.NEAR), metrics.get(keys.GAP)
    if limits.quantile is not None and near not in (0, 1, limits.quantile):
        return f"{keys.NEAR} is {near!r}; expected 0, 1 or {limits.quantile:g}"
    if limits.needs_gap and not (isinstance(gap, int | float) and 0 <= gap < math.inf):
        return f"{keys.GAP} is {gap!r}; expected a number from 0 up"
    return ""


def _has_examples(metrics: MetricRecord, limits: ReplyLimits) -> bool:
    examples = metrics.get(limits.examples_key)
    return isinstance(examples, int | float) and 0 < examples < MAX_EXAMPLES


def _update(arrays: ArrayRecord, model: Mapping[str, NDArray[np.floating]]) -> Arrays | str:
    """Return Δ_k = w − w_k, or what is wrong with w_k."""
    if list(arrays) != list(model):
        return f"its arrays are called {list(arrays)[:5]}; expected {list(model)[:5]}"
    update: Arrays = {}
    for name, before in model.items():
        after = read_array(arrays[name].data, before.shape, before.dtype)
        if isinstance(after, str):
            return f"{name} {after}"
        if not np.isfinite(after).all():
            return f"{name} has values that are not finite"
        update[name] = before - after
    return update


HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def read_array(data: bytes, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any] | str:
    """Return the array in some bytes of NumPy's format, or what is wrong with it.

    NumPy believes the header: one that claims a million gigabytes would end the server.
    """
    try:
        stream = BytesIO(data)
        found_shape, _, found_dtype = HEADERS[npy.read_magic(stream)](stream)
    except Exception as error:  # whatever a forged header may raise
        return f"can't be read: {type(error).__name__}"
    if found_shape != shape or found_dtype != dtype:
        return f"is {found_dtype}{found_shape}; expected {dtype}{shape}"
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if len(data) - stream.tell() != size:
        return f"has {len(data) - stream.tell()} bytes; expected {size}"
    return np.load(BytesIO(data), allow_pickle=False)
