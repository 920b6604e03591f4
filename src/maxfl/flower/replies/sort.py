"""What came back in a round, sorted: accepted, declined, failed, rejected, each with its node.

A reply is checked by itself and rejected alone: one broken client must not end a round.
"""

import math
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from reprlib import repr as shown
from typing import Any, NamedTuple

import numpy as np
from flwr.app import ArrayRecord, Message, MetricRecord

from maxfl.flower import keys
from maxfl.flower.replies.arrays import Arrays, is_trained, norm_of_update, of_model, read_array
from maxfl.flower.replies.metrics import wrong_metrics
from maxfl.flower.replies.pieces import in_threads

MAX_WEIGHT = 0.25
"""s(1 − s) is never larger."""
LARGEST_FLOAT = float(np.finfo(np.float32).max)
"""A larger number would be infinite where it is added up."""
MAX_GAP = 100.0
"""G: under secure aggregation a larger gap counts as this, since numbers there have bounds."""
MAX_EXAMPLES = 2**31 - 1
"""More samples than a client has, and than tables hold."""
NORM_RATIO = 100.0
"""By default an update may be so many times as long as the median one of its round.

Where most clients agree and have converged, an honest one that contradicts them sends an update
tens of times as long as theirs.
"""
FEWEST_NORMS = 3
"""From fewer updates no median says which of them is too long."""


