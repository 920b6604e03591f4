"""The phase diagram: where cases lie, and by how much one method leads in each."""

import json

import numpy as np
import pytest

from maxfl.report.page import _phases
from maxfl.report.series import all_series
from maxfl.report.source import read
from maxfl.report.statistics.bootstrap import Interval
from maxfl.report.statistics.compare import Results, read_traces
from maxfl.report.statistics.pairing import pairs
from maxfl.report.statistics.phases import phases
from support.made_runs import make_history, settings_of, write_run


def found_in(folders):
    source = read(folders)
    series = all_series(source)
    results = Results(source, series, read_traces(source, series))
    return results, phases(results, pairs(source, series))


def write_all(folder, places):
    """Two methods on data of some settings, MaxFL with more drift: it satisfies more."""
    return [
        write_run(
            folder / f"{name}-{i}",
            make_history(12, 6, drift=drift, seed=i),
            settings_of(name) | {"data": data},
            0,
            f"federation {i}",
        )
        for i, data in enumerate(places)
        for name, drift in (("fedavg", 0.05), ("maxfl", 0.3))
    ]


def test_two_settings_make_a_grid_in_their_order(tmp_path):
    places = [{"alpha": a, "clients": c} for a, c in ((1.0, 12), (0.1, 12), (0.1, 100))]
    results, found = found_in(write_all(tmp_path, places))
    assert found.grid.axes == ("alpha", "clients")
    assert (found.grid.rows, found.grid.columns) == (["0.1", "1.0"], ["12", "100"])
    assert found.grid.cases == [[1, 2], [0, None]]  # 0.1 before 1.0; 1.0 with 100 was not run
    assert [lead.case for lead in found.leads] == [0, 1, 2]
    for lead in found.leads:
        case = results.source.cases[lead.case]
        a, b = (results.traces[case, m, 0].satisfied[-1].mean() for m in (lead.a, lead.b))
        assert lead.levels == pytest.approx((b, a))
        assert lead.interval.mean == pytest.approx(a - b)
        assert a > b


def test_one_setting_makes_a_row(tmp_path):
    _, found = found_in(write_all(tmp_path, [{"alpha": 0.1}, {"alpha": 5.0}]))
    assert found.grid == (("", "data"), [""], ["alpha 0.1", "alpha 5.0"], [[0, 1]])


def test_a_lead_without_an_interval_is_shown(tmp_path):
    _, found = found_in(write_all(tmp_path, [{"alpha": 0.1}, {"alpha": 5.0}]))
    lead = found.leads[0]._replace(interval=Interval(0.25, np.nan, np.nan))
    data = _phases(found._replace(leads=[lead]))
    assert data["leads"][0]["lead"] == [0.25, None, None]
    json.dumps(data, allow_nan=False)  # as the page writes it


def test_one_data_set_has_no_diagram(tmp_path):
    _, found = found_in(write_all(tmp_path, [{"alpha": 0.1}]))
    assert found is None


def test_a_lead_of_one_seed_is_over_clients(tmp_path):
    _, found = found_in(write_all(tmp_path, [{"alpha": 0.1}, {"alpha": 5.0}]))
    assert np.isfinite(found.leads[0].interval).all()


def test_no_data_set_is_hidden_behind_another(tmp_path):
    places = [{"alpha": a, "clients": c} for a, c in ((0.1, 12), (1.0, 12), (0.1, 100))]
    places.append({"alpha": 0.1, "clients": 12, "flip": "reverse"})  # which the others lack
    results, found = found_in(write_all(tmp_path, places))
    assert found.grid.rows == [""]
    assert found.grid.columns == results.source.cases
    assert found.grid.cases == [[0, 1, 2, 3]]


def test_a_rate_tuned_for_each_data_set_is_no_axis(tmp_path):
    runs = [
        write_run(
            tmp_path / f"{name}-{alpha}",
            make_history(6, 3, drift=drift),
            settings_of(name) | {"data": {"alpha": alpha}, "training": {"local_lr": alpha / 10}},
            0,
            str(alpha),
        )
        for alpha in (0.1, 1.0)
        for name, drift in (("fedavg", 0.05), ("maxfl", 0.3))
    ]
    _, found = found_in(runs)
    assert found.grid.rows == [""]
