"""What a round leaves in the log: who participated and who did not, as far as it may be told."""

from collections.abc import Callable, Sequence
from logging import INFO
from typing import Any

from flwr.app import Message, MetricRecord, RecordDict
from flwr.common.logger import log

from maxfl.flower.aggregation import RoundTotal, Sampled
from maxfl.flower.config import StrategyConfig
from maxfl.flower.evaluation import app_metrics, summarise_round
from maxfl.flower.replies.sort import SortedReplies
from maxfl.flower.round_log import ClientEvaluation, Event, Participant, Round


def begin_entry(
    config: StrategyConfig,
    number: int,
    sampled: Sampled,
    total: RoundTotal,
    events: list[Event],
    replies: SortedReplies,
    *,
    audits: bool,
) -> Round:
    """Note what happened in a round's training; ``audits``: who weighed how much, too."""
    collects = config.collect_losses
    counts_examples = collects or config.by_examples
    participants = [
        Participant(r.node, r.weight, r.examples if counts_examples else 0.0, r.satisfied, r.model)
        for r in replies.accepted
    ]
    return Round(
        number,
        sampled.solver,
        total.counts,
        evaluation=None,
        # Who was drawn is what hides everybody; the log is for the operator alone.
        events=[] if config.private else events,
        sampled=sampled.nodes if collects else [],
        participants=participants if collects or audits else [],
        client_evaluations=[],
        models=total.clients_by_model or [0] * config.models if config.has_portfolio else [],
    )


def end_entry(
    config: StrategyConfig, entry: Round, evaluations: list[ClientEvaluation], events: list[Event]
) -> Round:
    """Add what clients say of the model after the round."""
    return entry._replace(
        evaluation=summarise_round(evaluations),
        events=[*entry.events, *events],
        client_evaluations=evaluations if config.collect_losses else [],
    )


def train_metrics(
    config: StrategyConfig,
    messages: Sequence[Message],
    replies: SortedReplies,
    total: RoundTotal,
    average: Callable[[list[RecordDict], str], MetricRecord],
    examples_key: str,
) -> MetricRecord:
    """Return what Flower's result has of a round: what apps say of it, and how clients answered."""
    of_apps: dict[str, Any] = {}
    if config.privacy is None:
        nodes = {reply.node for reply in replies.accepted if reply.examples > 0}
        of_apps = app_metrics(messages, nodes, average, examples_key)
    counts = total.counts
    by_model = {f"model-{j}-clients": n for j, n in enumerate(total.clients_by_model)}
    appeal = {"gm-appeal": counts.gm_appeal}
    return MetricRecord({**of_apps, **counts._asdict(), **by_model, **appeal})


def log_events(events: list[Event]) -> None:
    """Tell the operator of every client that did not do what it was asked for."""
    for event in events:
        log(INFO, "\t> node %d %s: %s", event.node, event.kind, event.reason)
