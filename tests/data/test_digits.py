"""The digits of scikit-learn, also where it is not installed."""

import pytest

from maxfl.cli import data as data_command
from maxfl.data.registry import entry

pytestmark = pytest.mark.usefixtures("own_cache")


def test_digits():
    pytest.importorskip("sklearn", reason="scikit-learn brings the digits")
    from maxfl.data.digits import MEAN, STD, digits

    data = digits()
    assert data.x.shape == (1797, 8, 8)
    assert data.x.mean() == pytest.approx(MEAN, abs=1e-3)
    assert data.x.std() == pytest.approx(STD, abs=1e-3)


def test_digits_are_missing_without_scikit_learn(monkeypatch):
    monkeypatch.setattr(data_command, "find_spec", lambda _: None)
    assert "pip install 'maxfl" in data_command._state(entry("digits"), None)
