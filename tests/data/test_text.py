"""A text of one's own: sequences of characters, stretches and roles."""

import numpy as np
import pytest

from maxfl.core.federation_files import open_federation
from maxfl.data.text import load_text
from maxfl.runs.build_data import prepare_federation, write_prepared
from maxfl.runs.configs.data import DataConfig
from maxfl.utils.errors import InputError

PLAY = """A play.

ANN: To be, or not
to be.
BOB: Who's there?
ANN: Nay, answer me.
"""
ROLES = r"^([A-Z]+): "


def write(folder, content, name="play.txt"):
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def said(data, numbers):
    return "".join(data.vocabulary[n] for n in np.ravel(numbers))


def test_stretches_hold_the_whole_text_and_labels_are_the_next_characters(tmp_path):
    content = "".join(chr(97 + i * i % 26) for i in range(100))
    data = load_text(write(tmp_path, content), 8, stretches=3)
    assert data.vocabulary == ("", *sorted(set(content)))
    assert data.x.dtype == np.uint8
    assert data.y.dtype == np.int32
    assert data.classes is None
    for k, (begin, end) in enumerate(((0, 33), (33, 66), (66, 100))):
        assert said(data, data.x[data.owner == k]) == content[begin : end - 1]
        assert said(data, data.y[data.owner == k]) == content[begin + 1 : end]
    last = data.x[-1], data.y[-1]
    assert last[0].tolist()[1:] == last[1].tolist()[1:] == [0] * 7, "the rest is padding"


def test_roles_are_clients_with_all_that_they_say(tmp_path):
    data = load_text(write(tmp_path, PLAY), 10, role_pattern=ROLES)
    assert data.owner_names.tolist() == ["ANN", "BOB"]
    assert said(data, data.x[data.owner == 0]) == "To be, or not\nto be.\nNay, answer me"
    assert said(data, data.y[data.owner == 1]) == "ho's there?"
    assert data.notes == ("7 characters before the first role are left out",)


def test_settings_of_a_text(tmp_path):
    path = write(tmp_path, "ab\n" * 200)
    data = DataConfig(source="text", path=path, clients=3, unseen=2, sequence_length=20)
    fed = prepare_federation(data, 0)
    assert (fed.seen, fed.clients) == (3, 5)
    assert fed.train.x.shape[1:] == fed.train.y.shape[1:] == (20,)
    assert fed.metadata.vocabulary == ("", "\n", "a", "b")
    write_prepared(data, 0, tmp_path / "disk", lambda *_: None)
    on_disk = open_federation(tmp_path / "disk")
    assert on_disk.metadata.vocabulary == fed.metadata.vocabulary
    np.testing.assert_array_equal(on_disk.train.y, fed.train.y)
    write(tmp_path, PLAY * 5)
    by_role = {"role_pattern": ROLES, "sequence_length": 10, "unseen": 0, "min_samples": 10}
    fed = prepare_federation(DataConfig(source="text", path=path, **by_role), 0)
    assert fed.names.tolist() == ["ANN"], "the file has changed, and Bob says little"
    assert "1 client with fewer than 10 samples is left out" in fed.metadata.notes


def test_many_characters_need_more_than_bytes(tmp_path):
    data = load_text(write(tmp_path, "".join(map(chr, range(1000, 1300)))), 100, stretches=1)
    assert data.x.dtype == np.int32
    assert data.x.max() == 299
    assert data.y.max() == 300


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("^([A-Z+: ", "is no regular expression"),
        ("^[A-Z]+: ", "has 0 groups; expected one"),
        ("^([a-z]+)> ", "is found nowhere in"),
        ("^()A", r"line 1: .* matches without a name in its group"),
    ],
)
def test_wrong_patterns(tmp_path, pattern, words):
    with pytest.raises(InputError, match=words):
        load_text(write(tmp_path, PLAY), role_pattern=pattern)


def test_wrong_files(tmp_path):
    with pytest.raises(InputError, match="there is no such file"):
        load_text(tmp_path / "none.txt")
    with pytest.raises(InputError, match="is a folder"):
        load_text(tmp_path)
    with pytest.raises(InputError, match=r"has 72 characters, but 9 clients .* need 90: lower"):
        load_text(write(tmp_path, PLAY[:72]), 8, stretches=9)
    (tmp_path / "latin.txt").write_bytes("café".encode("latin-1"))
    with pytest.raises(InputError, match="is not in UTF-8"):
        load_text(tmp_path / "latin.txt")
