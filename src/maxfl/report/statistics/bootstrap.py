"""The interval of a paired difference: bootstrap over seeds, and over clients within.

d_sk is A − B for client k in seed s, and the estimate is the mean over seeds of the mean over
clients. Since A and B are subtracted client by client first, every draw is the same for both. A
resample draws as many seeds as there are, with replacement, and then clients:

- nested, where every seed has clients of its own: for each drawn seed, as many of its clients as it
  has, with replacement (Efron & Tibshirani, "An Introduction to the Bootstrap", 1993, ch. 8;
  Davison & Hinkley, "Bootstrap Methods and their Application", 1997, sec. 3.8);
- crossed, where all seeds have the same clients: one draw of clients for all seeds (Owen, "The
  pigeonhole bootstrap", Annals of Applied Statistics 1(2), 2007), since a client that is easy to
  satisfy is so in every seed.

The interval is the percentile interval, expanded for few units: with n of them, percentiles alone
are too narrow by the factor √((n − 1)/n) z/t, so the tails are Φ(−√(n/(n − 1)) t) instead of 2.5 %
(Hesterberg, "What Teachers Should Know About the Bootstrap", American Statistician 69(4), 2015).
The degrees of freedom n − 1 are those of a sum of two variances, between seeds and between clients
(Satterthwaite, Biometrics Bulletin 2(6), 1946): near S − 1 where seeds differ most. Hardly a
resample leaves the range of the seeds, so below five of them the interval is too narrow all the
same. Resampling both levels counts the variance within seeds twice (Davison & Hinkley), which errs
to the careful side. docs/interval-coverage.csv has how often intervals hold the truth.
"""

from collections.abc import Iterator, Sequence
from math import nan, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtrit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEVEL = 0.95
RESAMPLES, FEWEST_RESAMPLES = 10_000, 1_000
MOST_DRAWS = 10**8
"""Clients drawn for one interval; beyond, there are fewer resamples."""
AT_ONCE = 4_000_000
"""Clients drawn at once, which bounds the memory."""
SEED = 0
"""Of the draws, so that the same results have the same interval."""


class Interval(NamedTuple):
    """A difference and its interval; NaN where there is none."""

    mean: float
    low: float
    high: float


def bootstrap(
    differences: Sequence[Floats],
    clients: Sequence[Ints] | None = None,
    resamples: int | None = None,
) -> Interval:
    """Estimate a paired difference and its interval.

    Args:
        differences: A − B of the clients of each seed, float[K_s]; of one mean per seed where
            single clients are not known, and then seeds alone are resampled. With one seed, clients
            alone are.
        clients: Who they are, int[K_s] from 0, if the same clients are in several seeds: then these
            are drawn together.
        resamples: How many; by default 10,000, fewer for very many clients.
    """
    seeds, counts = len(differences), [len(d) for d in differences]
    if not seeds or not all(counts) or not all(np.isfinite(d).all() for d in differences):
        return Interval(nan, nan, nan)
    mean = float(np.mean([d.mean() for d in differences]))
    if max(seeds, counts[0]) < 2:
        return Interval(mean, nan, nan)
    many = resamples or int(np.clip(MOST_DRAWS // sum(counts), FEWEST_RESAMPLES, RESAMPLES))
    rng = np.random.default_rng(SEED)
    drawn = rng.integers(seeds, size=(many, seeds))
    means = (
        _nested(differences, drawn, rng)
        if clients is None
        else _crossed(differences, clients, drawn, rng)
    )
    tail = _tail(_degrees(differences, clients))
    # A resample without any client of a drawn seed has no mean; only a few clients allow it.
    low, high = np.nanquantile(means.mean(1), [tail, 1 - tail])
    return Interval(mean, float(low), float(high))


def _tail(degrees: float) -> float:
    """Return the share of resamples beyond each end: Φ(−√(n/(n−1)) t), t of n−1 degrees."""
    t = stdtrit(degrees, (1 + LEVEL) / 2)
    return float(ndtr(-sqrt((degrees + 1) / degrees) * t))


def _degrees(differences: Sequence[Floats], clients: Sequence[Ints] | None) -> float:
    """Return Satterthwaite's degrees of freedom (V + W)² / (V²/ν_V + W²/ν_W).

    V is the variance of the mean by how seeds differ, W by how clients do: those within each seed,
    or the clients' means over seeds where all seeds have the same ones.
    """
    seeds = len(differences)
    if clients is None:
        units = differences
    else:
        who = np.concatenate(list(clients))
        times = np.bincount(who)
        sums = np.bincount(who, weights=np.concatenate(list(differences)))
        units = [sums[times > 0] / times[times > 0]]
    many = [values for values in units if len(values) > 1]
    of_clients = sum(v.var(ddof=1) / len(v) for v in many) / len(units) ** 2
    free = sum(len(v) - 1 for v in many)
    if seeds == 1:
        return float(free)
    of_seeds = np.var([d.mean() for d in differences], ddof=1) / seeds
    if not free or not of_seeds + of_clients:
        return float(seeds - 1)
    both = of_seeds**2 / (seeds - 1) + of_clients**2 / free
    return float((of_seeds + of_clients) ** 2 / both)


def _nested(
    differences: Sequence[Floats], drawn: Ints, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return the mean of each drawn seed, over clients drawn for it alone, float[B, S]."""
    means = np.empty(drawn.shape)
    for seed, values in enumerate(differences):
        here = drawn == seed
        parts = [values[who].mean(1) for who in _draws(len(values), int(here.sum()), rng)]
        means[here] = np.concatenate(parts) if parts else []
    return means


def _crossed(
    differences: Sequence[Floats], clients: Sequence[Ints], drawn: Ints, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return the mean of each drawn seed, over one draw of clients for all of them, float[B, S]."""
    count = 1 + max(int(who.max()) for who in clients)
    parts = []
    for who in _draws(count, len(drawn), rng):
        row = np.arange(len(who))[:, None]
        times = np.bincount((who + row * count).ravel(), minlength=who.size).reshape(who.shape)
        with np.errstate(invalid="ignore"):  # 0/0 is NaN
            parts.append(np.stack([
                times[:, ids] @ values / times[:, ids].sum(1)
                for values, ids in zip(differences, clients, strict=True)
            ], axis=1))  # fmt: skip
    return np.take_along_axis(np.concatenate(parts), drawn, axis=1)


def _draws(clients: int, times: int, rng: np.random.Generator) -> Iterator[NDArray[np.int32]]:
    """Draw as many clients as there are, with replacement, int[≤ times, K], part by part."""
    step = max(1, AT_ONCE // clients)
    for start in range(0, times, step):
        size = (min(step, times - start), clients)
        yield rng.integers(clients, size=size, dtype=np.int32)
