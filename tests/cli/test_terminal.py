"""What is printed when a run is done."""

from maxfl.cli.terminal import show_summary
from maxfl.core.federation import Metadata
from maxfl.runs.summary import summarise
from support.made_runs import make_history


def test_the_table_of_a_sweep_over_lists(capsys):
    history, metadata = make_history(6, 2), Metadata("made-up data")
    entries = [summarise(history, [{"model.hidden": hidden}], metadata)[0]
               for hidden in ([8], [4, 4])]  # fmt: skip
    show_summary(entries, "two of them")
    assert "[4, 4]" in capsys.readouterr().out
