"""A federation's rounds as what a simulation leaves behind: metrics, tables, a summary."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from maxfl.core import appeal
from maxfl.core.metrics import MetricInfo
from maxfl.core.requirements.requirement import Solo, Thresholds
from maxfl.engine.diagnosis.departure import EVERYBODY_LEFT
from maxfl.engine.history import History
from maxfl.engine.state import CohortRecord, Evaluation
from maxfl.flower.monitoring.stall import stall_of
from maxfl.flower.round_log import Round, Solver
from maxfl.runs.summary import number


class Clients(NamedTuple):
    """The clients that sent evaluations, [K] each.

    After a restart of the SuperLink a client has another node; its number in its node's config is
    then what it is known by.

    Attributes:
        slots: The slot of each node's client.
        names: For people.
        train_sizes: Samples that it trained on, 0 if it never did.
        test_sizes: Samples that it measured on.
    """

    slots: dict[int, int]
    names: NDArray[Any]
    train_sizes: NDArray[np.int64]
    test_sizes: NDArray[np.int64]


class MetricSeries(NamedTuple):
    """A metric over rounds: the rounds done at each value, and the values."""

    rounds: list[int]
    values: list[float]


def metric_series(rounds: Sequence[Round], metric: MetricInfo) -> dict[str, MetricSeries]:
    """Return every metric by name.

    Clients say what they think of the model that comes in; so without evaluation, GM-Appeal after
    r rounds is what those of round r + 1 said, and nobody has evaluated the last model.
    """
    numbers = [entry.number for entry in rounds]
    before = [done - 1 for done in numbers]
    counts = [entry.counts for entry in rounds]
    appeal_before = MetricSeries(before, [count.gm_appeal for count in counts])
    evaluated = [(entry.number, entry.evaluation) for entry in rounds if entry.evaluation]
    series = {"gm_appeal_judging": appeal_before}
    if evaluated:
        after = [done for done, _ in evaluated]
        series["gm_appeal"] = MetricSeries(after, [found.gm_appeal for _, found in evaluated])
        measured = [found.metric for _, found in evaluated]
        series[f"test_{metric.name}"] = MetricSeries(after, measured)
    else:
        series["gm_appeal"] = appeal_before
    willing = [1 - c.declined / c.responded if c.responded else math.nan for c in counts]
    series["willing"] = MetricSeries(before, willing)
    for name in counts[0]._fields if counts else ():
        series[name] = MetricSeries(numbers, [float(getattr(count, name)) for count in counts])
    for j in range(max((len(entry.models) for entry in rounds), default=0)):
        series[f"model_{j}_clients"] = MetricSeries(numbers, [float(e.models[j]) for e in rounds])
    if any(entry.solver.follows_gaps for entry in rounds):
        for name in Solver._fields:
            series[name] = MetricSeries(numbers, [getattr(entry.solver, name) for entry in rounds])
    return series


def metrics_table(rounds: Sequence[Round], metric: MetricInfo) -> pa.Table:
    """Return the metrics in the form of a simulation's metrics.parquet."""
    rows = [
        {"configuration": 0, "seed": 0, "round": done, "clients": "seen", "model": "global",
         "metric": name, "value": value}
        for name, series in metric_series(rounds, metric).items()
        for done, value in zip(series.rounds, series.values, strict=True)
    ]  # fmt: skip
    kinds = [("configuration", pa.int32()), ("seed", pa.int64()), ("round", pa.int32()),
             *((name, pa.string()) for name in ("clients", "model", "metric")),
             ("value", pa.float32())]  # fmt: skip
    return pa.Table.from_pylist(rows, pa.schema(kinds))


