"""What clients say of a model when it is evaluated, heard one by one."""

import math
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from flwr.app import Message, MetricRecord

from maxfl.flower import terms
from maxfl.flower.record import Evaluated, Event, Opinion


class Heard(NamedTuple):
    """Opinions that count, the replies they came in, and what is wrong with the others."""

    opinions: list[Opinion]
    replies: list[Message]
    events: list[Event]


def hear(replies: Iterable[Message], accuracy: str, examples: str) -> Heard:
    """Sort the replies to an evaluation.

    Args:
        replies: All that came back.
        accuracy: What the apps call their accuracy.
        examples: What they call the number of their samples.
    """
    good: list[tuple[Opinion, Message]] = []
    events: list[Event] = []
    for reply in replies:
        node = reply.metadata.src_node_id
        if reply.has_error():
            events.append(Event(node, "failed", f"evaluation: {reply.error.reason}"))
            continue
        own = opinion_of(reply, accuracy, examples)
        if isinstance(own, str):
            events.append(Event(node, "rejected", f"evaluation: {own}"))
        else:
            good.append((own, reply))
    # Flower averages only replies that all have the same metrics.
    names = Counter(_names(reply) for _, reply in good).most_common(1)
    odd = [own.node for own, reply in good if _names(reply) != names[0][0]]
    events += [Event(node, "rejected", "evaluation: other metrics than most") for node in odd]
    kept = [(own, reply) for own, reply in good if own.node not in odd]
    return Heard([own for own, _ in kept], [reply for _, reply in kept], events)


def _names(reply: Message) -> frozenset[str]:
    return frozenset(name for own in reply.content.metric_records.values() for name in own)


def opinion_of(reply: Message, accuracy: str, examples: str) -> Opinion | str:
    """What a reply to an evaluation says, or why it says nothing."""
    records = list(reply.content.metric_records.values())
    if len(records) != 1:
        return f"{len(records)} metric records; want one"
    metrics = records[0]
    if metrics.get(terms.APPEAL) not in (0, 1):
        return f"{terms.APPEAL} is {metrics.get(terms.APPEAL)!r}; want 0 or 1"
    if not _number(metrics, examples) > 0:
        return f"{examples} is {metrics.get(examples)!r}; want a number above 0"
    bad = [name for name, value in metrics.items()
           if isinstance(value, float) and not math.isfinite(value)]  # fmt: skip
    if bad:
        return f"{', '.join(bad[:3])} is not finite"
    name = _number(metrics, terms.PARTITION)
    return Opinion(
        reply.metadata.src_node_id,
        -1 if math.isnan(name) else int(name),
        bool(metrics[terms.APPEAL]),
        bool(metrics.get(terms.HELD_OUT, 0)),
        *(
            _number(metrics, key)
            for key in (accuracy, examples, terms.LOSS, terms.REQUIREMENT, terms.TEST_LOSS,
                        terms.TEST_REQUIREMENT)
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
        all(own.held_out for own in opinions),
        sum(known) / len(known) if known else math.nan,
    )
