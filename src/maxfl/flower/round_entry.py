"""What a round leaves in the log: who participated and who did not, as far as it may be told."""

from logging import INFO

from flwr.common.logger import log

from maxfl.flower.aggregation import Sampled
from maxfl.flower.config import StrategyConfig
from maxfl.flower.evaluation import summarise_round
from maxfl.flower.replies.sort import SortedReplies
from maxfl.flower.round_log import ClientEvaluation, Event, Participant, Round
from maxfl.flower.sums import Counts


def begin_entry(
    config: StrategyConfig,
    number: int,
    sampled: Sampled,
    counts: Counts,
    events: list[Event],
    replies: SortedReplies,
    *,
    audits: bool,
) -> Round:
    """Note what happened in a round's training; ``audits``: who weighed how much, too."""
    collects = config.collect_losses
    counts_examples = collects or config.by_examples
    participants = [
        Participant(r.node, r.weight, r.examples if counts_examples else 0.0, r.satisfied)
        for r in replies.accepted
    ]
    return Round(
        number,
        sampled.solver,
        counts,
        evaluation=None,
        # Who was drawn is what hides everybody; the log is for the operator alone.
        events=[] if config.private else events,
        sampled=sampled.nodes if collects else [],
        participants=participants if collects or audits else [],
        client_evaluations=[],
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


def log_events(events: list[Event]) -> None:
    """Tell the operator of every client that did not do what it was asked for."""
    for event in events:
        log(INFO, "\t> node %d %s: %s", event.node, event.kind, event.reason)
