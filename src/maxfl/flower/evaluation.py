"""What clients measure of a model, checked one by one, and averages of it."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from reprlib import repr as shown
from typing import Any, NamedTuple

from flwr.app import Message, MetricRecord, RecordDict

from maxfl.core.metrics import ACCURACY
from maxfl.flower import keys
from maxfl.flower.replies.metrics import wrong_metrics
from maxfl.flower.replies.sort import MAX_EXAMPLES, wrong_model
from maxfl.flower.round_log import ClientEvaluation, Event, RoundEvaluation

MAX_CLIENTS = 2**31
"""Numbers of clients lie below it."""


class MetricNames(NamedTuple):
    """What the clients' apps call the metric that is collected, and the number of their samples."""

    metric: str
    examples: str


class EvaluationReplies(NamedTuple):
    """A round's replies to an evaluation.

    Attributes:
        evaluations: Those that count.
        messages: The messages they came in.
        events: What is wrong with the others.
    """

    evaluations: list[ClientEvaluation]
    messages: list[Message]
    events: list[Event]


def read_evaluations(
    replies: Iterable[Message],
    sampled: Sequence[int],
    names: MetricNames,
    offered: Mapping[int, Collection[int]] | None = None,
) -> EvaluationReplies:
    """Sort the replies of the nodes that were to evaluate.

    ``offered`` are the models of a portfolio that each was sent.
    """
    good: list[tuple[ClientEvaluation, Message]] = []
    events: list[Event] = []
    silent = set(sampled)
    for reply in sorted(replies, key=lambda message: message.metadata.src_node_id):
        node = reply.metadata.src_node_id
        if node not in silent:
            reason = "evaluation: a second reply, or nobody asked it"
            events.append(Event.of(node, "rejected", reason))
            continue
        silent.remove(node)
        if reply.has_error():
            events.append(Event.of(node, "failed", f"evaluation: {reply.error.reason}"))
            continue
        evaluation = _read_evaluation(reply, names, None if offered is None else offered[node])
        if isinstance(evaluation, str):
            events.append(Event.of(node, "rejected", f"evaluation: {evaluation}"))
        else:
            good.append((evaluation, reply))
    common = {id(reply) for reply in with_common_metrics([reply for _, reply in good])}
    events += [Event.of(evaluation.node, "rejected", "evaluation: other metrics than most")
               for evaluation, reply in good if id(reply) not in common]  # fmt: skip
    events += [Event.of(node, "failed", "evaluation: no answer in time") for node in sorted(silent)]
    counted = [(evaluation, reply) for evaluation, reply in good if id(reply) in common]
    return EvaluationReplies(
        [evaluation for evaluation, _ in counted], [reply for _, reply in counted], events
    )


def with_common_metrics(replies: Sequence[Message]) -> list[Message]:
    """Return those replies that have the metrics that most have; Flower averages no others."""
    signatures = [_metric_signature(reply) for reply in replies]
    common = Counter(signatures).most_common(1)
    return [r for r, metrics in zip(replies, signatures, strict=True) if metrics == common[0][0]]


def app_metrics(
    messages: Sequence[Message],
    nodes: Container[int],
    average: Callable[[list[RecordDict], str], MetricRecord],
    examples_key: str,
) -> dict[str, Any]:
    """Return what the apps of some nodes say of their training, averaged as FedAvg would."""
    good = [message for message in messages if message.metadata.src_node_id in nodes]
    if not good:
        return {}
    contents = [message.content for message in with_common_metrics(good)]
    metrics = average(contents, examples_key)
    return {name: value for name, value in metrics.items() if name not in keys.METRICS}


def _metric_signature(reply: Message) -> frozenset[tuple[str, str, int]]:
    """Return which metrics a reply has: record, name, and length of a list, −1 for a number."""
    return frozenset(
        (record, name, len(value) if isinstance(value, list) else -1)
        for record, metrics in reply.content.metric_records.items()
        for name, value in metrics.items()
    )


def _read_evaluation(
    reply: Message, names: MetricNames, offered: Collection[int] | None
) -> ClientEvaluation | str:
    """Return what a reply to an evaluation says, or why it does not count."""
    records = list(reply.content.metric_records.values())
    if len(records) != 1:
        return f"{len(records)} metric records; expected one"
    metrics = records[0]
    if problem := wrong_metrics(metrics) or _wrong_evaluation(metrics, names):
        return problem
    if offered is not None and (problem := wrong_model(metrics, offered)):
        return problem
    model: Any = metrics[keys.MODEL] if offered is not None else 0
    client_id = _number(metrics, keys.PARTITION)
    return ClientEvaluation(
        node=reply.metadata.src_node_id,
        client_id=-1 if math.isnan(client_id) else int(client_id),
        satisfied=bool(metrics[keys.SATISFIED]),
        on_test=bool(metrics.get(keys.ON_TEST, 0)),
        metric=_metric(metrics, names.metric),
        examples=_number(metrics, names.examples),
        loss=_number(metrics, keys.LOSS),
        requirement=_number(metrics, keys.REQUIREMENT),
        test_loss=_number(metrics, keys.TEST_LOSS),
        test_requirement=_number(metrics, keys.TEST_REQUIREMENT),
        model=model,
    )


def _wrong_evaluation(metrics: MetricRecord, names: MetricNames) -> str:
    """Return what is wrong with a client's evaluation, "" if nothing is."""
    for name, value in (
        (keys.SATISFIED, metrics.get(keys.SATISFIED)),
        (keys.ON_TEST, metrics.get(keys.ON_TEST, 0)),
    ):
        if value not in (0, 1):
            return f"{name} is {shown(value)}; expected 0 or 1"
    if not 0 < _number(metrics, names.examples) < MAX_EXAMPLES:
        found = shown(metrics.get(names.examples))
        return f"{names.examples} is {found}; expected a number above 0"
    if names.metric == ACCURACY.name and not 0 <= _metric(metrics, names.metric, default=0.0) <= 1:
        return f"{names.metric} is {_metric(metrics, names.metric)}; expected 0 to 1"
    partition = metrics.get(keys.PARTITION, 0)
    if not isinstance(partition, int) or not 0 <= partition < MAX_CLIENTS:
        return f"{keys.PARTITION} is {shown(partition)}; expected a whole number from 0 up"
    return ""


def _metric(metrics: MetricRecord, name: str, default: float = math.nan) -> float:
    """Return the metric, which ``maxfl.flower.jax_client`` calls ``test-accuracy`` and the like."""
    return _number(metrics, name if name in metrics else f"test-{name}", default)


def _number(metrics: MetricRecord, key: str, default: float = math.nan) -> float:
    value = metrics.get(key, default)
    return float(value) if isinstance(value, int | float) else math.nan


def summarise_round(evaluations: list[ClientEvaluation]) -> RoundEvaluation | None:
    """Put all clients' evaluations into one, None without any.

    The metric is a mean over clients, as in simulations.
    """
    if not evaluations:
        return None
    known = [client.metric for client in evaluations if not math.isnan(client.metric)]
    return RoundEvaluation(
        responded=len(evaluations),
        satisfied=sum(client.satisfied for client in evaluations),
        on_test=2 * sum(client.on_test for client in evaluations) > len(evaluations),
        metric=sum(known) / len(known) if known else math.nan,
    )
