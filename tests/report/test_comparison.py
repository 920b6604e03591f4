"""Methods against each other: paired by seed, on the same clients, without Byzantine ones."""

import numpy as np
import pytest

from maxfl.report.comparison import comparison_table, pairs, standing
from maxfl.report.measures import APPEAL, measure_of
from maxfl.report.series import Key, Series, all_series, value_range
from maxfl.report.source import read
from maxfl.report.traces import read_trace
from support.made_runs import REGRESSION, make_history, settings_of, write_run


def test_comparisons_are_paired_by_seed(folders):
    source = read(folders)
    series = all_series(source)
    traces = {("", c.method, c.seed): read_trace(c) for c in source.configurations}
    (pair,) = pairs(source, series)
    assert (pair.first, pair.second, pair.seeds) == ("MaxFL", "FedAvg", [0, 1])
    table = comparison_table(source, series, [pair], traces)
    (row,) = [r for r in table.rows if r[2] == "seen"]
    only, difference = [], []
    for seed in (0, 1):
        a, b = traces["", "MaxFL", seed], traces["", "FedAvg", seed]
        satisfied = [np.array([t.satisfied[-1, k] for k in range(10)]) for t in (a, b)]
        only.append(sum(satisfied[0] & ~satisfied[1]))
        difference.append(satisfied[0].mean() - satisfied[1].mean())
    assert row[4].mean == pytest.approx(np.mean(difference))
    assert row[4].std == pytest.approx(np.std(difference, ddof=1), abs=1e-6)
    assert row[6].mean == pytest.approx(np.mean(only))


def test_runs_on_other_clients_are_not_paired(tmp_path):
    runs = [
        write_run(tmp_path / name, make_history(5, 2), settings_of(name), 0, digest)
        for name, digest in (("fedavg", "one"), ("maxfl", "other"))
    ]
    source = read(runs)
    assert pairs(source, all_series(source)) == []


@pytest.mark.parametrize(
    ("fedavg", "maxfl", "first", "ahead"),
    [
        ([0.4, 0.6], [0.5, 0.7], "MaxFL", True),  # a lead of 0.1 ± 0
        ([0.1, 0.9], [0.5, 0.7], "MaxFL", False),  # 0.1 ± 0.42
        ([0.5, 0.5], [0.5, 0.5], "FedAvg", False),
        ([0.9, 0.8], [0.1, np.nan], "FedAvg", True),  # a diverged run satisfies nobody
    ],
)
def test_a_lead_counts_if_it_exceeds_its_standard_deviation(folders, fedavg, maxfl, first, ahead):
    series = {
        Key("", method, "seen", "global", "gm_appeal"): Series(
            np.arange(2), np.array([[0.0, value] for value in values])
        )
        for method, values in (("FedAvg", fedavg), ("MaxFL", maxfl))
    }
    found = standing(read(folders), series, "")
    assert (found.ranked[0][0], found.ahead, found.seeds) == (first, ahead, [0, 1])


def test_byzantine_clients_count_on_neither_side(tmp_path):
    runs = [
        write_run(
            tmp_path / name, make_history(10, 3, drift=1.0, byzantine=byzantine), settings_of(name)
        )
        for name, byzantine in (("fedavg", ()), ("maxfl", (2, 5)))
    ]
    source = read(runs)
    series = all_series(source)
    traces = {("", c.method, 0): read_trace(c) for c in source.configurations}
    (row,) = comparison_table(source, series, pairs(source, series), traces).rows
    assert [cell.mean for cell in row[4:]] == [0, 0, 0, 0]  # the same losses


def test_a_diverged_curve_does_not_flatten_the_others():
    curves = [
        Series(np.arange(3), np.array([[2.0, 1.0, last]])) for last in (0.5, 1e9, np.nan, -0.1)
    ]
    assert value_range(measure_of(REGRESSION[0]), curves) == pytest.approx((-0.105, 6.3))
    assert value_range(measure_of(REGRESSION[0]), curves[2:3]) == pytest.approx((0.0, 2.1))
    assert value_range(APPEAL, curves) == (0.0, 1.0)
