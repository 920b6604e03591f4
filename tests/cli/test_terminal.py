"""What is printed while a run goes on, and when it is done."""

from maxfl.cli import terminal
from maxfl.cli.terminal import progress_bar, show_summary
from maxfl.core.federation import Metadata
from maxfl.runs.summary import summarise
from support.made_runs import make_history


def test_the_table_of_a_sweep_over_lists(capsys):
    history, metadata = make_history(6, 2), Metadata("made-up data")
    entries = [summarise(history, [{"model.hidden": hidden}], metadata)[0]
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