class AcceptedReply(NamedTuple):
    """A reply that counts.

    Attributes:
        node: Its sender.
        arrays: w_k, by name; they lie in the message.
        norm: ‖w − w_k‖, of the model.
        weight: q_k.
        satisfied: Whether the model that went out met the client's requirement.
        near: 1 if its loss was within s_t of the requirement, where that is asked, else 0; p in a
            tie.
        gap: How far its loss was from the requirement, where that is asked; else 0.
        examples: Samples that it trained on, as it says; 0 if it does not.
        control_norm: ‖c_k⁺ − c_k‖ of SCAFFOLD, else 0.
        model: The model of a portfolio that it trained.
        unmet_gap: How far its loss was above the requirement, where that is asked; else 0.
    """

    node: int
    arrays: Arrays
    norm: float
    weight: float
    satisfied: bool
    near: float
    gap: float
    examples: float
    control_norm: float = 0.0
    model: int = 0
    unmet_gap: float = 0.0


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
        max_update_norm: Largest norm of its update; None: ``NORM_RATIO`` times the round's median.
        examples_key: Metric that holds the number of its samples.
        needs_examples: Whether that number is needed, since it is the weight.
        quantile: p, if it must say whether its loss is near the requirement, 1, 0 or, in a tie, p.
        clips: Whether updates are clipped, and norms must be exact.
        needs_gap: Whether it must say how far it is.
        fairness: q, if its weight is F_k^q; else it is at most ¼.
        offered: Of a portfolio, the models that each node may train; None where there is one model.
        needs_unmet_gap: Whether it must say how far it is above.
    """

    max_update_norm: float | None
    examples_key: str
    needs_examples: bool
    quantile: float | None
    clips: bool
    needs_gap: bool = False
    fairness: float | None = None
    offered: Mapping[int, Collection[int]] | None = None
    needs_unmet_gap: bool = False


def sort_replies(
    replies: Iterable[Message], asked: Container[int], model: Arrays, limits: ReplyLimits
) -> SortedReplies:
    """Check every reply against the model that went out, and updates against each other.

    Args:
        replies: Of a round, in the order in which they are to be added up.
        asked: Nodes that the model was sent to; others, and second replies, do not count.
        model: That went out; of a portfolio with a leading axis [models].
        limits: That they must keep to.
    """
    found = SortedReplies([], [], [], [])
    heard: set[int] = set()
    without_error: list[Message] = []
    for reply in replies:
        node = reply.metadata.src_node_id
        if node not in asked or node in heard:
            why = "a second reply" if node in heard else "nobody asked it in this round"
            found.rejected.append(RefusedReply(node, why))
            continue
        heard.add(node)
        if reply.has_error():
            group = found.declined if reply.error.code == keys.DECLINED else found.failed
            group.append(RefusedReply(node, str(reply.error.reason or f"error {reply.error.code}")))
            continue
        without_error.append(reply)
    checks = in_threads(lambda reply: _check_reply(reply, model, limits), without_error)
    for reply, checked in zip(without_error, checks, strict=True):
        if isinstance(checked, str):
            found.rejected.append(RefusedReply(reply.metadata.src_node_id, checked))
        else:
            found.accepted.append(checked)
    if limits.fairness is not None:
        found = _without_large_losses(found, limits.fairness)
    found = _without_long(found, limits.max_update_norm, "its update", lambda reply: reply.norm)
    return _without_long(found, None, "its control variate", lambda reply: reply.control_norm)


def _without_long(
    found: SortedReplies,
    largest: float | None,
    what: str,
    norm_of: Callable[[AcceptedReply], float],
) -> SortedReplies:
    """Reject what is longer than allowed, or far longer than in most replies of the round."""
    allowed = "the largest allowed"
    if largest is None:
        largest = _largest_usual([norm_of(reply) for reply in found.accepted])
        allowed = f"{NORM_RATIO:g} times the median of the round"
    fitting = [r for r in found.accepted if norm_of(r) <= largest and math.isfinite(norm_of(r))]
    accepted = {reply.node for reply in fitting}
    long = [
        RefusedReply(
            reply.node, f"{what} has norm {norm_of(reply):.3g}; {allowed} is {largest:.3g}"
        )
        for reply in found.accepted
        if reply.node not in accepted
    ]
    return found._replace(accepted=fitting, rejected=[*found.rejected, *long])


def _without_large_losses(found: SortedReplies, q: float) -> SortedReplies:
    """Reject losses, of which q-FFL's weights are the q-th power, that are far above the round's.

    Losses and not weights: those of honest clients are far apart where q is large.
    """
    with np.errstate(divide="ignore", over="ignore"):
        losses = np.exp(np.log([reply.weight for reply in found.accepted]) / q) if q > 0 else None
    if losses is None:
        return found
    largest = _largest_usual(list(map(float, losses)))
    pairs = list(zip(found.accepted, losses, strict=True))
    large = [
        RefusedReply(
            reply.node,
            f"{keys.WEIGHT} is {reply.weight:.3g}, of a loss of {loss:.3g}; {NORM_RATIO:g} times "
            f"the median of the round is {largest:.3g}",
        )
        for reply, loss in pairs
        if not loss <= largest
    ]
    accepted = [reply for reply, loss in pairs if loss <= largest]
    return found._replace(accepted=accepted, rejected=[*found.rejected, *large])


def _largest_usual(numbers: list[float]) -> float:
    """Return ``NORM_RATIO`` times the lower median; no bound where it is 0 or of too few."""
    median = sorted(numbers)[(len(numbers) - 1) // 2] if len(numbers) >= FEWEST_NORMS else 0.0
    # Where most send back what they were sent, no length is out of proportion to theirs.
    return NORM_RATIO * median if median > 0 else math.inf


def _check_reply(reply: Message, model: Arrays, limits: ReplyLimits) -> AcceptedReply | str:
    """Return the reply as what it adds, or what is wrong with it."""
    arrays = list(reply.content.array_records.values())
    records = list(reply.content.metric_records.values())
    if len(arrays) != 1 or len(records) != 1:
        return (
            f"{len(arrays)} array records and {len(records)} metric records; expected one of each"
        )
    metrics, node = records[0], reply.metadata.src_node_id
    if problem := wrong_metrics(metrics) or _wrong_answers(metrics, limits):
        return problem
    number: Any = 0
    if limits.offered is not None:
        if problem := wrong_model(metrics, limits.offered[node]):
            return problem
        number = metrics[keys.MODEL]
        model = of_model(model, number)
    after = _read_arrays(arrays[0], model)
    if isinstance(after, str):
        return after
    control = {name: w for name, w in model.items() if name.startswith(keys.CONTROL)}
    parts = {name: w for name, w in model.items() if name not in control}, control
    norms = [norm_of_update(part, after, exact=limits.clips) for part in parts]
    if not all(map(math.isfinite, norms)):
        if problem := _not_finite(model, after):
            return problem
        # Squares are too large for the type.
        norms = [norm_of_update(part, after, exact=True) for part in parts]
    examples: Any = metrics[limits.examples_key] if _has_examples(metrics, limits) else 0
    weight: Any = metrics[keys.WEIGHT]
    gap: Any = metrics[keys.GAP] if limits.needs_gap else 0
    near: Any = metrics[keys.NEAR] if limits.quantile is not None else 0
    unmet: Any = metrics[keys.UNMET_GAP] if limits.needs_unmet_gap else 0
    return AcceptedReply(
        node, after, norms[0], weight, bool(metrics[keys.SATISFIED]),
        float(near), float(gap), float(examples), norms[1], number, float(unmet),
    )  # fmt: skip


def wrong_model(metrics: MetricRecord, offered: Collection[int]) -> str:
    """Return what is wrong with the number of the model in a reply, "" if nothing is."""
    number = metrics.get(keys.MODEL)
    if number is None:
        return (
            f"no {keys.MODEL}, which says which of several models it is about: its client runs an "
            f"older maxfl; install the server's version there"
        )
    # Not isinstance: True is no number of a model.
    if type(number) is not int or number not in offered:
        allowed = " or ".join(map(str, sorted(offered)))
        return f"{keys.MODEL} is {shown(number)}; expected {allowed}, which it was sent"
    return ""


def _wrong_answers(metrics: MetricRecord, limits: ReplyLimits) -> str:
    """Return what is wrong with what MaxFL asked a client, "" if nothing is."""
    weight, satisfied = metrics.get(keys.WEIGHT), metrics.get(keys.SATISFIED)
    largest = MAX_WEIGHT if limits.fairness is None else LARGEST_FLOAT
    if not isinstance(weight, float) or not 0 <= weight <= largest:
        return f"{keys.WEIGHT} is {shown(weight)}; expected a number from 0 to {largest:g}"
    if satisfied is None and keys.OLD_SATISFIED in metrics:
        return "its client runs maxfl 0.1: install the server's version there"
    if satisfied not in (0, 1):
        return f"{keys.SATISFIED} is {shown(satisfied)}; expected 0 or 1"
    if problem := _wrong_solver_metrics(metrics, limits):
        return problem
    if limits.needs_examples and not _has_examples(metrics, limits):
        examples = metrics.get(limits.examples_key)
        return f"{limits.examples_key} is {shown(examples)}; expected a number above 0"
    return ""


def _wrong_solver_metrics(metrics: MetricRecord, limits: ReplyLimits) -> str:
    """Return what is wrong with what temperature and portfolio follow, "" if nothing is."""
    needed = {
        keys.NEAR: limits.quantile is not None,
        keys.GAP: limits.needs_gap,
        keys.UNMET_GAP: limits.needs_unmet_gap,
    }
    if missing := [name for name, is_needed in needed.items() if is_needed and name not in metrics]:
        return (
            f"no {missing[0]}, which the server asked for: its client runs an older maxfl; "
            f"install the server's version there"
        )
    near = metrics.get(keys.NEAR)
    if limits.quantile is not None and near not in (0, 1, limits.quantile):
        return f"{keys.NEAR} is {shown(near)}; expected 0, 1 or {limits.quantile:g}"
    asked = {keys.GAP: limits.needs_gap, keys.UNMET_GAP: limits.needs_unmet_gap}
    for name in (name for name, is_asked in asked.items() if is_asked):
        gap = metrics[name]
        if not (isinstance(gap, int | float) and 0 <= gap < math.inf):
            return f"{name} is {shown(gap)}; expected a number from 0 up"
    return ""


def _has_examples(metrics: MetricRecord, limits: ReplyLimits) -> bool:
    examples = metrics.get(limits.examples_key)
    return isinstance(examples, int | float) and 0 < examples < MAX_EXAMPLES


def _read_arrays(arrays: ArrayRecord, model: Arrays) -> Arrays | str:
    """Return w_k where it lies, or what is wrong with it."""
    if set(arrays) != set(model):
        return f"its arrays are called {list(arrays)[:5]}; expected {list(model)[:5]}"
    after: Arrays = {}
    for name, before in model.items():
        found = read_array(arrays[name].data, before.shape, before.dtype)
        if isinstance(found, str):
            return f"{name} {found}"
        after[name] = found
    return after


def _not_finite(model: Arrays, after: Arrays) -> str:
    """Return which array is not finite; "" if all are, and only the update's norm is not."""
    for name, before in model.items():
        if is_trained(before) and not np.isfinite(after[name]).all():
            return f"{name} has values that are not finite"
    return ""
