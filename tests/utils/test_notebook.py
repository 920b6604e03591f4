"""A notebook is known by the shell that runs its cells; IPython is never imported to ask."""

import sys
from types import SimpleNamespace

import pytest

from maxfl.utils.notebook import in_notebook


class ZMQInteractiveShell:
    """As Jupyter's."""


class Colab(ZMQInteractiveShell):
    """As Colab's."""


class TerminalInteractiveShell:
    """As that of IPython in a terminal."""


@pytest.mark.parametrize(
    ("shell", "expected"),
    [(ZMQInteractiveShell(), True), (Colab(), True), (TerminalInteractiveShell(), False),
     (None, False)],
)  # fmt: skip
def test_a_notebook_is_known(monkeypatch, shell, expected):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert in_notebook() is expected


def test_without_ipython_there_is_none(monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not in_notebook()
    assert "IPython" not in sys.modules
