"""What people ask first of a federation, in words: whom does the model satisfy?"""

from collections.abc import Mapping, Sequence
from typing import Any

from maxfl.report.comparison import Standing, standing
from maxfl.report.series import Key, Series
from maxfl.report.source import Source
from maxfl.report.table import Statistic


def verdicts(source: Source, series: Mapping[Key, Series]) -> list[str]:
    """Say in a sentence or two how methods stand in every case."""
    lines = []
    for case in source.cases:
        found = standing(source, series, case)
        if found.ranked:
            words = _verdict(found, max(len(source.of(case, m)) for m in source.methods(case)))
            lines.append(f"{case}: {words}." if case else f"{words}.")
        else:
            lines.append("It is not known whether the model meets anybody's requirement.")
    return lines


def _verdict(found: Standing, seeds: int) -> str:
    best, values = found.ranked[0]
    shares = [f"{method}: {_share(appeal)}" for method, appeal in found.ranked]
    on = f" (on the {len(found.seeds)} of {seeds} seeds that all have)"
    on = on if 0 < len(found.seeds) < seeds else ""
    if len(found.ranked) == 1:
        return f"The model meets the requirement of {_share(values)} of the clients that can train"
    if not found.seeds:
        return (
            "These methods never had the same clients, so none can be said to be ahead. Share of "
            f"clients whose requirement is met: {_listed(shares)}"
        )
    if len(found.seeds) == 1:
        return (
            "One seed allows no comparison: others may rank these methods otherwise. Share of "
            f"clients whose requirement is met{on}: {_listed(shares)}"
        )
    if not found.ahead:
        return (
            f"{best} and {found.ranked[1][0]} are no further apart than seeds differ. Share of "
            f"clients whose requirement is met{on}: {_listed(shares)}"
        )
    return (
        f"{best} satisfies the most clients{on}: it meets the requirement of {_share(values)} of "
        f"those that can train. The others: {_listed(shares[1:])}"
    )


def _listed(shares: Sequence[str]) -> str:
    more = f", and {len(shares) - 4} more" if len(shares) > 4 else ""
    return "; ".join(shares[:4]) + more


def _share(values: Any) -> str:
    mean, std = Statistic.of(values, 0, percent=True).printed
    return f"{mean} % (± {std} over {len(values)} seeds)" if std else f"{mean} %"
