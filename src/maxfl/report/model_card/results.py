"""What a model card says of the outcome: whom the model serves, and whom it does not."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from maxfl.core.metrics import MetricInfo
from maxfl.report.configurations import Configuration
from maxfl.report.legacy import METRICS
from maxfl.report.measures import (
    APPEAL,
    capitalised,
    deciding_words,
    direction,
    measure_of,
    words_of,
)
from maxfl.report.traces import Partition, Trace

LEAST_TELLING = 3
"""Clients on either side, below which nothing is said of how they differ."""
MOST_NAMED = 10
"""Clients that are named among those that are not satisfied."""


def served_lines(trace: Trace, entry: Mapping[str, Any], metric: MetricInfo) -> list[str]:
    """Say whose requirement the model meets, and by how much."""
    lines, measure = [], measure_of(metric)
    for name, group in _groups(trace, "answers" in entry):
        values = trace.metric[-1, group]
        satisfied = int(trace.satisfied[-1, group].sum())
        low = measure.statistic([values.min()]).printed[0]
        lines.append(
            f"It meets the requirement of {satisfied} of {len(values)} {name} (GM-Appeal "
            f"{APPEAL.printed(satisfied / len(values))}), with a {measure.words}"
            f"{direction(metric)} of {measure.printed(values.mean())} on average, {low} to "
            f"{measure.printed(values.max())} from client to client."
        )
    for name, figures in (entry.get("personal") or {}).items():
        if figures is not None:
            lines.append(
                f"With personal models, made from it, GM-Appeal of the {name} clients is "
                f"{APPEAL.printed(figures['gm_appeal']['test'])}, and their "
                f"{words_of(metric)} {measure.printed(figures[measure.key])}."
            )
    return lines + trouble_lines(entry)


def trouble_lines(entry: Mapping[str, Any]) -> list[str]:
    """Say what went wrong in training."""
    lines = ["TRAINING DIVERGED. Do not use this model."] if entry.get("diverged") else []
    if start := entry.get("stalled_from_round"):
        who = "nobody participated" if "answers" in entry else "no honest client was willing"
        lines.append(f"Training stopped at round {start}: {who} any more.")
    return lines + [f"WARNING: {warning['text']}." for warning in entry.get("warnings", [])]


def _groups(trace: Trace, is_real: bool) -> list[tuple[str, Any]]:
    """Return the honest clients by what they are called; a real federation has no unseen ones."""
    honest = ~trace.byzantine
    groups = [("clients" if is_real else "seen clients", trace.seen & honest),
              ("unseen clients", ~trace.seen & honest)]  # fmt: skip
    return [(name, group) for name, group in groups if group.any()]


def unserved_lines(
    trace: Trace, partition: Partition | None, configuration: Configuration
) -> list[str]:
    """Say whose requirement it misses, what these have in common, and who is worst off."""
    lines, metric = [], configuration.metric
    gap = trace.test_gap[-1]
    for name, group in _groups(trace, configuration.is_real):
        unsatisfied, total = group & ~trace.satisfied[-1], int(group.sum())
        if not unsatisfied.any():
            lines.append(f"It meets the requirement of {total} of {total} {name}.")
            continue
        count = int(unsatisfied.sum())
        lines.append(
            f"It does not meet the requirement of {count} of {total} {name}: their "
            f"test {deciding_words(trace.decides)} misses it "
            f"(median gap {np.median(gap[unsatisfied]):.2f})."
            + _against_solo(
                trace.metric[-1, unsatisfied].mean() - trace.solo_metric[unsatisfied].mean(), metric
            )
        )
        lines += _marks(unsatisfied, group & ~unsatisfied, partition)
        order = np.argsort(-gap[unsatisfied], kind="stable")
        worst = np.flatnonzero(unsatisfied)[order][:MOST_NAMED]
        named = ", ".join(f"{client_words(trace.name[k])} (gap {gap[k]:.2f})" for k in worst)
        begin = f"The {len(worst)} worst off: " if count > len(worst) else ""
        lines.append(f"{begin}{named}.")
    return lines


def client_words(name: Any) -> str:
    """Return what a client is called; one whose name is a number is a client with that number."""
    return f"client {name}" if str(name).isdigit() else str(name)


def _against_solo(difference: float, metric: MetricInfo) -> str:
    """Say how the metric differs from the solo models', where it is known what these reach."""
    if not np.isfinite(difference):
        return ""
    amount = measure_of(metric).statistic([abs(difference)]).printed[0]
    amount += " points" if metric.percent else ""
    way = "lower" if difference < 0 else "higher"
    if not metric.higher_is_better:
        way += " (better)" if difference < 0 else " (worse)"
    return (
        f" On average its {words_of(metric)} is {amount} {way} for them than that of the model "
        f"each would train alone."
    )


