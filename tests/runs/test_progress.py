"""The progress file stays small, however long the run."""

import numpy as np

from maxfl.core.metrics import ACCURACY
from maxfl.runs.progress import MOST_POINTS, PROGRESS, ProgressFile, read_progress, trail_names
from support.made_runs import REGRESSION, make_history

NAMES = trail_names(ACCURACY)


def test_the_trail_does_not_grow(tmp_path):
    shown = ProgressFile(tmp_path, [{}], None)
    for done in range(5000):
        shown.note([done], {name: np.array([[done / 5000]]) for name in NAMES})
    shown.begin()
    rounds = read_progress(tmp_path).trail["round"]
    assert MOST_POINTS // 2 <= len(rounds) <= MOST_POINTS
    assert len(set(np.diff(rounds))) == 1, "evenly spaced"
    assert rounds[0] == 0
    assert rounds[-1] > 4900
    assert (tmp_path / PROGRESS).stat().st_size < 40_000


def test_short_runs_keep_every_round(tmp_path):
    shown = ProgressFile(tmp_path, [{}], None)
    shown.note([0, 1, 2], {name: np.array([[0.0, 0.5, 1.0]]) for name in NAMES})
    shown.warn(["the model stood still"])
    shown.begin()
    state = read_progress(tmp_path)
    assert state.trail["round"] == [0, 1, 2]
    assert state.trail["gm_appeal"] == [0.0, 0.5, 1.0]
    assert state.warnings == ["the model stood still"]
    assert state.stage == "starting"


def test_the_trail_has_the_models_metric(tmp_path):
    shown = ProgressFile(tmp_path, [{}], None)
    shown.measured(make_history(6, 2, metrics=REGRESSION))
    shown.begin()
    state = read_progress(tmp_path)
    assert state.metric == REGRESSION[0]
    assert set(state.latest[0]) == {"gm_appeal", "test_mae", "willing"}
