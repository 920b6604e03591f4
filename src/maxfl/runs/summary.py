"""The figures of a run's final model, as plain data for machines."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxfl.core.federation import About
from maxfl.engine.history import READINGS, Group, History, Whose

GROUPS: tuple[Group, ...] = ("seen", "unseen")


def summarise(
    history: History, values: Sequence[dict[str, Any]], about: About
) -> list[dict[str, Any]]:
    """One entry per configuration: its values, whether it failed or stalled, its final figures."""
    failed, stalled = history.failed(), history.stalled_from()
    lost = history.without_requirement()
    entries: list[dict[str, Any]] = []
    for c, chosen in enumerate(values):
        entries.append(
            {
                "values": chosen,
                "data": about.title,
                "notes": list(about.notes),
                "diverged": bool(failed[c]),
                "stalled_from_round": int(stalled[c]) or None,
                "clients_without_requirement": int(lost[c]),
                "byzantine_clients": int(history.lies[c].sum()),
                **{group: _figures(history, group, c, "global") for group in GROUPS},
                "personal": {group: _figures(history, group, c, "personal") for group in GROUPS}
                if history.has_personal
                else None,
            }
        )
    return entries


def _figures(history: History, group: Group, c: int, model: Whose) -> dict[str, Any] | None:
    """Final figures of one configuration for one group of clients, None if it has none."""
    if not (history.is_seen if group == "seen" else ~history.is_seen).any():
        return None
    scores = history.scores(model)
    return {
        "test_accuracy": number(history.accuracy(group, model)[c, -1]),
        "solo_test_accuracy": number(history.solo_accuracy(group)[c]),
        "gm_appeal": {r: number(history.gm_appeal(group, r, model)[c, -1]) for r in READINGS},
        "preferred_accuracy": {
            r: number(history.preferred_accuracy(group, r, model)[c, -1]) for r in READINGS
        },
        "train_loss": number(history.mean(scores.train_loss, group)[c, -1]),
        "test_loss": number(history.mean(scores.test_loss, group)[c, -1]),
        **({"willing": number(history.willing_share(group)[c, -1])} if model == "global" else {}),
    }


def number(value: Any) -> float | None:
    """A float with the digits that float32 has; None where JSON has no such number."""
    return float(f"{value:.7g}") if np.isfinite(value) else None
