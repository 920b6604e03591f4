"""Reddit by author: the training data's vocabulary, next tokens, and what is wrong with files."""

import numpy as np
import pytest

from maxfl.data.leaf.reddit import reddit
from maxfl.runs.build_data import prepare_federation
from maxfl.runs.configs.data import DataConfig
from maxfl.utils.errors import InputError
from support.leaf_files import comments, write_leaf, write_split

TRAIN = {"1": comments("a b a b", "a"), "2": comments("c a", "a b b")}
TEST = {"1": comments("zoo a"), "2": comments("b zoo zoo zoo")}


def words_of(data, rows):
    return [" ".join(data.vocabulary[n] for n in row) for row in rows]


def test_the_most_frequent_tokens_of_the_training_data(tmp_path):
    path = write_split(tmp_path, TRAIN, TEST)
    data = reddit(path)
    assert data.vocabulary == ("<PAD>", "<UNK>", "a", "b", "<EOS>", "<BOS>", "c")
    assert data.title == "LEAF's Reddit, 7 tokens"
    assert data.classes is None
    assert words_of(data, data.x[:2]) == ["<BOS> a b a", "b <EOS> <PAD> <PAD>"]
    assert words_of(data, data.y[:2]) == ["a b a b", "<EOS> <PAD> <PAD> <PAD>"]
    assert data.owner.tolist() == [0, 0, 0, 1, 1, 0, 1, 1]
    assert data.is_test.tolist() == [False] * 5 + [True] * 3
    assert words_of(data, data.x[5:6]) == ["<BOS> <UNK> a <EOS>"]
    few = reddit(path, vocabulary=4)
    assert few.vocabulary == ("<PAD>", "<UNK>", "a", "b")
    assert words_of(few, few.x[:1]) == ["<UNK> a b a"]
    with pytest.raises(InputError, match=r"data\.vocabulary = 2"):
        reddit(path, vocabulary=2)


def test_sequences_without_a_next_token_are_left_out(tmp_path):
    # <BOS> a b c | <EOS>: the last one's only target is padding.
    data = reddit(write_leaf(tmp_path / "0.json", {"1": comments("a b c")}))
    assert words_of(data, data.y) == ["a b c <EOS>"]
    assert (data.y[:, 0] != 0).all()


def test_authors_without_comments_are_left_out(tmp_path):
    users = {"1": comments("a b c"), "2": ([], [])}
    assert reddit(write_leaf(tmp_path / "0.json", users)).owner_names.tolist() == ["1"]


def test_authors_are_clients(tmp_path):
    data = DataConfig(source="leaf-reddit", path=write_split(tmp_path, TRAIN, TEST), unseen=1)
    fed = prepare_federation(data, 0)
    assert set(fed.names) == {"1", "2"}
    assert fed.classes is None
    assert fed.train.y.shape == (5, 4)
    assert fed.train.y.dtype == fed.train.x.dtype == np.int32
    assert len(fed.metadata.vocabulary) == 7


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (["a comment"], [{"score": 1}], "labels with target_tokens alike: KeyError"),
        ([[["a", "b"]]], [{"target_tokens": [["b"]]}], r"shape \[1, 2\] and target_tokens \[1, 1"),
        ([[["a", "b"], ["a"]]], [{"target_tokens": [["b", "c"], ["d"]]}], "of one length"),
        ([1], [{"target_tokens": [["b"]]}], "lists of sequences"),
    ],
)
def test_wrong_comments(tmp_path, x, y, words):
    with pytest.raises(InputError, match=f"user 1: .*{words}"):
        reddit(write_leaf(tmp_path / "0.json", {"1": (x, y)}))