def summary_entry(rounds: Sequence[Round], title: str, metric: MetricInfo) -> dict[str, Any]:
    """Return the figures of the final model, and what happened on the way."""
    last = {
        name: number(series.values[-1]) if series.values else None
        for name, series in metric_series(rounds, metric).items()
    }
    unknown = {"test": None, "judging": None, "literal": None}
    reading = "test" if _is_on_test(rounds) else "judging"
    return {
        "values": {},
        "data": title,
        "notes": _notes(rounds),
        "warnings": _warnings(rounds),
        "diverged": False,
        "stalled_from_round": None if (stall := stall_of(rounds)) is None else stall.first,
        "clients_without_requirement": 0,
        "byzantine_clients": 0,
        "metrics": [metric._asdict()],
        "seen": {
            f"test_{metric.name}": last.get(f"test_{metric.name}"),
            "gm_appeal": unknown | {reading: last["gm_appeal"]},
            "willing": last["willing"],
        },
        "unseen": None,
        "personal": None,
        "answers": _total_counts(rounds),
        "events": [
            {"round": entry.number, "node": str(event.node), "kind": event.kind,
             "why": event.reason}
            for entry in rounds
            for event in entry.events
        ],
    }  # fmt: skip


def _total_counts(rounds: Sequence[Round]) -> dict[str, int]:
    if not rounds:
        return {}
    return {
        name: int(sum(getattr(entry.counts, name) for entry in rounds))
        for name in rounds[0].counts._fields
    }


def _is_on_test(rounds: Sequence[Round]) -> bool:
    """Return whether clients used test data in every round that they evaluated."""
    evaluations = [entry.evaluation for entry in rounds if entry.evaluation is not None]
    return bool(evaluations) and all(evaluation.on_test for evaluation in evaluations)


def _warnings(rounds: Sequence[Round]) -> list[dict[str, str]]:
    """Say whether all stands still, and in how many other rounds the model stayed as it was."""
    stall = stall_of(rounds)
    moving = rounds if stall is None else rounds[: stall.first - 1]
    found = [] if stall is None else [{"kind": EVERYBODY_LEFT, "text": stall.text}]
    if still := [entry for entry in moving if entry.no_step]:
        why = still[0].no_step
        text = f"in {len(still)} of {len(rounds)} rounds the model stayed as it was: {why}"
        found.append({"kind": "no-step", "text": text})
    return found


def _notes(rounds: Sequence[Round]) -> list[str]:
    """Return what a reader must know of the figures."""
    notes = ["GM-Appeal is what the clients said of the model"]
    if not any(entry.evaluation for entry in rounds):
        notes[0] += " when they were sampled to train it, by their judging data; nobody has "
        notes[0] += "evaluated the model of the last round"
    elif not _is_on_test(rounds):
        notes[0] += ", by their judging data: not all have test data beside them"
    if rounds and (models := len(rounds[-1].models)):
        notes.append(
            f"there are {models} models, of which each client uses the one that suits it best: "
            f"what is said of the model is of that one, and arrays in its file have a leading axis "
            f"for the models"
        )
    if any(entry.client_evaluations for entry in rounds):
        notes.append("a client that did not answer counts with what it said last")
    return notes


def build_history(
    rounds: Sequence[Round], temperature: float, may_decline: bool, metric: MetricInfo
) -> tuple[History, Clients] | None:
    """Return a history client by client, as a simulation's; None without collected losses.

    ``temperature`` is the one after all rounds: weights are those of the round to come.
    """
    evaluated = [entry for entry in rounds if entry.client_evaluations]
    if not evaluated:
        return None
    to_come = [*(entry.solver.temperature for entry in rounds[1:]), temperature]
    temperatures = np.array([t for entry, t in zip(rounds, to_come, strict=True)
                             if entry.client_evaluations], np.float32)[:, None]  # fmt: skip
    clients = _clients(rounds)
    scores, count = _scores(evaluated, clients), len(clients.names)
    satisfied = np.asarray(appeal.satisfied(scores.loss, scores.requirement), bool)
    weight = np.asarray(appeal.weight(scores.loss, scores.requirement, temperatures))
    unknown = np.full((1, count), np.nan, np.float32)
    history = History(
        rounds=np.array([entry.number for entry in evaluated]),
        is_seen=np.ones(count, bool),
        evaluation=Evaluation(
            judging_loss=scores.loss[None],
            test_loss=scores.test_loss[None],
            test_metrics=(scores.metric[None],),
            willing=(satisfied | (not may_decline))[None],  # type: ignore[arg-type]
            weight=weight[None],  # type: ignore[arg-type]
            picked=scores.model[None] if evaluated[0].models else (),
        ),
        cohorts=_cohorts(rounds, clients.slots),
        solo=Solo(unknown, unknown, (unknown,)),
        thresholds=Thresholds(scores.requirement[-1:], scores.test_requirement[-1:]),
        is_byzantine=np.zeros((1, count), bool),
        params=(),
        metric_infos=(metric,),
    )
    return history, clients


