"""Bars of progress: in a notebook, in a terminal, or none."""

import sys
from types import SimpleNamespace

import pytest

import maxfl
from maxfl.engine import trainer
from maxfl.engine.trainer import shown_progress
from maxfl.runs.progress_bar import NotebookBar, progress_bar


class Clock:
    """A clock that stands still until it is set."""

    now = 0.0

    def __call__(self):
        return self.now


def test_a_notebook_sees_stage_pace_and_end():
    clock, shown = Clock(), []
    bar = NotebookBar(lambda drawn: shown.append(drawn), clock)
    for now, *report in (
        (1.0, "solo training", 4, 8), (1.01, "solo training", 5, 8), (2.0, "rounds", 0, 40),
        (4.0, "rounds", 10, 40), (10.0, "rounds", 40, 40),
    ):  # fmt: skip
        clock.now = now
        bar.report(*report)
    bar.close()
    assert [drawn.words for drawn in shown] == [
        "solo training: 4 of 8", "rounds: 0 of 40", "rounds: 10 of 40, about 6 s left",
        "rounds: 40 of 40", "40 rounds in 10.0 s",
    ]  # fmt: skip
    assert shown[2]._repr_html_().startswith("<progress value='0.250' max='1'>")
    assert repr(shown[2]) == shown[2].words


def test_a_run_that_is_cut_off_says_how_far_it_came():
    shown = []
    bar = NotebookBar(lambda drawn: shown.append(drawn), Clock())
    bar.close()
    assert not shown, "nothing was begun"
    bar.report("resumed", 20, 40)
    bar.close()
    assert shown[-1].words == "stopped at rounds: 20 of 40, in 0.0 s"


def test_in_a_notebook_there_is_a_bar_by_default(monkeypatch):
    drawn = []

    class Handle:
        update = staticmethod(drawn.append)

    def display(bar, display_id):
        assert display_id
        drawn.append(bar)
        return Handle

    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    for module in (trainer, sys.modules["maxfl.runs.progress_bar"]):
        monkeypatch.setattr(module, "in_notebook", lambda: True)
    with shown_progress(None) as report:
        report("rounds", 1, 2)
        report("rounds", 2, 2)
    assert [bar.words.split(" in")[0] for bar in drawn] == ["rounds: 1 of 2", "2 rounds"]
    with shown_progress(False) as report:
        assert report is None


def test_elsewhere_there_is_one_if_it_is_asked_for(capsys):
    with shown_progress(None) as report:
        assert report is None
    with shown_progress(True) as report:
        report("rounds", 20, 20)
    assert "20/20" in capsys.readouterr().err
    with progress_bar() as report:
        report("rounds", 1, 20)


def test_ones_own_is_called_and_other_things_are_refused():
    with shown_progress(print) as report:
        assert report is print
    with pytest.raises(maxfl.InputError, match="progress = 3: expected a function"):
        shown_progress(3).__enter__()
