"""What is printed while a run goes on, and when it is done."""

import numpy as np

from maxfl.cli import terminal
from maxfl.cli.terminal import progress_bar, show_summary
from maxfl.runs.summary import summarise
from support.made_runs import REGRESSION, make_history
from support.small import MODEL, SMALL


def test_the_table_of_a_sweep_over_lists(capsys):
    history = make_history(6, 2)
    entries = [summarise(history, [{"model.hidden": hidden}], SMALL, MODEL.summary())[0]
               for hidden in ([8], [4, 4])]  # fmt: skip
    show_summary(entries, "two of them")
    assert "[4, 4]" in capsys.readouterr().out


def test_progress_on_a_pipe_has_a_last_line(capsys, monkeypatch):
    monkeypatch.setattr(terminal, "QUIET", 0.0)
    with progress_bar("starting") as bar:
        for group in range(2):
            report = bar.parts(group, 2)
            report("resumed", 1, 4)
            report("rounds", 2, 4)
            report("rounds", 4, 4)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "group 1 of 2: resuming after round 1 of 4"
    assert lines[-1] == "group 2 of 2: rounds, 4 of 4"


def test_short_work_on_a_pipe_prints_no_progress(capsys):
    with progress_bar("starting") as bar:
        bar.parts(0, 1)("rounds", 4, 4)
    assert capsys.readouterr().err == ""


def test_the_table_names_the_models_metric(capsys):
    history = make_history(6, 2, metrics=REGRESSION)
    (entry,) = summarise(history, [{}], SMALL, MODEL.summary())
    assert entry["metrics"][1] == {"name": "rmse", "higher_is_better": False, "percent": False}
    assert set(entry["seen"]) >= {"test_mae", "test_rmse", "solo_test_rmse", "preferred_mae"}
    show_summary([entry], "one")
    shown = capsys.readouterr().out
    assert "test mae" in shown
    assert "lower is better" in shown
    assert "accuracy" not in shown
    solo = float(history.solo_metric()[0])
    assert f"used their own: {solo:.2f}" in " ".join(shown.split())


def test_solo_models_that_diverged_have_no_metric(capsys):
    history = make_history(6, 2, metrics=REGRESSION)
    lost = tuple(np.full_like(values, np.inf) for values in history.solo.test_metrics)
    history = history._replace(solo=history.solo._replace(test_metrics=lost))
    show_summary(summarise(history, [{}], SMALL, MODEL.summary()), "one")
    assert "used their own: n/a" in " ".join(capsys.readouterr().out.split())
