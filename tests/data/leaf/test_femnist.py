"""FEMNIST by writer: bytes where nothing is lost, LEAF's split, wrong images."""

import numpy as np
import pytest

from maxfl.data.leaf.femnist import femnist
from maxfl.runs.build_data import prepare_federation
from maxfl.runs.configs.data import DataConfig
from maxfl.utils.errors import InputError
from support.leaf_files import images, write_leaf, write_split


def test_images_are_bytes_where_nothing_is_lost(tmp_path):
    x, y = images(3)
    one = femnist(write_leaf(tmp_path / "a/0.json", {"f0001_41": (x, y)}))
    assert one.x.dtype == np.uint8
    assert one.x.shape == (3, 28, 28)
    np.testing.assert_array_equal(one.x.reshape(3, -1) / 255, x)
    assert one.y.tolist() == y
    assert one.classes == 62
    assert (one.labels[10], one.labels[36]) == ("A", "a")
    x[0][0] = 0.12345
    write_leaf(tmp_path / "a/1.json", {"f0002_41": (x, y)})
    two = femnist(tmp_path / "a")
    assert two.x.dtype == np.float32
    np.testing.assert_allclose(two.x[3:].reshape(3, -1), x, rtol=1e-6)
    np.testing.assert_allclose(two.x[:3] * 255, one.x, atol=1e-4)


def test_clients_are_writers_with_leafs_own_split(tmp_path):
    train = {f"w{k}": images(4 + k, k) for k in range(5)}
    test = {f"w{k}": images(2, 10 + k) for k in range(5)}
    write_split(tmp_path, train, test)
    data = DataConfig(source="leaf-femnist", path=tmp_path, unseen=2)
    fed = prepare_federation(data, 0)
    assert fed.seen == 3
    assert set(fed.names) == set(train)
    assert fed.test_sizes.tolist() == [2] * 5
    for k, name in enumerate(fed.names):
        rows = fed.test.x[fed.test.offsets[k] : fed.test.offsets[k + 1]].reshape(2, -1) / 255
        assert sorted(rows.tolist()) == sorted(np.array(test[name][0]).tolist())
    held_out = prepare_federation(data.model_copy(update={"evaluate_on": "validation"}), 0)
    sizes = held_out.train_sizes + held_out.test_sizes
    assert sorted(sizes) == [4, 5, 6, 7, 8], "the test files stay out of sight"
    mixed = DataConfig(
        source="leaf-femnist", path=tmp_path, partition="iid", clients=3, unseen=1, samples=10
    )
    assert prepare_federation(mixed, 0).train_sizes.tolist() == [6] * 4


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        ([[0.5] * 783], [1], "expected 784 pixels for each image"),
        ([[0.5] * 784, [0.5]], [1, 2], "numbers are expected"),
        ([[2.0] * 784], [1], "pixels run from 2 to 2; expected 0 to 1"),
        ([[float("nan")] * 784], [1], "pixels run from nan"),
        ([[0.5] * 784], [62], "from 62 to 62; expected whole numbers from 0 to 61"),
        ([[0.5] * 784], [0.5], "expected whole numbers"),
        ([[0.5] * 784], ["a"], "numbers are expected, not"),
    ],
)
def test_wrong_images(tmp_path, x, y, words):
    with pytest.raises(InputError, match=f"user bob: .*{words}"):
        femnist(write_leaf(tmp_path / "0.json", {"bob": (x, y)}))
