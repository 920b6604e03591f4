"""A federation's rounds as what a simulation leaves behind: metrics, tables, a summary."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from maxfl.core import appeal
from maxfl.core.requirement import Solo, Thresholds
from maxfl.engine.history import History
from maxfl.engine.spec import Asked, Evaluation
from maxfl.flower.round_log import Round
from maxfl.runs.summary import number


class Clients(NamedTuple):
    """The clients that were heard of, [K] each, and the place of each node among them.

    After a restart of the SuperLink a client has another node; its number in its node's config is
    then what it is known by.
    """

    place: dict[int, int]
    names: NDArray[Any]
    train_sizes: NDArray[np.int64]
    test_sizes: NDArray[np.int64]


def series(rounds: Sequence[Round]) -> dict[str, tuple[list[int], list[float]]]:
    """Every metric: rounds done, and values.

    Clients say what they think of the model that comes in; so without evaluation, GM-Appeal after
    r rounds is what those of round r + 1 said, and nobody has judged the last model.
    """
    heard = [(own.number, own.evaluated) for own in rounds if own.evaluated is not None]
    before = [own.number - 1 for own in rounds]
    counts = [own.counts for own in rounds]
    found = {"gm_appeal_training": (before, [own.gm_appeal for own in counts])}
    if heard:
        after = [number for number, _ in heard]
        found["gm_appeal"] = (after, [own.gm_appeal for _, own in heard])
        found["test_accuracy"] = (after, [own.accuracy for _, own in heard])
    else:
        found["gm_appeal"] = found["gm_appeal_training"]
    found["willing"] = (before, [1 - c.declined / c.told if c.told else math.nan for c in counts])
    for name in counts[0]._fields if counts else ():
        found[name] = ([own.number for own in rounds], [float(getattr(c, name)) for c in counts])
    return found


def metrics_table(rounds: Sequence[Round]) -> pa.Table:
    """The metrics in the form of a simulation's metrics.parquet."""
    rows = [
        {"configuration": 0, "seed": 0, "round": done, "clients": "seen", "model": "global",
         "metric": metric, "value": value}
        for metric, (when, values) in series(rounds).items()
        for done, value in zip(when, values, strict=True)
    ]  # fmt: skip
    kinds = [("configuration", pa.int32()), ("seed", pa.int64()), ("round", pa.int32()),
             *((name, pa.string()) for name in ("clients", "model", "metric")),
             ("value", pa.float32())]  # fmt: skip
    return pa.Table.from_pylist(rows, pa.schema(kinds))


def summary_entry(rounds: Sequence[Round], title: str, notes: list[str]) -> dict[str, Any]:
    """The figures of the final model, and what happened on the way."""
    found = series(rounds)
    last = {name: number(values[-1]) if values else None for name, (_, values) in found.items()}
    unknown = {"held-out": None, "training": None, "literal": None}
    reading = "held-out" if _held_out(rounds) else "training"
    sums = {name: int(sum(getattr(own.counts, name) for own in rounds))
            for name in rounds[0].counts._fields} if rounds else {}  # fmt: skip
    events = [{"round": own.number, "node": str(e.node), "kind": e.kind, "why": e.why}
              for own in rounds for e in own.events]  # fmt: skip
    stalled = _stalled(rounds)
    return {
        "values": {},
        "data": title,
        "notes": notes,
        "diverged": False,
        "stalled_from_round": stalled,
        "clients_without_requirement": 0,
        "byzantine_clients": 0,
        "seen": {
            "test_accuracy": last.get("test_accuracy"),
            "gm_appeal": unknown | {reading: last["gm_appeal"]},
            "willing": last["willing"],
        },
        "unseen": None,
        "personal": None,
        "answers": sums,
        "events": events,
    }


def _held_out(rounds: Sequence[Round]) -> bool:
    heard = [own.evaluated for own in rounds if own.evaluated is not None]
    return bool(heard) and all(own.held_out for own in heard)


