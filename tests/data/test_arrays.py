"""A user's own arrays: what is unreadable is refused."""

import numpy as np
import pytest

from maxfl.core.federation import Federation, InputScaling
from maxfl.data import partition
from maxfl.data.arrays import arrays_in, load_arrays
from maxfl.utils.errors import InputError


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": np.zeros((3, 2))}, "but not .'y'."),
        ({"x": np.zeros((3, 2)), "y": np.zeros(2, int)}, r"x has shape \(3, 2\) and y \(2,\)"),
        ({"x": np.zeros((3, 2)), "y": np.full(3, np.nan)}, "3 label value.s. are NaN"),
        ({"x": np.zeros((0, 2)), "y": np.zeros(0, int)}, "is empty"),
        ({"x": np.zeros(()), "y": np.zeros((), int)}, "x has shape"),
        ({"x": np.full((3, 2), np.nan), "y": np.zeros(3, int)}, "6 feature value.s. are NaN"),
        (
            {"x": np.zeros((3, 2)), "y": np.zeros(3, int), "client": np.zeros(3)},
            "client is float64.3.; expected one integer or string",
        ),
        ({"x": np.zeros((3, 2)), "y": np.array([0, -1, 1])}, "labels run from -1 to 1"),
        ({"x": np.zeros((3, 2)), "y": np.array([0, 1, 10**9])}, "label 1000000000 in 3 samples"),
        (None, "is not an .npz file, or was cut off"),
    ],
)
def test_unreadable_arrays_are_refused(tmp_path, arrays, words):
    path = tmp_path / "mine.npz"
    if arrays is None:
        np.savez(path, x=np.zeros(1000))
        path.write_bytes(path.read_bytes()[:300])
    else:
        np.savez(path, **arrays)
    with pytest.raises(InputError, match=words):
        load_arrays(path)


def test_a_file_of_one_array_is_refused(tmp_path):
    np.save(tmp_path / "mine.npy", np.zeros((3, 2)))
    with pytest.raises(InputError, match="holds one array"):
        load_arrays(tmp_path / "mine.npy")
    with pytest.raises(InputError, match="not a readable"):
        load_arrays(tmp_path)


def test_arrays_are_named_without_being_read(tmp_path):
    np.savez(tmp_path / "mine.npz", x=np.zeros((3, 2)), y=np.zeros(3), client=np.arange(3))
    assert arrays_in(tmp_path / "mine.npz") == {"x", "y", "client"}
    (tmp_path / "other.npz").write_bytes(b"nothing")
    for name in ("other.npz", "none.npz", "", "\0"):
        assert arrays_in(tmp_path / name) == set()


def test_labels_may_be_numbers(tmp_path):
    np.savez(tmp_path / "mine.npz", x=np.zeros((3, 2)), y=np.array([[0.5], [1], [2]]))
    dataset = load_arrays(tmp_path / "mine.npz")
    assert dataset.classes is None
    assert dataset.y.dtype == np.float32


RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(60, 3)).astype(np.float32), RNG.integers(0, 2, 60)
OWNER = np.repeat(["eve", "bob", "ann"], [10, 20, 30])


def test_samples_in_memory_become_a_federation():
    federation = Federation.from_arrays(X, Y, OWNER.astype(object), unseen=1, seed=2)
    assert federation.seen == 2
    assert federation.classes == 2
    sizes = federation.train_sizes + federation.test_sizes
    assert dict(zip(federation.names.tolist(), sizes.tolist(), strict=True)) == {
        "eve": 10, "bob": 20, "ann": 30,
    }  # fmt: skip
    again = Federation.from_arrays(X.tolist(), Y.tolist(), OWNER, unseen=1, seed=2)
    assert again.train.x.shape == federation.train.x.shape
    scaled = Federation.from_arrays(X, Y, OWNER, input_scaling=InputScaling(scale=2.0))
    assert scaled.input_scaling.scale == 2
    given = Federation.from_arrays(X, Y, OWNER, is_test=np.arange(60) % 2 == 1)
    np.testing.assert_array_equal(given.test_sizes, given.train_sizes)


