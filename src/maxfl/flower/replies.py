"""What came back in a round, sorted: accepted, declined, failed, rejected, each with its node.

A reply is checked by itself and rejected alone: one broken client must not end a round.
"""

from collections.abc import Iterable, Mapping
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
from flwr.app import ArrayRecord, Message
from numpy.lib import format as npy
from numpy.typing import NDArray

from maxfl.flower import keys

Arrays = dict[str, NDArray[np.floating]]
LARGEST_WEIGHT = 0.25
"""s(1 − s) is never larger."""
MOST_EXAMPLES = 1e12
"""More samples than any client has."""


class Accepted(NamedTuple):
    """A reply that counts.

    Attributes:
        node: Who sent it.
        update: Δ_k = w − w_k, by name.
        weight: q_k.
        satisfied: Whether the model that went out met the client's requirement.
        examples: Samples that it trained on, as it says; 0 if it does not.
    """

    node: int
    update: Arrays
    weight: float
    satisfied: bool
    examples: float


class Refusal(NamedTuple):
    """A node whose reply does not count, and why."""

    node: int
    why: str


class Sorted(NamedTuple):
    """A round's replies."""

    accepted: list[Accepted]
    declined: list[Refusal]
    failed: list[Refusal]
    rejected: list[Refusal]


class Limits(NamedTuple):
    """What a reply must keep to.

    Attributes:
        largest_norm: Of its update.
        examples: What it calls the number of its samples.
        by_examples: Whether that number is needed, since it is the weight.
    """

    largest_norm: float
    examples: str
    by_examples: bool


def sort_replies(
    replies: Iterable[Message], model: Mapping[str, NDArray[np.floating]], limits: Limits
) -> Sorted:
    """Check every reply against the model that went out."""
    found = Sorted([], [], [], [])
    for reply in replies:
        node = reply.metadata.src_node_id
        if reply.has_error():
            declined = reply.error.code == keys.DECLINED
            group = found.declined if declined else found.failed
            group.append(Refusal(node, str(reply.error.reason or f"error {reply.error.code}")))
            continue
        checked = _checked(reply, model, limits)
        if isinstance(checked, str):
            found.rejected.append(Refusal(node, checked))
        else:
            found.accepted.append(checked)
    return found


def _checked(
    reply: Message, model: Mapping[str, NDArray[np.floating]], limits: Limits
) -> Accepted | str:
    """The reply as an update, or what is wrong with it."""
    arrays = list(reply.content.array_records.values())
    metrics = list(reply.content.metric_records.values())
    if len(arrays) != 1 or len(metrics) != 1:
        return f"{len(arrays)} array records and {len(metrics)} metric records; want one of each"
    weight, satisfied = metrics[0].get(keys.WEIGHT), metrics[0].get(keys.APPEAL)
    if not isinstance(weight, float) or not 0 <= weight <= LARGEST_WEIGHT:
        return f"{keys.WEIGHT} is {weight!r}; want a number from 0 to {LARGEST_WEIGHT}"
    if satisfied not in (0, 1):
        return f"{keys.APPEAL} is {satisfied!r}; want 0 or 1"
    examples = metrics[0].get(limits.examples)
    known = isinstance(examples, int | float) and 0 < examples < MOST_EXAMPLES
    if limits.by_examples and not known:
        return f"{limits.examples} is {examples!r}; want a number above 0"
    update = _update(arrays[0], model)
    if isinstance(update, str):
        return update
    norm = np.sqrt(sum(float((u.astype(np.float64) ** 2).sum()) for u in update.values()))
    if norm > limits.largest_norm:
        return f"its update has norm {norm:.3g}; the largest allowed is {limits.largest_norm:.3g}"
    samples = float(examples) if known else 0.0  # type: ignore[arg-type]
    return Accepted(reply.metadata.src_node_id, update, weight, bool(satisfied), samples)


def _update(arrays: ArrayRecord, model: Mapping[str, NDArray[np.floating]]) -> Arrays | str:
    """Δ_k = w − w_k, or what is wrong with w_k."""
    if list(arrays) != list(model):
        return f"its arrays are called {list(arrays)[:5]}; want {list(model)[:5]}"
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
    """The array in some bytes of NumPy's format, or what is wrong with it."""
    try:
        stream = BytesIO(data)
        found, _, kind = HEADERS[npy.read_magic(stream)](stream)
    except Exception as error:  # whatever a forged header may raise
        return f"can't be read: {type(error).__name__}"
    if found != shape or kind != dtype:
        return f"is {kind}{found}; want {dtype}{shape}"
    wanted = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if len(data) - stream.tell() != wanted:
        return f"has {len(data) - stream.tell()} bytes; want {wanted}"
    return np.load(BytesIO(data), allow_pickle=False)
