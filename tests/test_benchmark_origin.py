"""Results of several calls of a benchmark are one file if they are of one session."""

import json

import pytest

from support.commands import ROOT


@pytest.fixture
def continued(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from origin import continued

    return continued


def test_other_models_of_the_same_session_stay(continued, tmp_path):
    file, header = tmp_path / "found.json", {"card": "A"}
    assert continued(file, header, ["mlp"], "model") == {"card": "A", "rounds": []}
    mlp, cnn = {"model": "mlp"}, {"model": "cnn"}
    file.write_text(json.dumps(header | {"rounds": [mlp, cnn]}))
    assert continued(file, header, ["mlp"], "model")["rounds"] == [cnn]


def test_those_of_another_session_are_not_overwritten_unless_all_are_measured(continued, tmp_path):
    file = tmp_path / "found.json"
    file.write_text(json.dumps({"card": "B", "rounds": [{"model": "cnn"}]}))
    with pytest.raises(SystemExit, match="another day, card"):
        continued(file, {"card": "A"}, ["mlp"], "model")
    assert continued(file, {"card": "A"}, ["mlp", "cnn"], "model")["rounds"] == []
