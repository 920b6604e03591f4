"""Histories as tables of Arrow, pandas and Polars: what a run would write."""

import jax
import numpy as np
import pyarrow as pa
import pytest

import maxfl
from maxfl.runs import frames
from maxfl.runs.tables import rounds_table
from support import small
from support.made_runs import CLIENTS, ROUNDS, make_history, with_origin

MADE = make_history(CLIENTS, ROUNDS, unseen=2)
HISTORY = with_origin(MADE, maxfl.maxfl(), seed=7)


def doubled(history):
    """Return two equal configurations."""
    names = ("evaluation", "cohorts", "solo", "thresholds", "is_byzantine")
    parts = {name: getattr(history, name) for name in names}
    return history._replace(**jax.tree.map(lambda a: np.concatenate([a, a]), parts))


def test_tables_are_those_of_a_run():
    assert HISTORY.to_arrow("rounds").equals(rounds_table(MADE, [0]))
    metrics = HISTORY.to_arrow()
    assert set(metrics["seed"].to_pylist()) == {7}
    assert {"gm_appeal", "test_accuracy"} <= set(metrics["metric"].to_pylist())
    clients = HISTORY.to_arrow("clients")
    assert (len(clients), clients["train_samples"].to_pylist()) == (CLIENTS, [5] * CLIENTS)
    assert HISTORY.to_arrow("partition")["samples"].to_numpy().sum() == 10 * CLIENTS
    assert len(HISTORY.to_arrow("history")) == CLIENTS * (ROUNDS + 1)


def test_swept_settings_are_columns():
    sweep = with_origin(doubled(MADE), maxfl.maxfl([0.3, 1.0]), seed=[4, 5])
    table = sweep.to_arrow()
    by_configuration = table.group_by("configuration").aggregate(
        [("algorithm.temperature", "max"), ("seed", "max")]
    )
    assert by_configuration.to_pydict() == {
        "configuration": [0, 1], "algorithm.temperature_max": [0.3, 1.0], "seed_max": [4, 5],
    }  # fmt: skip
    alike = with_origin(doubled(MADE), maxfl.maxfl(), seed=[4, 5])
    assert alike.to_arrow().column_names == HISTORY.to_arrow().column_names


def test_data_frames():
    pandas = pytest.importorskip("pandas")
    assert isinstance(HISTORY.to_pandas("clients"), pandas.DataFrame)


@pytest.mark.extras
def test_data_frames_of_polars():
    polars = pytest.importorskip("polars")
    frame = HISTORY.to_polars()
    assert isinstance(frame, polars.DataFrame)
    assert frame.to_arrow().num_rows == len(HISTORY.to_arrow())


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_missing_package_is_named(monkeypatch, package):
    monkeypatch.setattr(frames, "find_spec", lambda name: None)  # noqa: ARG005
    with pytest.raises(maxfl.InputError, match=f"{package} is not installed: pip install"):
        getattr(HISTORY, f"to_{package}")()


def test_what_is_wrong_is_said():
    with pytest.raises(maxfl.InputError, match="table = 'cohorts': expected one of metrics"):
        HISTORY.to_arrow("cohorts")
    with pytest.raises(maxfl.InputError, match="does not say of which clients"):
        MADE.to_arrow()


def test_tables_need_no_samples():
    x = HISTORY.origin.federation.train.x
    assert x.size == 0
    assert isinstance(HISTORY.to_arrow(), pa.Table)


def test_seeds_are_not_taken_for_the_rates_of_solo_models():
    """Three seeds, and by default three rates that each client tries alone."""
    made = small.simulation(maxfl.fedavg(), requirement=maxfl.solo(), seed=(0, 1, 2))
    assert made.origin.settings["requirement"]["local_lr"] == "0.1, 0.01, 0.001"
    assert list(frames.swept_labels(made.origin).values) == [{}, {}, {}]