def _stalled(rounds: Sequence[Round]) -> int | None:
    """First of the rounds at the end in which nobody took part any more, since all declined."""
    active = [own.number for own in rounds if own.counts.took_part]
    first = active[-1] + 1 if active else 1
    idle = rounds[first - 1 :]
    return first if idle and all(own.counts.declined for own in idle) else None


def notes_of(rounds: Sequence[Round]) -> list[str]:
    """What a reader must know of the figures."""
    notes = ["GM-Appeal is what the clients said of the model"]
    if not any(own.evaluated for own in rounds):
        notes[0] += " when they were asked to train it, by their training data; nobody has judged "
        notes[0] += "the model of the last round"
    elif not _held_out(rounds):
        notes[0] += ", by their training data: none told of data kept from training"
    if any(own.opinions for own in rounds):
        notes.append("a client that did not answer counts with what it said last")
    return notes


def history_of(
    rounds: Sequence[Round], temperature: float, may_decline: bool
) -> tuple[History, Clients] | None:
    """Client by client, as a simulation tells it; None where losses were not revealed."""
    heard = [own for own in rounds if own.opinions]
    if not heard:
        return None
    clients = _clients(rounds)
    place = clients.place
    shape = (len(heard), len(clients.names))
    loss, bar, test_loss, test_bar, accuracy = (
        np.full(shape, np.nan, np.float32) for _ in range(5)
    )
    for e, own in enumerate(heard):
        for o in own.opinions:
            k = place[o.node]
            judged = (o.test_loss, o.test_requirement) if o.held_out else (o.loss, o.requirement)
            loss[e:, k], bar[e:, k], accuracy[e:, k] = o.loss, o.requirement, o.accuracy
            test_loss[e:, k], test_bar[e:, k] = judged
    willing = np.asarray(appeal.appealing(loss, bar), bool) | (not may_decline)
    evaluation = Evaluation(
        loss[None], test_loss[None], accuracy[None],  # type: ignore[arg-type]
        willing[None],  # type: ignore[arg-type]
        np.asarray(appeal.weight(loss, bar, temperature))[None],  # type: ignore[arg-type]
    )  # fmt: skip
    unknown = np.full((1, shape[1]), np.nan, np.float32)
    history = History(
        np.array([own.number for own in heard]),
        np.ones(shape[1], bool),
        evaluation,
        _asked(rounds, place),
        Solo(unknown, unknown, unknown),
        Thresholds(bar[-1:], test_bar[-1:]),
        np.zeros((1, shape[1]), bool),
        (),
    )
    return history, clients


def _clients(rounds: Sequence[Round]) -> Clients:
    numbers = {o.node: o.name for own in rounds for o in own.opinions}
    alone = all(len({o.name for o in own.opinions}) == len(own.opinions) for own in rounds)
    known = alone and all(number >= 0 for number in numbers.values())
    identity = {node: number if known else node for node, number in numbers.items()}
    order = {own: k for k, own in enumerate(sorted(set(identity.values())))}
    place = {node: order[own] for node, own in identity.items()}
    train, test = (np.zeros(len(order), np.int64) for _ in range(2))
    for own in rounds:
        for o in own.opinions:
            test[place[o.node]] = int(o.examples)
        for j in own.joined:
            if j.node in place:
                train[place[j.node]] = int(j.examples)
    word = "client" if known else "node"
    return Clients(place, np.array([f"{word} {own}" for own in order]), train, test)


def _asked(rounds: Sequence[Round], place: dict[int, int]) -> Asked:
    """Who was asked in each round, [1, T, m] each, without nodes that never gave an opinion."""
    known = [[node for node in own.asked if node in place] for own in rounds]
    shape = (1, len(rounds), max(map(len, known), default=0))
    client, weight = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
    sampled, took_part = np.zeros(shape, bool), np.zeros(shape, bool)
    for t, (own, nodes) in enumerate(zip(rounds, known, strict=True)):
        weights = {j.node: j.weight for j in own.joined}
        for m, node in enumerate(nodes):
            client[0, t, m], sampled[0, t, m] = place[node], True
            took_part[0, t, m], weight[0, t, m] = node in weights, weights.get(node, 0.0)
    return Asked(client, sampled, took_part, weight)  # type: ignore[arg-type]
