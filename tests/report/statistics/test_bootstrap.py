"""Intervals: by hand, against a plain loop, and how often they cover the truth."""

import time
from math import isnan

import numpy as np
import pytest
from scipy import stats

from maxfl.report.statistics.bootstrap import bootstrap
from support.pages import read_csv, rows_of


def plain_loop(differences, clients, resamples, seed):
    """The same resampling, draw by draw, with other draws."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(resamples):
        drawn = rng.integers(len(differences), size=len(differences))
        everybody = 0 if clients is None else 1 + max(who.max() for who in clients)
        chosen = rng.integers(max(everybody, 1), size=everybody)
        means = []
        for seed_ in drawn:
            values = differences[seed_]
            if clients is None:
                sample = [values[rng.integers(len(values))] for _ in values]
            else:
                of = dict(zip(clients[seed_].tolist(), values, strict=True))
                sample = [of[k] for k in chosen.tolist() if k in of]
            means.append(np.mean(sample) if sample else np.nan)
        found.append(np.mean(means))
    degrees = plain_degrees(differences, clients)
    t = stats.t.ppf(0.975, degrees)
    tail = stats.norm.cdf(-np.sqrt((degrees + 1) / degrees) * t)
    return np.nanquantile(found, [tail, 1 - tail])


def plain_degrees(differences, clients):
    """Satterthwaite's degrees of freedom of the two variances of the mean."""
    seeds = len(differences)
    between = np.var([np.mean(d) for d in differences], ddof=1) / seeds
    if clients is None:
        parts = [np.var(d, ddof=1) / len(d) for d in differences]
        within, free = np.sum(parts) / seeds**2, sum(len(d) - 1 for d in differences)
    else:
        of = {k: [d[list(who).index(k)] for d, who in zip(differences, clients, strict=True)
                  if k in who] for k in range(1 + max(w.max() for w in clients))}  # fmt: skip
        means = [np.mean(values) for values in of.values() if values]
        within, free = np.var(means, ddof=1) / len(means), len(means) - 1
    return (between + within) ** 2 / (between**2 / (seeds - 1) + within**2 / free)


@pytest.mark.parametrize("crossed", [False, True])
def test_it_agrees_with_a_plain_loop(crossed):
    rng = np.random.default_rng(3)
    differences = [rng.normal(0.2, 1, size) for size in (12, 9, 12, 10, 12, 11, 12)]
    clients = [np.sort(rng.permutation(12)[: len(d)]) for d in differences] if crossed else None
    found = bootstrap(differences, clients)
    assert found.mean == pytest.approx(np.mean([d.mean() for d in differences]))
    expected = plain_loop(differences, clients, 1000, 1)
    assert found[1:] == pytest.approx(expected, abs=0.08)  # a few standard errors of a percentile


def test_clients_that_all_seeds_share_do_not_average_out():
    """What is special about a client stays when seeds are many: the interval must not shrink."""
    rng = np.random.default_rng(0)
    special = rng.normal(0, 1, 20)
    differences = [special + rng.normal(0, 0.1, 20) for _ in range(30)]
    nested, crossed = (bootstrap(differences, ids) for ids in (None, [np.arange(20)] * 30))
    assert crossed.high - crossed.low > 3 * (nested.high - nested.low)
    assert crossed.high - crossed.low == pytest.approx(2 * 2.1 * special.std() / 20**0.5, rel=0.1)


def test_by_hand():
    same = bootstrap([np.full(4, 0.25), np.full(3, 0.25)])
    assert same == (0.25, 0.25, 0.25)
    assert bootstrap([np.zeros(5)] * 3) == (0, 0, 0)
    # Seeds of one mean each: of 3, the ends are reached by resamples of one seed alone.
    assert bootstrap([np.array([v]) for v in (0.1, 0.2, 0.6)]) == pytest.approx((0.3, 0.1, 0.6))
    # One seed: clients alone, and expanded percentiles of them.
    values = np.tile([0.0, 1.0], 50)
    mean, low, high = bootstrap([values])
    assert (mean, low, high) == pytest.approx((0.5, 0.4, 0.6), abs=0.011)


def test_what_has_no_interval():
    assert isnan(bootstrap([]).mean)
    assert isnan(bootstrap([np.array([0.1, np.nan]), np.array([0.1, 0.2])]).mean)
    assert isnan(bootstrap([np.zeros(0), np.ones(2)]).mean)
    mean, low, high = bootstrap([np.array([0.1])])
    assert mean == 0.1
    assert isnan(low)
    assert isnan(high)


def test_the_same_results_have_the_same_interval():
    differences = list(np.random.default_rng(0).normal(size=(3, 8)))
    assert bootstrap(differences) == bootstrap(differences)


def test_very_many_clients_have_fewer_resamples(monkeypatch):
    monkeypatch.setattr("maxfl.report.statistics.bootstrap.MOST_DRAWS", 400_000)
    monkeypatch.setattr("maxfl.report.statistics.bootstrap.AT_ONCE", 10_000)  # in parts too
    differences = list(np.random.default_rng(0).normal(size=(4, 100)))
    few, many = bootstrap(differences), bootstrap(differences, resamples=5000)
    assert few == bootstrap(differences, resamples=1000)
    assert few[1:] == pytest.approx(many[1:], abs=0.1)


@pytest.mark.parametrize(("seeds", "crossed"), [(8, False), (8, True)])
def test_it_covers_the_truth(seeds, crossed):
    """Seeds differ more than clients do, so nothing is counted twice: 95 %, up to chance."""
    rng, covered, repeats = np.random.default_rng(5), 0, 250
    for _ in range(repeats):
        differences = list(rng.normal(0, 1, (seeds, 1)) + rng.normal(0, 0.3, (seeds, 6)))
        ids = [np.arange(6)] * seeds if crossed else None
        _, low, high = bootstrap(differences, ids, resamples=500)
        covered += low <= 0 <= high
    assert covered / repeats == pytest.approx(0.95, abs=3 * (0.95 * 0.05 / repeats) ** 0.5)


def test_ten_seeds_of_a_hundred_clients_take_less_than_a_second():
    differences = list(np.random.default_rng(0).normal(size=(10, 100)))
    seconds = []
    for _ in range(2):  # the better of two: other tests are running
        began = time.perf_counter()
        bootstrap(differences)
        seconds.append(time.perf_counter() - began)
    assert min(seconds) < 1


def test_the_page_says_how_often_intervals_held_the_truth():
    found: dict[str, list[str]] = {}
    for row in read_csv("docs/interval-coverage.csv"):
        share = 100 * float(row["held the truth"])
        found.setdefault(row["differ most"], []).append(f"{share:.0f} %")
    rows = rows_of("docs/reports.md", "| where most differ |")
    assert {row[0].partition(",")[0]: row[1:] for row in rows} == found
