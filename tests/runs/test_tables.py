"""Tables of results: a run's metrics in tidy form."""

import pytest

from maxfl.runs.tables import Labels, metrics_table
from support.small import PAIR, sweep, train


def test_metrics_are_tidy():
    history = train(**sweep(*PAIR))
    values = [{"training.local_lr": 0.1}, {"training.local_lr": 0.2, "method": "x"}]
    rows = metrics_table(history, Labels([5, 7], values), [3, 4]).to_pylist()
    assert len(rows) == 2 * 8 * 2 * 9  # configurations, rounds, groups, metrics
    (row,) = (
        r for r in rows
        if (r["configuration"], r["round"], r["clients"], r["metric"])
        == (7, 2, "unseen", "test_accuracy")
    )  # fmt: skip
    assert row["value"] == pytest.approx(float(history.accuracy("unseen")[1, 2]))
    assert (row["seed"], row["training.local_lr"], row["method"]) == (4, 0.2, "x")
    assert rows[0]["method"] is None
