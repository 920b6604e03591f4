"""Shakespeare by role: LEAF's letters, unknown characters, and splits of samples that overlap."""

import numpy as np
import pytest

from maxfl.data.leaf.shakespeare import LETTERS, shakespeare
from maxfl.runs.build_data import prepare_federation
from maxfl.runs.configs.data import DataConfig
from maxfl.utils.errors import InputError
from support.leaf_files import windows, write_leaf, write_split

SPEECH = "".join(LETTERS[1 + i * 7 % 79] for i in range(400))


def said(numbers):
    return "".join(LETTERS[n] for n in numbers)


def test_letters_are_leafs(tmp_path):
    data = shakespeare(write_leaf(tmp_path / "all_data.json", {"HAMLET": windows(SPEECH[:100])}))
    assert len(data.labels) == 80
    assert data.labels[:2] == ("newline", "space")
    assert data.x.shape == (20, 80)
    assert data.x.dtype == np.uint8
    assert said(data.x[3]) == SPEECH[3:83]
    assert said(data.y) == SPEECH[80:100]
    assert said(range(80)) == "".join(data.vocabulary)
    assert not data.notes


def test_unknown_characters_count_as_the_last_letter(tmp_path):
    speech = SPEECH[:79] + "é" + SPEECH[80:99] + "<"
    data = shakespeare(write_leaf(tmp_path / "all_data.json", {"HAMLET": windows(speech)}))
    assert said(data.x[0])[-1] == said(data.y)[-1] == "}"
    assert "1.30% of the characters are not among LEAF's 80" in data.notes[0]


def test_training_and_test_data_share_no_character(tmp_path):
    roles = {"HAMLET": windows(SPEECH), "OPHELIA": windows(SPEECH[:300])}
    path = write_leaf(tmp_path / "all_data.json", roles)
    data = DataConfig(source="leaf-shakespeare", path=path, unseen=0)
    fed = prepare_federation(data, 0)
    assert fed.names.tolist() == ["HAMLET", "OPHELIA"]
    size = round(0.6 * (320 - 79))
    assert fed.train_sizes[0] == size
    assert said(fed.train.x[size - 1]) == SPEECH[size - 1 : size + 79]
    assert said(fed.test.x[0]) == SPEECH[size + 79 : size + 159]
    shorter = data.model_copy(update={"evaluate_on": "validation", "train_fraction": 0.5})
    with pytest.raises(InputError, match=r"OPHELIA has 70 training .* where 81, of which 79"):
        prepare_federation(shorter, 0)


def test_leafs_own_split_is_kept(tmp_path):
    x, y = windows(SPEECH)
    write_split(tmp_path, {"HAMLET": (x[:200], y[:200])}, {"HAMLET": (x[279:], y[279:])})
    fed = prepare_federation(DataConfig(source="leaf-shakespeare", path=tmp_path, unseen=0), 0)
    assert said(fed.train.x[199]) == x[199]
    assert said(fed.test.y) == "".join(y[279:])


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (["short"], ["a"], "x has a text of 5 characters where LEAF's have 80"),
        (["a" * 80], ["ab"], "y has a text of 2 characters where LEAF's have 1"),
        ([[1] * 80], ["a"], "x has a text of .1, 1.* where LEAF's have 80"),
    ],
)
def test_wrong_texts(tmp_path, x, y, words):
    with pytest.raises(InputError, match=f"user HAMLET: {words}"):
        shakespeare(write_leaf(tmp_path / "0.json", {"HAMLET": (x, y)}))
