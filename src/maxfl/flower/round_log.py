"""What happened in a federation, round by round: plain data that a checkpoint can hold."""

import math
from typing import Any, NamedTuple

from maxfl.flower.sums import Counts

LONGEST_REASON = 300


class Event(NamedTuple):
    """Something that went otherwise than asked: kind is declined, failed or rejected."""

    node: int
    kind: str
    why: str

    @classmethod
    def of(cls, node: int, kind: str, why: object) -> "Event":
        """With the reason on one line and short, whatever a client sends as such."""
        return cls(node, kind, " ".join(str(why).split())[:LONGEST_REASON])


class Joined(NamedTuple):
    """A client that took part, where the operator lets losses be revealed."""

    node: int
    weight: float
    examples: float


class Opinion(NamedTuple):
    """What a client says of the model after a round; NaN where it does not.

    Attributes:
        node: Who says it.
        name: Number of the client in its node's config ("partition-id"), else -1.
        satisfied: Whether its requirement is met.
        held_out: Whether that is about data kept from training.
        accuracy: As its app measures it.
        examples: Samples that it measured on.
        loss: F_k(w).
        requirement: ρ_k.
        test_loss: The same two on data kept from training.
        test_requirement: See above.
    """

    node: int
    name: int
    satisfied: bool
    held_out: bool
    accuracy: float
    examples: float
    loss: float
    requirement: float
    test_loss: float
    test_requirement: float


class Evaluated(NamedTuple):
    """What all clients together say of the model after a round."""

    told: int
    satisfied: int
    held_out: bool
    accuracy: float

    @property
    def gm_appeal(self) -> float:
        """Share of satisfied clients among those that were heard; NaN without any."""
        return self.satisfied / self.told if self.told else math.nan


class Round(NamedTuple):
    """One round.

    Attributes:
        number: From 1.
        counts: How clients answered; of the model before the round.
        evaluated: What they say of the model after it, if they were asked.
        events: Who did not take part, and why.
        asked: Nodes that were asked; like the next two, only where losses are revealed.
        joined: Who took part.
        opinions: Every client's own.
    """

    number: int
    counts: Counts
    evaluated: Evaluated | None
    events: list[Event]
    asked: list[int]
    joined: list[Joined]
    opinions: list[Opinion]


def lines_of(own: Round) -> list[str]:
    """A round for people: a line, and one for everybody who did not take part."""
    counts, seen = own.counts, own.evaluated
    if seen is not None:
        appeal = f"GM-Appeal {seen.gm_appeal:.2f} of {seen.told} clients"
        appeal += "" if math.isnan(seen.accuracy) else f", accuracy {100 * seen.accuracy:.1f} %"
    elif counts.told:
        appeal = f"GM-Appeal before it {counts.gm_appeal:.2f} of {counts.told} clients"
    else:
        appeal = "nobody was heard"
    answers = [f"{counts.took_part} of {counts.asked} took part"]
    answers += [f"{n} {kind}" for kind, n in counts._asdict().items()
                if n and kind in ("declined", "failed", "rejected")]  # fmt: skip
    events = [f"  node {event.node} {event.kind}: {event.why}" for event in own.events]
    return [f"round {own.number}: {appeal}; {', '.join(answers)}", *events]


def to_plain(own: Round) -> list[Any]:
    """A round as lists, for JSON; it has no NaN."""
    return _without_nan(own)


def from_plain(content: list[Any]) -> Round:
    """The round again."""
    number, counts, evaluated, events, asked, joined, opinions = content
    return Round(
        number,
        Counts(*counts),
        None if evaluated is None else Evaluated(*map(_nan, evaluated)),
        [Event(*own) for own in events],
        asked,
        [Joined(*map(_nan, own)) for own in joined],
        [Opinion(*map(_nan, own)) for own in opinions],
    )


def _without_nan(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_without_nan(own) for own in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _nan(value: Any) -> Any:
    return math.nan if value is None else value
