"""A user's own arrays: what is unreadable is refused."""

import numpy as np
import pytest

from maxfl.data.arrays import load_arrays
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


def test_labels_may_be_numbers(tmp_path):
    np.savez(tmp_path / "mine.npz", x=np.zeros((3, 2)), y=np.array([[0.5], [1], [2]]))
    dataset = load_arrays(tmp_path / "mine.npz")
    assert dataset.classes is None
    assert dataset.y.dtype == np.float32
