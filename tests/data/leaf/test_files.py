"""LEAF's files: one, several, split by sample or by user; what is wrong with them is said."""

import numpy as np
import pytest

from maxfl.data.leaf.files import read_leaf
from maxfl.utils.errors import InputError
from support.leaf_files import write_leaf, write_split


def convert(x, y):
    return np.array(x), np.array(y)


def samples(count, first=0):
    numbers = list(range(first, first + count))
    return [[n] for n in numbers], numbers


def read(path):
    return read_leaf(path, convert)


def test_a_file_a_folder_of_files_and_their_users(tmp_path):
    one = write_leaf(tmp_path / "all_data_0.json", {"bob": samples(3), "ann": samples(2, 10)})
    write_leaf(tmp_path / "all_data_1.json", {"eve": samples(1, 20)}, {"hierarchies": ["play"]})
    alone, both = read(one), read(tmp_path)
    assert alone.names.tolist() == ["bob", "ann"]
    assert both.names.tolist() == ["bob", "ann", "eve"]
    assert both.owner.tolist() == [0, 0, 0, 1, 1, 2]
    assert np.concatenate(both.y).tolist() == [0, 1, 2, 10, 11, 20]
    assert both.is_test is None
    assert not both.notes


def test_a_split_by_sample_is_kept_and_one_by_user_is_none(tmp_path):
    train, test = {"bob": samples(3), "ann": samples(2, 10)}, {"ann": samples(1, 12)}
    split = read(write_split(tmp_path / "a", train, {**test, "bob": samples(2, 3)}))
    assert split.owner.tolist() == [0, 0, 0, 1, 1, 1, 0, 0]
    assert split.is_test.tolist() == [False] * 5 + [True] * 3
    assert sum(len(y) for _, y in split.training) == 5
    assert "as LEAF split them" in split.notes[0]
    half = read(write_split(tmp_path / "b", train, {**test, "bob": samples(0)}))
    assert half.names.tolist() == ["ann"]
    assert "1 users without training or test data are left out" in half.notes
    by_user = read(write_split(tmp_path / "c", train, {"eve": samples(2)}))
    assert by_user.names.tolist() == ["bob", "ann", "eve"]
    assert by_user.is_test is None
    with pytest.raises(InputError, match=r"1 users are in train/ and test/, but 1, as bob, in one"):
        read(write_split(tmp_path / "d", train, test))


ONE = {"bob": samples(1)}


@pytest.mark.parametrize(
    ("users", "changes", "words"),
    [
        (ONE, {"users": None}, "is not of LEAF: it has no users, but .*num_samples"),
        (ONE, {"user_data": None}, "it has no user_data"),
        (ONE, {"users": ["bob", "ann"]}, "as ann, which is in users alone"),
        (ONE, {"users": []}, "as bob, which is in user_data alone"),
        (ONE, {"users": [1]}, "users is no list of names"),
        (ONE, {"user_data": {"bob": {"x": []}}}, "user bob: .*x and y are expected"),
        ({"bob": ([[1], [2]], [1])}, {}, "user bob: x has 2 samples and y 1 labels"),
        ({**ONE, "ann": ([[1, 2]], [0])}, {}, "user ann: samples of length 2 where others have 1"),
        ({"bob": samples(0)}, {}, "has no samples"),
        ({}, {}, "has no samples"),
    ],
)
def test_wrong_files(tmp_path, users, changes, words):
    with pytest.raises(InputError, match=words):
        read(write_leaf(tmp_path / "all_data.json", users, changes))


def test_lengths_must_agree_between_training_and_test_data(tmp_path):
    path = write_split(tmp_path, ONE, {"bob": ([[1, 2]], [0])})
    with pytest.raises(InputError, match="user bob: samples of length 2 where others have 1"):
        read(path)


def test_wrong_folders(tmp_path):
    with pytest.raises(InputError, match="there is no such file or folder"):
        read(tmp_path / "none")
    with pytest.raises(InputError, match=r"no \.json files in .*; run LEAF's preprocess\.sh"):
        read(tmp_path)
    file = write_leaf(tmp_path / "all_data/all_data.json", {"bob": samples(2)})
    with pytest.raises(InputError, match=r"no \.json files in .*; name .*all_data"):
        read(tmp_path)
    (tmp_path / "train").mkdir()
    with pytest.raises(InputError, match="has train/ and not both train/ and test/"):
        read(tmp_path)
    (tmp_path / "test").mkdir()
    with pytest.raises(InputError, match=r"no \.json files in .*train"):
        read(tmp_path)
    file.with_name("more.json").write_text(file.read_text())
    with pytest.raises(InputError, match="user bob is in another file"):
        read(tmp_path / "all_data")
    file.write_text(file.read_text()[:-5])
    with pytest.raises(InputError, match="is not JSON, or was cut off"):
        read(file)
    file.write_text("[1]")
    with pytest.raises(InputError, match="has no users and no user_data, but nothing by name"):
        read(file)
