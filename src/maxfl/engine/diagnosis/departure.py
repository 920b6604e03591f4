"""When everybody leaves: how far the clients were from staying, and what would have kept them."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.core.requirements.requirement import Requirement
from maxfl.engine.diagnosis.follow import Finding
from maxfl.engine.experiment import Experiment
from maxfl.engine.history import History

Floats = NDArray[np.float32]
EVERYBODY_LEFT = "everybody-left"
FAR = 10
"""A start later than so many times the round of departure is no advice."""


class Departure(NamedTuple):
    """How a run lost its clients.

    Attributes:
        round: The first without an honest client, from 1.
        clients: Honest seen clients with a requirement that were measured then.
        nearest_gap: Smallest gap to its requirement that one of them had.
        median_gap: That half of them had at most.
        remedy: The setting that would have kept half of them then, and its value; () where
            requirements are given client by client or by a rule, or where no value would.
        start_round: From which on half of them would have stayed, if their median gap had gone on
            falling as it last did; None if it did not fall, or not enough, or was not measured.
        are_some_byzantine: Whether there are clients that never leave.
    """

    round: int
    clients: int
    nearest_gap: float
    median_gap: float
    remedy: tuple[str, float] | tuple[()]
    start_round: int | None
    are_some_byzantine: bool = False

    def text(self, decides: str, start: float) -> str:
        """Return it in words, given what requirements are about and ``start_round`` as it was."""
        honest = "honest " if self.are_some_byzantine else ""
        said = (
            f"no {honest}client was willing from round {self.round} on. Then the nearest of "
            f"{self.clients} was {self.nearest_gap:.2g} short of its requirement, in {decides}, "
            f"and half of them {self.median_gap:.2g} at most: "
        )
        if self.remedy:
            setting, value = self.remedy
            said += f"requirement.{setting} = {value:.3g} would have kept half of them"
        else:
            said += "requirements easier by that much would have kept half of them"
        if self.start_round is None:
            return said
        return (
            f"{said}; if that gap had gone on falling as it last did, participation.start_round = "
            f"{self.start_round} (now {start:.0f}) might have too"
        )


def departures(history: History, experiment: Experiment) -> list[list[Finding]]:
    """Return what to say of each configuration that lost all its clients."""
    start = np.ravel(np.asarray(experiment.participation.hparams.start_round))
    decides = experiment.requirement.metric or "loss"
    found: list[list[Finding]] = []
    for c in range(len(history.is_byzantine)):
        left = departure(history, c, experiment.requirement)
        text = "" if left is None else left.text(decides, start[c % len(start)])
        found.append([Finding(EVERYBODY_LEFT, text)] if text else [])
    return found


def departure(history: History, c: int, requirement: Requirement) -> Departure | None:
    """Return how configuration c lost all its clients; None if some stay, or none can be judged."""
    first = int(history.stalled_from()[c])
    if not first:
        return None
    # Where nobody is left, the model stays as it is; Byzantine clients may still move it.
    e = int(np.searchsorted(history.rounds, first - 1))
    e = min(e, len(history.rounds) - 1)
    criterion = history.criterion
    value, threshold = history.deciding()[0][c], np.asarray(history.thresholds.judging)[c]
    with np.errstate(invalid="ignore"):
        gaps: Any = criterion.cost(value) - criterion.bound(threshold)
    counts = history.is_seen & ~history.is_byzantine[c] & np.isfinite(gaps[e])
    if not counts.any():
        return None
    median = [float(np.median(row[counts])) for row in gaps[: e + 1]]
    return Departure(
        first, int(counts.sum()), float(gaps[e, counts].min()), median[e],
        _remedy(requirement, value[e, counts], threshold[counts], c, criterion.higher_is_better),
        _later_start(np.minimum(history.rounds[: e + 1], first - 1), median),
        bool(history.is_byzantine[c].any()),
    )  # fmt: skip


def _remedy(
    requirement: Requirement, value: Floats, threshold: Floats, c: int, higher_is_better: bool
) -> tuple[str, float] | tuple[()]:
    """Return the setting of the requirement that half of the clients would have met."""
    if requirement.clients is not None or requirement.rule is not None:
        return ()
    if requirement.value is not None:
        setting = "loss" if requirement.metric is None else "value"
        return setting, _rounded(float(np.median(value)), up=not higher_is_better)
    multiple = np.ravel(np.asarray(requirement.multiple, np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        needed = float(np.median(value / threshold) * multiple[c % len(multiple)])
    usable = math.isfinite(needed) and needed > 0 and bool((threshold > 0).all())
    return ("multiple", _rounded(needed, up=not higher_is_better)) if usable else ()


def _rounded(number: float, *, up: bool) -> float:
    """Return a number with three digits, on the side on which the requirement is met."""
    if number == 0 or not math.isfinite(number):
        return number
    unit = 10.0 ** (math.floor(math.log10(abs(number))) - 2)
    return (math.floor(number / unit) + 1 if up else math.ceil(number / unit) - 1) * unit


def _later_start(rounds: NDArray[np.int64], median: list[float]) -> int | None:
    """Return when the median gap would have been closed at the pace of the last rounds.

    The first rounds of all are no measure: a model falls fast from where it began.
    """
    if len(median) < 2 or rounds[-2] in (0, rounds[-1]) or not math.isfinite(median[-2]):
        return None
    pace = (median[-2] - median[-1]) / float(rounds[-1] - rounds[-2])
    if pace <= 0:
        return None
    start = int(rounds[-1]) + math.ceil(median[-1] / pace)
    return start if start <= FAR * max(int(rounds[-1]), 1) else None
