"""What happened in a federation, round by round: plain data that a checkpoint can hold."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from maxfl.core.metrics import ACCURACY, MetricInfo
from maxfl.flower.sums import Counts
from maxfl.report.measures import measure_of, words_of

MAX_REASON_LENGTH = 300


class Event(NamedTuple):
    """A client that did not do what it was asked for.

    Attributes:
        node: Where it happened.
        kind: declined, failed or rejected.
        reason: What the client or the check of its reply says.
    """

    node: int
    kind: str
    reason: str

    @classmethod
    def of(cls, node: int, kind: str, reason: object) -> "Event":
        """Return an event whose reason is one short line, whatever a client sends as such."""
        words = " ".join(str(reason)[: 4 * MAX_REASON_LENGTH].split())[:MAX_REASON_LENGTH]
        # What a terminal would obey, and what would turn a line around, is not printable.
        return cls(node, kind, "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}"
                                       for c in words))  # fmt: skip


class Participant(NamedTuple):
    """A client that participated.

    Attributes:
        node: Its node.
        weight: q_k.
        examples: Samples that it trained on; 0 where that is not kept.
        satisfied: Whether the model that came in met its requirement; None in older folders.
        model: The model of a portfolio that it trained.
    """

    node: int
    weight: float
    examples: float
    satisfied: bool | None = None
    model: int = 0


class ClientEvaluation(NamedTuple):
    """What a client says of the model after a round; NaN where it does not.

    Attributes:
        node: Its node.
        client_id: Number of the client in its node's config ("partition-id"), else -1.
        satisfied: Whether its requirement is met.
        on_test: Whether it says so by its test data; else by its judging data.
        metric: The one that is collected, as its app measures it.
        examples: Samples that it measured on.
        loss: F_k(w), on its judging data.
        requirement: ρ_k.
        test_loss: f_k(w), on its test data.
        test_requirement: What ``test_loss`` must stay below.
        model: The model of a portfolio that it picked; all else is of that one.
    """

    node: int
    client_id: int
    satisfied: bool
    on_test: bool
    metric: float
    examples: float
    loss: float
    requirement: float
    test_loss: float
    test_requirement: float
    model: int = 0


class RoundEvaluation(NamedTuple):
    """What all clients together say of the model after a round.

    Attributes:
        responded: Clients whose evaluation counts.
        satisfied: Those whose requirement is met.
        on_test: Whether most said so by their test data.
        metric: Mean over the clients that measured it; NaN if none did.
    """

    responded: int
    satisfied: int
    on_test: bool
    metric: float

    @property
    def gm_appeal(self) -> float:
        """Share of satisfied clients among those that responded; NaN without any."""
        return self.satisfied / self.responded if self.responded else math.nan


class Solver(NamedTuple):
    """What clients are told of the solver in a round.

    Attributes:
        temperature: T_t; ∞, at which all weigh the same, where s_t is not known yet.
        scale: s_t, where T follows the clients' gaps, 0 where it is not known yet; NaN where T is
            fixed.
    """

    temperature: float
    scale: float = math.nan

    @property
    def follows_gaps(self) -> bool:
        """Whether T follows the clients' gaps."""
        return not math.isnan(self.scale)

    @property
    def asks_gaps(self) -> bool:
        """Whether clients are asked for their gaps, of which s begins as the mean."""
        return self.scale == 0

    def words(self) -> str:
        """Return T_t and s_t for people."""
        if self.asks_gaps:
            return "all weigh the same, until gaps are known"
        return f"T {self.temperature:.3g}, s {self.scale:.3g}"


class Round(NamedTuple):
    """One round.

    Attributes:
        number: From 1.
        solver: T_t and s_t.
        counts: How clients answered; of the model before the round.
        evaluation: What they say of the model after it, if they evaluated it.
        events: Clients that did not participate, and why.
        sampled: Nodes that were sampled, where losses are collected.
        participants: Clients that participated, where losses are collected or weights are kept.
        client_evaluations: What each client says of the model after the round, where losses are
            collected.
        no_step: Why the model stayed as it was; "" if it did not.
        models: How many clients trained each model of a portfolio; [] where there is one model.
    """

    number: int
    solver: Solver
    counts: Counts
    evaluation: RoundEvaluation | None
    events: list[Event]
    sampled: list[int]
    participants: list[Participant]
    client_evaluations: list[ClientEvaluation]
    no_step: str = ""
    models: Sequence[int] = ()


def format_round(entry: Round, metric: MetricInfo = ACCURACY) -> list[str]:
    """Return a round for people: a line, and one for everybody who did not participate."""
    counts, evaluation = entry.counts, entry.evaluation
    if evaluation is not None:
        appeal = f"GM-Appeal {evaluation.gm_appeal:.2f} of {evaluation.responded} clients"
        if not math.isnan(evaluation.metric):
            appeal += f", {words_of(metric)} {measure_of(metric).printed(evaluation.metric)}"
    elif counts.responded:
        appeal = f"GM-Appeal before it {counts.gm_appeal:.2f} of {counts.responded} clients"
    else:
        appeal = "nobody was heard"
    if entry.solver.follows_gaps:
        appeal += f"; {entry.solver.words()}"
    answers = [f"{counts.participated} of {counts.sampled} participated"]
    answers += [f"{n} {kind}" for kind, n in counts._asdict().items()
                if n and kind in ("declined", "failed", "rejected")]  # fmt: skip
    if entry.models:
        answers.append(f"models trained by {' + '.join(map(str, entry.models))}")
    events = [f"  node {event.node} {event.kind}: {event.reason}" for event in entry.events]
    if entry.no_step:
        events.append(f"  the model stayed as it was: {entry.no_step}")
    return [f"round {entry.number}: {appeal}; {', '.join(answers)}", *events]


def to_plain(entry: Round) -> list[Any]:
    """Return a round as lists, for JSON; it has no NaN."""
    return _without_nan(entry)


def from_plain(content: list[Any]) -> Round:
    """Return the round that ``to_plain`` made lists of."""
    saved = Round(*content)
    evaluation = saved.evaluation
    return saved._replace(
        solver=_solver(*saved.solver),
        counts=Counts(*saved.counts),
        evaluation=None if evaluation is None else RoundEvaluation(*map(_nan, evaluation)),
        events=[Event(*event) for event in saved.events],
        participants=[Participant(*map(_nan, client)) for client in saved.participants],
        client_evaluations=[
            ClientEvaluation(*map(_nan, client)) for client in saved.client_evaluations
        ],
    )


def _solver(temperature: float | None, scale: float | None) -> Solver:
    return Solver(math.inf if temperature is None else temperature, _nan(scale))


def _without_nan(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _nan(value: Any) -> Any:
    return math.nan if value is None else value
