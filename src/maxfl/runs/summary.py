"""The figures of a run's final model, as plain data for machines."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxfl.core.federation import Federation
from maxfl.core.model import ModelSummary
from maxfl.engine.diagnosis.follow import Finding
from maxfl.engine.history import READINGS, Group, History, Whose

GROUPS: tuple[Group, ...] = ("seen", "unseen")


def summarise(
    history: History,
    values: Sequence[dict[str, Any]],
    federation: Federation,
    model: ModelSummary,
    findings: Sequence[Sequence[Finding]] = (),
) -> list[dict[str, Any]]:
    """Return an entry per configuration: values, the model, what went wrong, final figures."""
    decides = history.criterion.metric
    described = {"loss": model.loss, "parameters": model.parameters._asdict()}
    figures: list[dict[str, dict[str, Any]]] = [
        {
            whose: {str(g): _figures(history, g, c, whose) for g in GROUPS}
            for whose in history.models
        }
        for c in range(len(values))
    ]
    failed, stalled = history.failed(), history.stalled_from()
    lost = history.without_requirement()
    return [
        {
            "values": chosen,
            "data": federation.metadata.title,
            "notes": list(federation.metadata.notes),
            "model": described,
            "warnings": [finding._asdict() for finding in findings[c]] if findings else [],
            "diverged": bool(failed[c]),
            "stalled_from_round": int(stalled[c]) or None,
            "clients_without_requirement": int(lost[c]),
            "byzantine_clients": int(history.is_byzantine[c].sum()),
            "metrics": [info._asdict() for info in history.metric_infos],
            "judge": history.judge,
            "own_judging_part": federation.has_own_judging,
            "decides": None if decides is None else history.metric_infos[decides]._asdict(),
            **figures[c]["global"],
            "personal": figures[c].get("personal"),
            **({"portfolio": _portfolio(history, c)} if history.models_of(c) > 1 else {}),
        }
        for c, chosen in enumerate(values)
    ]


def _portfolio(history: History, c: int) -> dict[str, list[dict[str, Any]]]:
    """Return how many honest clients of each group picked each model in the end, and how it does.

    Groups that there are not have no entry; a metric of a model that nobody picked is None.
    """
    picked = history.evaluation.picked[c, -1]
    satisfied, metric = history.satisfied()[c, -1], history.evaluation.test_metrics[0][c, -1]
    entries: dict[str, list[dict[str, Any]]] = {}
    for group in history.groups:
        counts = (history.is_seen == (group == "seen")) & ~history.is_byzantine[c]
        entries[str(group)] = [
            {
                "clients": int((mine := counts & (picked == model)).sum()),
                "satisfied": int(satisfied[mine].sum()),
                f"test_{history.metric.name}": number(metric[mine].mean()) if mine.any() else None,
            }
            for model in range(history.models_of(c))
        ]
    return entries


def _figures(history: History, group: Group, c: int, model: Whose) -> dict[str, Any] | None:
    """Return final figures of a configuration for a group of clients, None if it has none."""
    if not (history.is_seen if group == "seen" else ~history.is_seen).any():
        return None
    scores, names = history.scores(model), [info.name for info in history.metric_infos]
    return {
        **{f"test_{n}": number(history.test_metric(group, model, n)[c, -1]) for n in names},
        **{f"solo_test_{n}": number(history.solo_metric(group, n)[c]) for n in names},
        "gm_appeal": {r: number(history.gm_appeal(group, r, model)[c, -1]) for r in READINGS},
        f"preferred_{history.metric.name}": {
            r: number(history.preferred_metric(group, r, model)[c, -1]) for r in READINGS
        },
        "judging_loss": number(history.mean(scores.judging_loss, group)[c, -1]),
        "test_loss": number(history.mean(scores.test_loss, group)[c, -1]),
        **({"willing": number(history.willing_share(group)[c, -1])} if model == "global" else {}),
    }


def number(value: Any) -> float | None:
    """Return a float with the digits that float32 has; None where JSON has no such number."""
    return float(f"{value:.7g}") if np.isfinite(value) else None
