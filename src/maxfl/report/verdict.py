"""What people ask first of a federation, in words: whom does the model satisfy?

A method is said to be ahead of another if the 95 % interval of their paired difference in GM-Appeal
lies above 0; else the two are not told apart. One seed allows neither.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxfl.report.comparison import Standing, standing
from maxfl.report.measures import APPEAL
from maxfl.report.portfolio.sizes import models_of
from maxfl.report.series import drawn_methods, used_model, used_series
from maxfl.report.statistics.compare import AHEAD, Results, few_seeds
from maxfl.report.table import Estimate, Probability, Statistic

SIGNIFICANT, ROUNDING = 0.05, 1e-6
NEW_SEEDS = " Test data showed this, so if you change these, show the result of new seeds."
FALL = 0.1
"""By which GM-Appeal must fall after its best round to be worth a sentence."""
MOST_LISTED = 4
"""Methods whose shares the sentence lists; tables have the others."""


def verdicts(results: Results) -> list[str]:
    """Say in a sentence or two how methods stand in every case."""
    lines, source = [], results.source
    for case in source.cases:
        found = standing(results, case)
        if found.ranked:
            seeds = max(len(source.of(case, m)) for m in source.methods(case))
            words = _verdict(found, _names(results, case), seeds)
            lines.append(f"{case}: {words}." if case else f"{words}.")
        else:
            lines.append("It is not known whether the model meets anybody's requirement.")
    return lines


def falls(results: Results) -> list[str]:
    """Name methods that satisfied clearly more clients after an earlier round than the last."""
    source, series, _ = results
    found = [
        _fall(results, case, method)
        for case in source.cases
        for method in drawn_methods(source, series, case)
    ]
    return [line for line in found if line]


def _fall(results: Results, case: str, method: str) -> str:
    """Say from where to where GM-Appeal fell, and what may help; "" if it did not."""
    appeal = used_series(results.series, case, method, "seen", APPEAL)
    if appeal is None:
        return ""
    means = np.nan_to_num(appeal.values).mean(0)
    best = int(means.argmax())
    if means[best] - means[-1] < FALL - ROUNDING:
        return ""
    where = f"{case}: " if case else ""
    advice = "" if results.source.is_real else NEW_SEEDS
    return (
        f"{where}{method} had a GM-Appeal of {means[best]:.2f} after round {appeal.rounds[best]}, "
        f"and {means[-1]:.2f} after the last, round {appeal.rounds[-1]}: fewer rounds, a smaller "
        f"learning rate or a smaller model may satisfy more clients.{advice}"
    )


def _names(results: Results, case: str) -> dict[str, str]:
    """Name the models that clients would use, where some of them are personal."""
    methods = results.source.methods(case)
    used = {m: used_model(results.series, case, m) for m in methods}
    if "personal" not in used.values():
        return {m: m for m in methods}
    one = {m for m in methods if models_of(results.source.of(case, m)[0]) == 1}
    kinds = {m: "personal models" if model == "personal" else "one global model"
             for m, model in used.items() if model == "personal" or m in one}  # fmt: skip
    return {m: f"{m} ({kinds[m]})" if m in kinds else m for m in methods}


def _verdict(found: Standing, names: dict[str, str], seeds: int) -> str:
    first, values = found.ranked[0]
    shares = [f"{names[method]}: {_share(appeal)}" for method, appeal in found.ranked]
    on = f" (on the {len(found.seeds)} of {seeds} seeds that all have)"
    on = on if 0 < len(found.seeds) < seeds else ""
    if len(found.ranked) == 1:
        met = "The model meets" if names[first] == first else "Personal models meet"
        return f"{met} the requirement of {_share(values)} of the clients that can train"
    listed = f"Share of clients whose requirement is met{on}: {_listed(shares)}"
    if not found.seeds:
        return (
            f"These methods never had the same clients, so none can be said to be ahead. {listed}"
        )
    if found.lead is not None and found.lead.refused:
        why = found.lead.refused
        return f"None can be said to be ahead: {why}. {listed}"
    if len(found.seeds) == 1:
        return f"One seed allows no comparison. {listed}. {few_seeds(1)}"
    first, second = (names[method] for method, _ in found.ranked[:2])
    ahead = found.lead is not None and found.lead.word == AHEAD
    words = f"{first} is ahead of {second}" if ahead else f"{first} and {second} are not told apart"
    little = few_seeds(len(found.seeds))
    return f"{words}. {listed}{_evidence(found)}{f'. {little}' if little else ''}"


def _evidence(found: Standing) -> str:
    """Give the difference of the first two, its interval, and McNemar's p."""
    if found.lead is None:
        return ""
    estimate = Estimate.of(found.lead.interval, 0, percent=True)
    mean, low, high = estimate.texts
    tested = ""
    if found.satisfied is not None:
        p = Probability(found.satisfied.all_seeds.p).texts[0]
        tested = f"; McNemar's p {p if p.startswith('<') else f'= {p}'}"
        if found.lead.word != AHEAD and found.satisfied.all_seeds.p < SIGNIFICANT:
            tested += ", which ignores how seeds differ: the interval decides"
    return f". Difference of the first two: {mean} points (95 % interval {low} to {high}{tested})"


def _listed(shares: Sequence[str]) -> str:
    more = f", and {len(shares) - MOST_LISTED} more" if len(shares) > MOST_LISTED else ""
    return "; ".join(shares[:MOST_LISTED]) + more


def _share(values: Any) -> str:
    mean, std = Statistic.of(values, 0, percent=True).printed
    return f"{mean} % (± {std} over {len(values)} seeds)" if std else f"{mean} %"
