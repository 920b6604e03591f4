"""Tables of results: a run's metrics in tidy form."""

import numpy as np
import pytest

import maxfl
from maxfl.core.metrics import MetricInfo
from maxfl.runs.tables import (
    ClientSizes,
    Labels,
    clients_table,
    history_table,
    merge_metrics,
    metrics_table,
)
from support.made_runs import REGRESSION, make_history
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
    assert row["value"] == pytest.approx(float(history.test_metric("unseen")[1, 2]))
    assert (row["seed"], row["training.local_lr"], row["method"]) == (4, 0.2, "x")
    assert rows[0]["method"] is None


def test_labels_are_kept_as_json_holds_them():
    values = [{"x": np.float32(0.5), "y": np.arange(2)}, {"x": np.int64(3), "y": None}]
    labels = Labels([np.int64(4), 7], values, {"a": (1, "b")}).of(2)
    assert labels.values == [{"x": 0.5, "y": [0, 1]}, {"x": 3, "y": None}]
    assert labels.indices == [4, 7]
    assert labels.config == {"a": [1, "b"]}


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ({"indices": [5, 5]}, r"indices = \[5, 5\]: expected a different one for each"),
        ({"indices": [0]}, "indices has 1 entries for 2 configurations"),
        ({"indices": ["a", "b"]}, "indices = 'a': expected one whole number"),
        ({"values": [{"x": float("nan")}, {}]}, r"values\.x = nan: a results file can't hold"),
        ({"config": {"a": [1, float("inf")]}}, r"config\.a = inf"),
        ({"config": {"a": object()}}, r"config\.a = <object"),
        ({"values": [{"round": 2}, {}]}, r"values\.round: metrics\.parquet has a column"),
        ({"values": [5, {}]}, "values = 5: expected a dict for each configuration"),
    ],
)
def test_labels_that_a_results_file_cannot_hold_are_refused(labels, words):
    with pytest.raises(maxfl.InputError, match=words):
        Labels(**labels).of(2)


def test_values_of_several_types_are_text():
    history = train(**sweep(*PAIR))
    labels = Labels(values=[{"a": 1}, {"a": "x"}]).of(2)
    assert set(metrics_table(history, labels, [0, 0])["a"].to_pylist()) == {"1", "x"}


@pytest.mark.parametrize(
    ("values", "written"),
    [
        (("training", 0.01), ("training", "0.01")),
        (([0.1, 0.01], 0.3), ("[0.1, 0.01]", "0.3")),
        ((10, [10, 20]), ("10", "[10, 20]")),
        ((True, "x"), ("true", "x")),
        ((1, 0.5), (1.0, 0.5)),
        (([1], [0.5, 2.0]), ([1.0], [0.5, 2.0])),
        ((None, "x"), (None, "x")),
    ],
)
def test_groups_of_a_sweep_may_have_values_of_other_types(values, written):
    chosen = [{"a": value, "seed": 3} for value in values]
    history = make_history(4, 2)
    parts = [metrics_table(history, Labels([n], [chosen[n]]), [3]) for n in (1, 0)]
    table = merge_metrics(parts, chosen)
    assert table.column_names == parts[0].column_names
    rows = table.select(["configuration", "a"]).to_pylist()
    assert len(rows) == 2 * len(parts[0])
    assert all(row["a"] == written[row["configuration"]] for row in rows)


def test_every_metric_has_a_column():
    history = make_history(4, 2, metrics=REGRESSION)
    columns = history_table(history, [0]).column_names
    assert columns[5:9] == ["judging_loss", "test_loss", "test_mae", "test_rmse"]
    sizes = ClientSizes(np.array(list("abcd")), *(np.ones(4, int) for _ in range(3)))
    columns = clients_table(history, sizes, [0]).column_names
    assert columns[-3:] == ["solo_test_loss", "solo_test_mae", "solo_test_rmse"]
    metrics = set(metrics_table(history, Labels().of(1), [0])["metric"].to_pylist())
    assert {"test_mae", "test_rmse", "preferred_mae", "solo_mae"} < metrics
    assert "preferred_rmse" not in metrics


def test_the_columns_of_a_classifier():
    columns = history_table(make_history(4, 2), [0]).column_names
    assert columns == [
        "configuration", "round", "client", "seen", "byzantine", "judging_loss", "test_loss",
        "test_accuracy", "satisfied_test", "satisfied_judging", "satisfied_literal", "willing",
        "sampled", "participated", "weight",
    ]  # fmt: skip


def test_a_metric_that_is_the_loss_has_one_column():
    history = make_history(4, 2, metrics=(MetricInfo("loss", higher_is_better=False),))
    assert history_table(history, [0]).column_names.count("test_loss") == 1
    rows = metrics_table(history, Labels().of(1), [0])["metric"].to_pylist()
    assert rows.count("test_loss") == 3  # rounds
