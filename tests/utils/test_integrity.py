"""Digests: whatever bit of a file or of the summary changes is found."""

import json

import pytest

import maxfl
from maxfl.utils.integrity import explain_damage, file_digest, find_damage, refuse_damaged, seal


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"abc")
    summary = seal({"rounds": 3, "loss": 0.1}, {"a.bin": file_digest(tmp_path / "a.bin")})
    (tmp_path / "s.json").write_text(json.dumps(summary))
    return tmp_path


def read(folder):
    return json.loads((folder / "s.json").read_text())


def test_what_is_whole_passes(folder):
    assert find_damage(folder, "s.json", read(folder)) == []
    assert find_damage(folder, "s.json", {"rounds": 3}) == [], "of a version without digests"


def test_damage_is_named(folder):
    (folder / "a.bin").write_bytes(b"abd")
    with pytest.raises(maxfl.InputError, match=r"a.bin is damaged: its digest is not the one in s"):
        refuse_damaged(folder, "s.json", read(folder))
    (folder / "a.bin").unlink()
    assert find_damage(folder, "s.json", read(folder)) == [f"{folder / 'a.bin'} is gone"]
    assert "its digest does not match" in find_damage(folder, "s", read(folder) | {"rounds": 2})[0]


def test_other_content_is_explained():
    words = r"x\.json is damaged, or was not written by maxfl \(KeyError: 'configurations'\)"
    with pytest.raises(maxfl.InputError, match=words), explain_damage("x.json"):
        {}["configurations"]
    with pytest.raises(maxfl.InputError, match=r"^as it is$"), explain_damage("x.json"):
        raise maxfl.InputError("as it is")
