"""What clients say of a model when it is evaluated, heard one by one."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from flwr.app import Message, MetricRecord

from maxfl.flower import keys
from maxfl.flower.replies import MOST_EXAMPLES
from maxfl.flower.round_log import Evaluated, Event, Opinion


class Names(NamedTuple):
    """What the clients' apps call their test accuracy, and the number of their samples."""

    accuracy: str
    examples: str


class Heard(NamedTuple):
    """Opinions that count, the replies they came in, and what is wrong with the others."""

    opinions: list[Opinion]
    replies: list[Message]
    events: list[Event]


def hear(replies: Iterable[Message], asked: Sequence[int], names: Names) -> Heard:
    """Sort the replies to an evaluation of those who were asked."""
    good: list[tuple[Opinion, Message]] = []
    events: list[Event] = []
    silent = set(asked)
    for reply in sorted(replies, key=lambda own: own.metadata.src_node_id):
        node = reply.metadata.src_node_id
        silent.discard(node)
        if reply.has_error():
            events.append(Event.of(node, "failed", f"evaluation: {reply.error.reason}"))
            continue
        own = opinion_of(reply, names)
        if isinstance(own, str):
            events.append(Event.of(node, "rejected", f"evaluation: {own}"))
        else:
            good.append((own, reply))
    alike = {id(reply) for reply in most_alike([reply for _, reply in good])}
    events += [Event.of(own.node, "rejected", "evaluation: other metrics than most")
               for own, reply in good if id(reply) not in alike]  # fmt: skip
    events += [Event.of(node, "failed", "evaluation: no answer in time") for node in sorted(silent)]
    kept = [(own, reply) for own, reply in good if id(reply) in alike]
    return Heard([own for own, _ in kept], [reply for _, reply in kept], events)


def most_alike(replies: Sequence[Message]) -> list[Message]:
    """Those replies that have the metrics that most have; Flower averages no others."""
    shapes = [_shape(reply) for reply in replies]
    common = Counter(shapes).most_common(1)
    return [r for r, shape in zip(replies, shapes, strict=True) if shape == common[0][0]]


def _shape(reply: Message) -> frozenset[tuple[str, str, int]]:
    """Which metrics a reply has: record, name, and length of a list, 0 for a number."""
    return frozenset(
        (record, name, len(value) if isinstance(value, list) else 0)
        for record, metrics in reply.content.metric_records.items()
        for name, value in metrics.items()
    )


def opinion_of(reply: Message, names: Names) -> Opinion | str:
    """What a reply to an evaluation says, or why it says nothing."""
    records = list(reply.content.metric_records.values())
    if len(records) != 1:
        return f"{len(records)} metric records; want one"
    metrics = records[0]
    if metrics.get(keys.APPEAL) not in (0, 1):
        return f"{keys.APPEAL} is {metrics.get(keys.APPEAL)!r}; want 0 or 1"
    if not 0 < _number(metrics, names.examples) < MOST_EXAMPLES:
        return f"{names.examples} is {metrics.get(names.examples)!r}; want a number above 0"
    bad = [name for name, value in metrics.items()
           if isinstance(value, float) and not math.isfinite(value)]  # fmt: skip
    if bad:
        return f"{', '.join(bad[:3])} is not finite"
    name = _number(metrics, keys.PARTITION)
    return Opinion(
        reply.metadata.src_node_id,
        -1 if math.isnan(name) else int(name),
        bool(metrics[keys.APPEAL]),
        bool(metrics.get(keys.HELD_OUT, 0)),
        *(
            _number(metrics, key)
            for key in (*names, keys.LOSS, keys.REQUIREMENT, keys.TEST_LOSS,
                        keys.TEST_REQUIREMENT)
        ),
    )  # fmt: skip


def _number(metrics: MetricRecord, key: str) -> float:
    value = metrics.get(key)
    return float(value) if isinstance(value, int | float) else math.nan


def evaluated(opinions: list[Opinion]) -> Evaluated | None:
    """All opinions in one; None without any. Accuracy is a mean over clients, as in simulations."""
    if not opinions:
        return None
    known = [own.accuracy for own in opinions if not math.isnan(own.accuracy)]
    return Evaluated(
        len(opinions),
        sum(own.satisfied for own in opinions),
        2 * sum(own.held_out for own in opinions) > len(opinions),
        sum(known) / len(known) if known else math.nan,
    )
