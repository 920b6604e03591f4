"""Who weighed how much in which round: a table for an auditor, without losses or requirements.

A weight tells more than it seems: with T_t, which the results have, q_k says how far the client's
loss was from its requirement, though not what either is. So there is no such table where there is
privacy.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from maxfl.flower.round_log import Participant, Round

WEIGHTS = "weights.parquet"
SCHEMA = pa.schema([
    ("round", pa.int32()),
    ("node", pa.string()),
    ("client", pa.int64()),
    ("weight", pa.float32()),
    ("satisfied", pa.bool_()),
    ("share", pa.float32()),
])  # fmt: skip
MODEL = pa.field("model", pa.int32())
"""Where there are several models: the one that the participant trained."""


def weights_table(rounds: Sequence[Round], *, by_examples: bool) -> pa.Table:
    """Return a row for every participant of every round.

    ``client`` is its number in its node's config, where it says so. ``share`` is its part of the
    sum of weights that the step was along, before any robust rule; 0 where there was no step. Of
    several models that is the step of the participant's own, ``model``.

    Args:
        rounds: What happened.
        by_examples: Whether the step weighs clients by their samples, as FedAvg does.
    """
    clients = {c.node: c.client_id for entry in rounds for c in entry.client_evaluations}
    rows: list[dict[str, Any]] = []
    for entry in rounds:
        counted = [_in_step(participant, by_examples) for participant in entry.participants]
        totals: defaultdict[int, float] = defaultdict(float)
        for participant, part in zip(entry.participants, counted, strict=True):
            totals[participant.model] += 0.0 if entry.no_step else part
        for participant, part in zip(entry.participants, counted, strict=True):
            total = totals[participant.model]
            client, satisfied = clients.get(participant.node, -1), participant.satisfied
            rows.append({
                "round": entry.number,
                "node": str(participant.node),
                "client": client if client >= 0 else None,
                "weight": participant.weight,
                "satisfied": satisfied if isinstance(satisfied, bool) else None,
                "share": part / total if total > 0 else 0.0,
                MODEL.name: participant.model,
            })  # fmt: skip
    several = any(entry.models for entry in rounds)
    return pa.Table.from_pylist(rows, SCHEMA.append(MODEL) if several else SCHEMA)


def _in_step(participant: Participant, by_examples: bool) -> float:
    return participant.examples if by_examples else participant.weight
