"""The command in this process: the programs that it compiles are then those of other tests too."""

import sys
from pathlib import Path

import pytest

from maxfl.cli import main, terminal

ROOT = Path(__file__).parents[2]


@pytest.fixture
def maxfl(monkeypatch, capsys):
    """Run the command and return what it printed."""
    monkeypatch.chdir(ROOT)
    for console in (terminal.console, terminal.errors):
        monkeypatch.setattr(console, "width", 100)

    def command(*arguments, code=0):
        monkeypatch.setattr(sys, "argv", ["maxfl", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        text = printed.out + printed.err
        assert (ended.value.code or 0) == code, text
        return text

    return command
