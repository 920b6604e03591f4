"""The summary, worked by hand."""

import numpy as np
import pytest

from maxfl.report.series import all_series
from maxfl.report.source import read
from maxfl.report.summary_tables import summary_table
from support.made_runs import CLIENTS, ROUNDS, make_history, settings_of, write_run


def test_the_summary_has_the_means_worked_by_hand(folders):
    source = read(folders)
    table = summary_table(source, all_series(source))
    assert table.headings[:3] == ("method", "clients", "seeds")
    appeal = []
    for seed in (0, 1):
        history = make_history(CLIENTS, ROUNDS, unseen=2, drift=0.3, seed=seed)
        satisfied = history.evaluation.test_loss[0, -1] < history.thresholds.test[0]
        appeal.append(satisfied[:10].mean())
    (row,) = [r for r in table.rows if r[:2] == ("MaxFL", "seen")]
    assert row[2] == 2
    assert row[3].mean == pytest.approx(np.mean(appeal))
    assert row[3].std == pytest.approx(np.std(appeal, ddof=1))


@pytest.mark.parametrize(("rule", "is_shown"), [("everyone", False), ("opt-out", True)])
def test_who_is_willing_is_left_out_where_nobody_leaves(tmp_path, rule, is_shown):
    settings = settings_of("maxfl") | {"participation": {"rule": rule}}
    source = read([write_run(tmp_path / "run", make_history(4, 2), settings)])
    table = summary_table(source, all_series(source))
    assert ("willing, %" in table.headings) == is_shown
