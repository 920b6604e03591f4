"""Results of several calls of a benchmark are one file if they are of one session."""

import json

import pytest

from support.commands import ROOT


@pytest.fixture
def origin(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import origin

    return origin


@pytest.fixture
def continued(origin):
    return origin.continued


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


def test_a_record_is_replaced_by_a_whole_one_alone(origin, tmp_path):
    file, part = tmp_path / "record.json", tmp_path / "record.json.part"
    rows = [{"model": "mlp", "ms": 1}]
    origin.write_rounds({"rounds": rows}, file, is_record=True, is_last=False)
    assert not file.exists(), "others are to come"
    assert json.loads(part.read_text()) == {"rounds": rows}
    origin.write_rounds({"rounds": rows}, file, is_record=True, is_last=True)
    assert not part.exists()
    failed = [*rows, {"failed": 1}]
    with pytest.raises(SystemExit, match="stays as it was: cases that failed: 1"):
        origin.write_rounds({"rounds": failed}, file, is_record=True, is_last=True)
    assert json.loads(file.read_text()) == {"rounds": rows}
    assert json.loads(part.read_text()) == {"rounds": failed}


def test_another_file_is_written_after_each_case(origin, tmp_path):
    file = tmp_path / "found.json"
    for rows in ([{"failed": 1}], [{"failed": 1}, {"ms": 2}]):
        origin.write_rounds({"rounds": rows}, file, is_record=False, is_last=False)
        assert json.loads(file.read_text()) == {"rounds": rows}