def mean_lines(figures: Mapping[str, Any], metric: MetricInfo) -> list[str]:
    """Say what the clients of a real federation report, where there are only means."""
    known = {reading: v for reading, v in figures["gm_appeal"].items() if v is not None}
    lines = [f"GM-Appeal {v:.2f}, by the clients' {reading} data; see the notes above."
             for reading, v in known.items()]  # fmt: skip
    measure = measure_of(metric)
    if (value := figures[measure.key]) is not None:
        words = capitalised(measure.words) + direction(metric)
        lines.append(f"{words} {measure.printed(value)} on average.")
    return lines or ["Nobody has said."]


def answer_lines(entry: Mapping[str, Any]) -> list[str]:
    """Say how clients of a real federation answered, and what was guaranteed to them."""
    counts = {METRICS.get(name, name): count for name, count in entry["answers"].items()}
    privacy = entry.get("privacy")
    lines = [
        f"Over all rounds, clients were sampled {counts['sampled']} times: "
        f"{counts['participated']} times they participated, {counts['declined']} times they "
        f"declined, {counts['failed']} times they failed or did not answer, "
        f"{counts['rejected']} replies were rejected."
    ]
    if privacy is None:
        return [*lines, "The server saw every client's update; nothing was added for privacy."]
    if privacy["secure"]:
        lines.append("The server saw sums over clients alone (secure aggregation).")
    if privacy["epsilon"] is not None:
        lines.append(
            f"Differential privacy for each client: ε = {privacy['epsilon']:.2f} at δ = "
            f"{privacy['delta']:g}, over {privacy['rounds']} rounds with noise multiplier "
            f"{privacy['noise_multiplier']:g}, updates clipped to {privacy['clip']:g}, each client "
            f"drawn with probability {privacy['sampling_probability']:g}. The counts are noisy too."
        )
    return lines


def _marks(unsatisfied: Any, satisfied: Any, partition: Partition | None) -> list[str]:
    """Say what unsatisfied clients have that satisfied ones have not."""
    if partition is None:
        return []
    lines = []
    flipped = partition.flipped
    if (flipped & (unsatisfied | satisfied)).any():
        lines.append(
            "Clients whose labels contradict the others': "
            f"{int((flipped & unsatisfied).sum())} of {int(unsatisfied.sum())} unsatisfied, "
            f"{int((flipped & satisfied).sum())} of {int(satisfied.sum())} satisfied."
        )
    if min(unsatisfied.sum(), satisfied.sum()) < LEAST_TELLING:
        return lines
    shares = partition.counts / partition.counts.sum(1, keepdims=True)
    theirs, others = shares[unsatisfied].mean(0), shares[satisfied].mean(0)
    order = np.argsort(others - theirs)[:3]
    telling = [i for i in order if theirs[i] > 1.5 * others[i] and theirs[i] - others[i] > 0.05]
    if telling:
        words = ", ".join(
            f"{partition.labels[i]} ({100 * theirs[i]:.0f} % of their samples, "
            f"{100 * others[i]:.0f} % of the others')"
            for i in telling
        )
        lines.append(f"They have more of: {words}.")
    return lines
