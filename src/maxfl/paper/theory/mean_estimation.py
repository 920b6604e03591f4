"""Mean estimation: clients that each want the mean of their own distribution.

Cho et al., TMLR 2024, appendix A. Client k has the true loss f_k(w) = (w − θ_k)²; it sees samples
with the mean θ̂_k ~ N(θ_k, γ²) and requires ρ_k = f_k(θ̂_k). Its empirical loss above what it
requires is F_k(w) − ρ_k = (w − θ̂_k)², so the objective of a surrogate h is

    v(w) = 1/M Σ h((w − θ̂_k)²),     v'(w) = 2/M Σ h'((w − θ̂_k)²)(w − θ̂_k)

with FedAvg's h(z) = z, whose minimum is the mean of the θ̂_k. Arrays have a draw per row.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.core import appeal
from maxfl.core.surrogates import Surrogate
from maxfl.utils.errors import check_count, check_number

Floats = NDArray[np.float64]

HALVINGS = 1100
"""How often an interval is halved at most: float64 can then tell no two points of it apart."""
EXACT = 1e-12
"""Relative length at which an interval is taken for a point."""


class Draws(NamedTuple):
    """Draws of the problem.

    Attributes:
        true: θ_k, float[M].
        empirical: θ̂_k, float[n, M].
    """

    true: Floats
    empirical: Floats


class Models(NamedTuple):
    """A model for every draw, w = θ̂_anchor + offset.

    The two are not added up, since far from the other clients a minimum lies closer to a client's
    mean than a sum of floats can say, and on which side decides whether that client is satisfied.

    Attributes:
        anchor: A client's index, int[n].
        offset: How far the model is from that client's mean, float[n].
    """

    anchor: NDArray[np.int64]
    offset: Floats


def draw(true: Floats, variance: float, draws: int, rng: np.random.Generator) -> Draws:
    """Draw the clients' empirical means, ``draws`` times."""
    check_number("variance", variance, above=0)
    check_count("draws", draws, least=1)
    noise = rng.standard_normal((draws, len(true)))
    return Draws(true, true + np.sqrt(variance) * noise)


def two_clients(
    heterogeneity: float, variance: float, draws: int, rng: np.random.Generator
) -> Draws:
    """Draw two clients with θ₁ = 0 and θ₂ = 2γ_G, given γ_G²."""
    check_number("heterogeneity", heterogeneity, least=0)
    return draw(np.array([0.0, 2 * np.sqrt(heterogeneity)]), variance, draws, rng)


def value(surrogate: Surrogate, means: Floats, w: Floats) -> Floats:
    """Compute v(w), for w [...] and means [..., M]."""
    return np.asarray(surrogate.value((w[..., None] - means) ** 2).mean(-1))


def slope(surrogate: Surrogate, distance: Floats) -> Floats:
    """Compute v'(w), given w − θ̂_k [..., M]."""
    return np.asarray(2 * (surrogate.slope(distance**2) * distance).mean(-1))


def distances(draws: Draws, models: Models) -> Floats:
    """Compute w − θ̂_k of each model and client, float[n, M]; exact for the anchor."""
    means = draws.empirical
    anchor = np.take_along_axis(means, models.anchor[:, None], axis=1)
    return np.asarray(anchor - means + models.offset[:, None])


def curvature_at_the_middle(half_distance: Floats) -> Floats:
    """Compute v''/2q at the midpoint of two clients 2γ̂ apart, for the sigmoid: 1 + 2(1 − 2σ(γ̂²))γ̂².

    Negative where the midpoint is no minimum any more (lemma A.3): beyond γ̂ = 1.022.
    """
    square = np.asarray(half_distance) ** 2
    return np.asarray(1 + 2 * (1 - 2 * appeal.sigmoid(square)) * square)


def settle(
    surrogate: Surrogate, draws: Draws, anchor: NDArray[np.int64], low: Floats, high: Floats
) -> Models:
    """Find a local minimum for every draw, with an offset between ``low`` and ``high``, float[n].

    Halves the interval by the sign of the slope: it ends where v stops falling and starts to
    rise, or at the end that v falls towards.
    """
    for _ in range(HALVINGS):
        cut = (low + high) / 2
        slopes = slope(surrogate, distances(draws, Models(anchor, cut)))
        # Where all slopes are smaller than any float, the nearest client, the anchor, pulls most.
        rises = (slopes > 0) | ((slopes == 0) & (cut > 0))
        low, high = np.where(rises, low, cut), np.where(rises, cut, high)
        if (high - low <= EXACT * np.maximum(abs(low), abs(high))).all():
            break
    return Models(anchor, (low + high) / 2)


def sides(draws: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw which of two clients a minimum is searched from."""
    return rng.integers(0, 2, draws)


def local_minimum(surrogate: Surrogate, draws: Draws, anchor: NDArray[np.int64]) -> Models:
    """Find a local minimum between two clients, on the side of one of them.

    Searches from that client to the midpoint, which is the minimum where v only falls until it.
    """
    to_middle = np.diff(draws.empirical)[:, 0] / 2 * np.where(anchor == 0, 1, -1)
    models = settle(surrogate, draws, anchor, np.minimum(to_middle, 0), np.maximum(to_middle, 0))
    # Beyond all floats the other client still pulls: what rounds to nothing keeps its side.
    hair = np.copysign(np.finfo(np.float64).tiny, to_middle)
    return models._replace(offset=np.where(models.offset == 0, hair, models.offset))


def at_mean(draws: Draws) -> Models:
    """Return FedAvg's model: the mean of the empirical means."""
    means = draws.empirical
    return Models(np.zeros(len(means), np.int64), means.mean(-1) - means[:, 0])


def gm_appeal(draws: Draws, models: Models) -> Floats:
    """Compute the share of clients with f_k(w) < f_k(θ̂_k), for every draw, float[n].

    f_k(w) − f_k(θ̂_k) = (w − θ̂_k)(w − θ̂_k + 2(θ̂_k − θ_k)), whose sign is that of the factors'.
    """
    distance = distances(draws, models)
    worse = np.sign(distance) * np.sign(distance + 2 * (draws.empirical - draws.true))
    return np.asarray(appeal.satisfied(worse, np.float64(0)), np.float64).mean(-1)


def upper_bound(heterogeneity: Floats, variance: float) -> Floats:
    """Compute lemma A.1's bound: FedAvg's expected GM-Appeal is at most 2 exp(−γ_G²/5γ²)."""
    return np.asarray(2 * np.exp(-np.asarray(heterogeneity) / (5 * variance)))


def lower_bound(variance: float) -> float:
    """Compute theorem A.1's bound: MaxFL's expected GM-Appeal is at least exp(−1/γ²)/16."""
    return float(np.exp(-1 / variance) / 16)