NOBODY = -1
"""In the place of a model: the client has not said which it picks."""


class _Scores(NamedTuple):
    """What clients said after each evaluated round, float32[E, K] each; NaN before the first.

    ``model`` is the one of a portfolio that they picked, int32[E, K]; ``NOBODY`` before the first.
    """

    loss: Any
    requirement: Any
    test_loss: Any
    test_requirement: Any
    metric: Any
    model: Any


def _scores(evaluated: Sequence[Round], clients: Clients) -> _Scores:
    shape = (len(evaluated), len(clients.names))
    numbers = [np.full(shape, np.nan, np.float32) for _ in _Scores._fields[:-1]]
    scores = _Scores._make([*numbers, np.full(shape, NOBODY, np.int32)])
    for e, entry in enumerate(evaluated):
        for client in entry.client_evaluations:
            k = clients.slots[client.node]
            # Until it says something else, a client counts with what it said last.
            scores.loss[e:, k] = client.loss
            scores.requirement[e:, k] = client.requirement
            scores.metric[e:, k] = client.metric
            scores.model[e:, k] = client.model
            scores.test_loss[e:, k] = client.test_loss if client.on_test else client.loss
            scores.test_requirement[e:, k] = (
                client.test_requirement if client.on_test else client.requirement
            )
    return scores


def _clients(rounds: Sequence[Round]) -> Clients:
    identity = _identities(rounds)
    order = {name: k for k, name in enumerate(sorted(set(identity.values())))}
    slots = {node: order[name] for node, name in identity.items()}
    train_sizes, test_sizes = (np.zeros(len(order), np.int64) for _ in range(2))
    for entry in rounds:
        for client in entry.client_evaluations:
            test_sizes[slots[client.node]] = int(client.examples)
        for participant in entry.participants:
            if participant.node in slots:
                train_sizes[slots[participant.node]] = int(participant.examples)
    names = np.array([f"{name.word} {name.number}" for name in order])
    return Clients(slots, names, train_sizes, test_sizes)


class _Identity(NamedTuple):
    """What a client is known by."""

    word: str
    number: int


def _identities(rounds: Sequence[Round]) -> dict[int, _Identity]:
    """Return what each node's client is known by: its number, or its node where that is unsure.

    A number is what a client claims. The first that it claims counts, and it is no name where two
    nodes claim it in one round.
    """
    claims: dict[int, int] = {}
    contested: set[int] = {-1}
    for entry in rounds:
        numbers = Counter(client.client_id for client in entry.client_evaluations)
        contested |= {number for number, nodes in numbers.items() if nodes > 1}
        for client in entry.client_evaluations:
            claims.setdefault(client.node, client.client_id)
    return {
        node: _Identity("node", node) if number in contested else _Identity("client", number)
        for node, number in claims.items()
    }


def _cohorts(rounds: Sequence[Round], slots: dict[int, int]) -> CohortRecord:
    """Return the cohort of each round, [1, R, m] each, without nodes that sent no evaluation."""
    known = [[node for node in entry.sampled if node in slots] for entry in rounds]
    shape = (1, len(rounds), max(map(len, known), default=0))
    client_id, weight = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
    sampled, participated = np.zeros(shape, bool), np.zeros(shape, bool)
    model = np.zeros(shape, np.int32)
    for r, (entry, nodes) in enumerate(zip(rounds, known, strict=True)):
        weights = {participant.node: participant.weight for participant in entry.participants}
        models = {participant.node: participant.model for participant in entry.participants}
        for slot, node in enumerate(nodes):
            at = 0, r, slot
            client_id[at], sampled[at] = slots[node], True
            participated[at], weight[at] = node in weights, weights.get(node, 0.0)
            model[at] = models.get(node, 0)
    trained: Any = model if any(entry.models for entry in rounds) else ()
    return CohortRecord(client_id, sampled, participated, weight, trained)  # type: ignore[arg-type]
