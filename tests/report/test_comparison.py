"""Methods against each other: paired by seed, on the same clients, without Byzantine ones."""

import numpy as np
import pytest

from maxfl.report.comparison import comparison_table, standing
from maxfl.report.measures import APPEAL, measure_of
from maxfl.report.series import Key, Series, all_series, value_range
from maxfl.report.source import read
from maxfl.report.statistics.bootstrap import bootstrap
from maxfl.report.statistics.compare import Results, read_traces
from maxfl.report.statistics.pairing import pairs
from support.made_runs import REGRESSION, make_history, settings_of, write_run


def results_of(folders):
    source = read(folders)
    series = all_series(source)
    return Results(source, series, read_traces(source, series))


def test_comparisons_are_paired_by_seed(folders):
    results = results_of(folders)
    (pair,) = pairs(results.source, results.series)
    assert (pair.first, pair.second, pair.seeds) == ("MaxFL", "FedAvg", [0, 1])
    table = comparison_table(results, [pair])
    (row,) = [r for r in table.rows if r[2] == "seen"]
    only, differences, traces = [], [], results.traces
    for seed in (0, 1):
        a, b = traces["", "MaxFL", seed], traces["", "FedAvg", seed]
        satisfied = [np.array([t.satisfied[-1, k] for k in range(10)]) for t in (a, b)]
        only.append(sum(satisfied[0] & ~satisfied[1]))
        differences.append(satisfied[0].astype(float) - satisfied[1])
    assert row[4].mean == pytest.approx(np.mean(differences))
    assert row[4][:3] == bootstrap(differences)
    assert row[7].mean == pytest.approx(np.mean(only))
    assert "come out in the same order in all of them in 1 of 2 cases" in table.notes[-1]


def test_runs_on_other_clients_are_not_paired(tmp_path):
    runs = [
        write_run(tmp_path / name, make_history(5, 2), settings_of(name), 0, digest)
        for name, digest in (("fedavg", "one"), ("maxfl", "other"))
    ]
    source = read(runs)
    assert pairs(source, all_series(source)) == []


@pytest.mark.parametrize(
    ("fedavg", "maxfl", "first", "word"),
    [
        ([0.4, 0.6], [0.5, 0.7], "MaxFL", "ahead"),  # 0.1 in both
        ([0.1, 0.9], [0.5, 0.7], "MaxFL", "not told apart"),
        ([0.5, 0.5], [0.5, 0.5], "FedAvg", "not told apart"),
        ([0.9, 0.8], [0.1, np.nan], "FedAvg", "ahead"),  # a diverged run satisfies nobody
    ],
)
def test_a_lead_counts_if_its_interval_lies_above_zero(folders, fedavg, maxfl, first, word):
    series = {
        Key("", method, "seen", "global", "gm_appeal"): Series(
            np.arange(2), np.array([[0.0, value] for value in values])
        )
        for method, values in (("FedAvg", fedavg), ("MaxFL", maxfl))
    }
    found = standing(Results(read(folders), series, {}), "")  # means alone
    assert (found.ranked[0][0], found.lead.word, found.seeds) == (first, word, [0, 1])
    assert (found.lead.resampled, found.satisfied) == ("seeds", None)


def test_byzantine_clients_count_on_neither_side(tmp_path):
    runs = [
        write_run(
            tmp_path / name, make_history(10, 3, drift=1.0, byzantine=byzantine), settings_of(name)
        )
        for name, byzantine in (("fedavg", ()), ("maxfl", (2, 5)))
    ]
    results = results_of(runs)
    (row,) = comparison_table(results, pairs(results.source, results.series)).rows
    assert [row[i].mean for i in (4, 5, 7, 8)] == [0, 0, 0, 0]  # the same losses
    assert (row[6], row[9].value) == ("n/a", 1.0)  # one seed


def test_personal_models_are_what_is_compared(tmp_path):
    runs = [
        write_run(
            tmp_path / name, make_history(10, 3, drift=0.1, personal=personal), settings_of(name)
        )
        for name, personal in (("maxfl", None), ("ditto", 1.0))
    ]
    results = results_of(runs)
    trace = results.traces["", "Ditto", 0]
    assert trace.model == "personal"
    assert np.allclose(trace.test_value, results.traces["", "MaxFL", 0].test_value - 1, atol=1e-5)
    table = comparison_table(results, pairs(results.source, results.series))
    assert table.rows[0][:2] == ("Ditto (personal models)", "MaxFL")
    assert table.rows[0][4].mean > 0
    assert any("personal models are compared by these" in note for note in table.notes)
    found = standing(results, "")
    assert found.ranked[0][0] == "Ditto"
    assert found.ranked[0][1] == pytest.approx(trace.satisfied[-1].mean())


def test_other_demands_are_not_subtracted(tmp_path):
    runs = []
    for name, factor in (("fedavg", 1.0), ("maxfl", 1.5)):
        history = make_history(10, 3, drift=0.4)
        history = history._replace(thresholds=type(history.thresholds)(
            *(factor * t for t in history.thresholds)))  # fmt: skip
        settings = {**settings_of(name), "requirement": {"multiple": factor}}
        runs.append(write_run(tmp_path / name, history, settings))
    results = results_of(runs)
    table = comparison_table(results, pairs(results.source, results.series))
    (row,) = table.rows
    assert np.isnan([row[4].mean, row[9].value]).all()
    assert np.isfinite(row[5].mean)  # the metric needs no requirement
    assert row[6] == "n/a"
    (said,) = [note for note in table.notes if "do not require the same" in note]
    assert "(requirement.multiple differs)" in said


def test_a_diverged_curve_does_not_flatten_the_others():
    curves = [
        Series(np.arange(3), np.array([[2.0, 1.0, last]])) for last in (0.5, 1e9, np.nan, -0.1)
    ]
    assert value_range(measure_of(REGRESSION[0]), curves) == pytest.approx((-0.105, 6.3))
    assert value_range(measure_of(REGRESSION[0]), curves[2:3]) == pytest.approx((0.0, 2.1))
    assert value_range(APPEAL, curves) == (0.0, 1.0)
