"""What honest secure sums keep to, whoever is in them, and the longest step along any sums.

Nobody sees what a client adds, but sums can be seen: of n clients that clip to C, with q ≤ ¼,

    ‖Σ q Δ‖ ≤ C Σ q,   0 ≤ Σ q ≤ n/4,   0 ≤ satisfied, declined, near,   Σ gaps from 0 to G n,
    satisfied + declined ≤ responded ≤ n,   near ≤ responded,

and of the clients of each model of a portfolio, unmet those that are not satisfied,

    0 ≤ unmet ≤ clients,   Σ unmet gaps from 0 to G unmet,

up to what rounding adds, and noise. Sums that break one are of somebody who broke the rules.

Noisy sums are checked, and shortened, as everybody may see them: what is computed from them alone
costs no privacy, while a decision by the sums below the noise would give a bit of them away. Nor
may n be the number of clients in them, which their drawing hides: ``most_drawn`` is from what is
known.

A step is η_g · Σ q Δ / (Σ q + ε). ``bound_step`` keeps ‖Σ q Δ‖ ≤ C (Σ q + ε), so that the fraction
is no longer than C, and the step no longer than C η_g, or than C in arrays that are state, which
η_g leaves alone. Honest sums without noise have that anyway, but for rounding where all q are tiny.
"""

import math
from typing import NamedTuple

import numpy as np

from maxfl.flower.privacy import Privacy, noise_unit, rounding_step
from maxfl.flower.replies.sort import MAX_GAP, MAX_WEIGHT
from maxfl.flower.sums import ModelSums, RoundSums

SURE = 6.0
"""Standard deviations of noise that no honest sum exceeds; one in 10⁹ does."""


class Slack(NamedTuple):
    """How far honest sums may lie beyond their bounds, by rounding and noise."""

    update: float
    weight: float
    number: float


def slack_of(privacy: Privacy, sums: RoundSums, clients: float, levels: int) -> Slack:
    """Return what rounding adds at most, once for every client, and noise as good as ever."""
    root = math.sqrt(_size(sums))
    rounding, unit = clients * rounding_step(privacy, levels), noise_unit(privacy, sums, levels)
    return Slack(
        # A normal vector in d dimensions is longer than √d + t with probability below exp(−t²/2).
        update=rounding * root + unit * privacy.clip / 4 * (root + SURE),
        weight=rounding + SURE * unit / 4,
        number=4 * rounding + SURE * unit,
    )


def most_drawn(expected: int) -> float:
    """Return more clients than are drawn one by one, where so many are on average.

    By Chernoff's bound more are with a probability below 10⁻⁷.
    """
    return expected + SURE * math.sqrt(expected) + 2 * SURE


def wrong_sums(privacy: Privacy, sums: RoundSums, clients: float, levels: int) -> str:
    """Return which bound the sums of so many clients break, "" if none; NaN breaks all.

    ``levels`` are those of secure aggregation.
    """
    slack = slack_of(privacy, sums, clients, levels)
    counts, near, gaps = (sums.satisfied, sums.declined), sums.near or 0.0, sums.gaps or 0.0
    longest = privacy.clip * sums.weight + slack.update + privacy.clip * slack.weight
    kept = {
        "0 ≤ Σ q ≤ n/4": -slack.weight <= sums.weight <= MAX_WEIGHT * clients + slack.weight,
        "‖Σ q Δ‖ ≤ C Σ q": _norm(sums) <= longest,
        "responded ≤ n": sums.responded <= clients + slack.number,
        "0 ≤ satisfied + declined ≤ responded":
            min(counts) >= -slack.number and sum(counts) <= sums.responded + 3 * slack.number,
        "0 ≤ near ≤ responded": -slack.number <= near <= sums.responded + 2 * slack.number,
        "0 ≤ Σ gaps ≤ G n": -slack.number <= gaps / MAX_GAP <= clients + slack.number,
    }  # fmt: skip
    return _first_broken(kept)


def wrong_portfolio(
    privacy: Privacy, sums: RoundSums, portfolio: list[ModelSums], clients: float, levels: int
) -> str:
    """Return which bound sums by model break, "" if none; ``sums`` are over all models.

    Each model's sums keep to the bounds of one; and every participant trains one model.
    """
    slack = slack_of(privacy, sums, clients, levels)
    for each in portfolio:
        of_model = sums._replace(update=each.update, weight=each.weight)
        if problem := wrong_sums(privacy, of_model, clients, levels) or _wrong_slot(each, slack):
            return problem
    number, trained = len(portfolio), sum(each.clients for each in portfolio)
    kept = {
        "Σ q ≤ n/4": sums.weight <= MAX_WEIGHT * clients + number * slack.weight,
        "Σ clients = responded − declined":
            abs(trained - (sums.responded - sums.declined)) <= (number + 2) * slack.number,
    }  # fmt: skip
    return _first_broken(kept)


def _wrong_slot(each: ModelSums, slack: Slack) -> str:
    """Return which bound the clients of a model break, "" if none."""
    gaps = each.unmet_gaps / MAX_GAP
    kept = {
        "0 ≤ clients of each model": each.clients >= -slack.number,
        "0 ≤ unmet ≤ clients of each model":
            -slack.number <= each.unmet <= each.clients + 2 * slack.number,
        "0 ≤ Σ unmet gaps ≤ G unmet of each model":
            -slack.number <= gaps <= each.unmet + 2 * slack.number,
    }  # fmt: skip
    return _first_broken(kept)


def _first_broken(kept: dict[str, bool]) -> str:
    """Return the first bound that is not kept, in words; "" if all are."""
    broken = [bound for bound, is_kept in kept.items() if not is_kept]
    return f"the secure sums break {broken[0]}, which honest clients keep" if broken else ""


def bound_steps(privacy: Privacy, epsilon: float, portfolio: list[ModelSums]) -> list[ModelSums]:
    """Return sums by model along which no model's step is longer than C η_g."""
    models = []
    for each in portfolio:
        alone = RoundSums(each.update, each.weight, 0.0, 0.0, 0.0)
        bounded = bound_step(privacy, epsilon, alone)
        models.append(each._replace(update=bounded.update))
    return models


def bound_step(privacy: Privacy, epsilon: float, sums: RoundSums) -> RoundSums:
    """Return sums along which no step is longer than C η_g; ε is that below the fraction."""
    longest, norm = privacy.clip * max(sums.weight + epsilon, 0.0), _norm(sums)
    if norm <= longest:
        return sums
    return sums._replace(update={n: array * (longest / norm) for n, array in sums.update.items()})


def _norm(sums: RoundSums) -> float:
    squares = (float(np.square(u, dtype=np.float64).sum()) for u in sums.update.values())
    return math.sqrt(sum(squares))


def _size(sums: RoundSums) -> int:
    return sum(array.size for array in sums.update.values())