def test_samples_say_what_they_are_for(tmp_path):
    words = np.array(["train", "judging", "test", "train", "validation", "val"] * 10)
    found = Federation.from_arrays(X, Y, OWNER, part=words)
    for name, meant in (("train", ["train"]), ("test", ["test"])):
        expected = X[np.isin(words, meant), 0]
        assert sorted(getattr(found, name).x[:, 0]) == sorted(expected)
    assert len(found.judging.y) == 30
    np.savez(tmp_path / "data.npz", x=X, y=Y, client=OWNER, part=words)
    dataset = load_arrays(tmp_path / "data.npz")
    np.testing.assert_array_equal(dataset.is_test, words == "test")
    assert dataset.is_judging.sum() == 30
    two = Federation.from_arrays(X, Y, OWNER, part=np.where(words == "test", "test", "train"))
    assert two.judging is None
    np.savez(tmp_path / "bad.npz", x=X, y=Y, part=Y)
    with pytest.raises(InputError, match=r"bad.npz: the array part is int64.60.; expected 'train'"):
        load_arrays(tmp_path / "bad.npz")


def test_samples_and_a_split_become_a_federation():
    split = partition.dirichlet(Y, 5, 10, 0.5, 0)
    federation = Federation.from_arrays(X, Y, split, unseen=2, train_fraction=0.8)
    assert federation.seen == 3
    assert federation.train_sizes.tolist() == [8] * 5
    assert np.isin(federation.train.x[:8, 0], X[split.parts[0], 0]).all()
    words = np.array(["train", "judging", "test"] * 20)
    kept = Federation.from_arrays(X, Y, split, part=words)
    used = np.concatenate(split.parts)
    for name, part in (("train", kept.train), ("judging", kept.judging), ("test", kept.test)):
        assert sorted(part.x[:, 0]) == sorted(X[used[words[used] == name], 0])


@pytest.mark.parametrize(
    ("client", "options", "words"),
    [
        (OWNER[:5], {}, r"client is <U3\[5\]; expected one integer or string for each of the 60"),
        (partition.Split([np.array([0, 60])]), {}, "split of other samples than the 60 samples"),
        (partition.Split([]), {}, "split of other samples"),
        (OWNER, {"is_test": Y}, r"is_test is int64\[60\]; expected True or False for each of"),
        (OWNER, {"part": Y}, r"part is int64.60.; expected 'train', 'test' or 'judging'"),
        (OWNER, {"part": ["train"]}, r"part is <U5.1.; .* for each of the 60 samples"),
        (
            OWNER,
            {"part": ["train", "dev"] * 30},
            "part has 'dev'; expected .* in every one of the samples: rename them",
        ),
        (OWNER, {"part": ["train", "judging"] * 30}, "client .* has no test samples in the data's"),
        (
            OWNER,
            {"part": ["judging"] + ["train", "test"] * 29 + ["test"]},
            "client .* has no judging samples in the data's own split",
        ),
        (
            OWNER,
            {"part": ["train"] * 60, "is_test": Y == 1},
            "is_test and part both say what samples are for: give one of them",
        ),
        (
            partition.Split([np.array([0, 1]), np.array([2, 4])]),
            {"part": ["train", "test"] * 30},
            "client 1 has no test samples in the data's own split",
        ),
        (OWNER, {"unseen": 3}, "^unseen = 3, but there are 3 clients"),
        (OWNER, {"min_samples": 1}, "min_samples = 1: expected one whole number at least 2"),
        (OWNER, {"seed": -1}, "seed = -1"),
    ],
)
def test_clients_that_do_not_fit_the_samples(client, options, words):
    with pytest.raises(InputError, match=words):
        Federation.from_arrays(X, Y, client, **options)
