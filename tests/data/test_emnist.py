"""EMNIST is what its publisher says, upright, and one split is not taken for another."""

import gzip
import zipfile

import numpy as np
import pytest

import maxfl
from maxfl.data.emnist import LABELS as EMNIST_LABELS
from maxfl.data.emnist import emnist
from maxfl.data.fashion_mnist import fashion_mnist
from maxfl.data.locate import find
from maxfl.data.registry import emnist_files, fashion_mnist_files
from support.data_files import idx, need

pytestmark = pytest.mark.usefixtures("own_cache")

EMNIST_COUNTS = [
    5778, 6330, 5869, 5969, 5619, 5190, 5705, 6139, 5633, 5686,
    1062, 648, 1739, 779, 851, 1440, 447, 521, 2048, 626, 382, 810, 1485, 1351, 4156, 1397, 413,
    809, 3508, 1576, 2002, 796, 806, 432, 798, 464,
    1644, 853, 432, 1683, 4092, 400, 589, 1479, 427, 317, 466, 2535, 464, 1898, 466, 368, 505,
    2320, 437, 2965, 482, 468, 467, 470, 381, 451,
]  # fmt: skip
"""Of the digits, upper-case and lower-case letters in the test images of ByClass."""


EMNIST_TEST = list(emnist_files("byclass", "test")[0])


def test_emnist_is_what_its_publisher_says_and_upright():
    need(*EMNIST_TEST)
    data = emnist("byclass", "test")
    assert data.x.shape == (116_323, 28, 28)
    assert data.classes == 62
    assert np.bincount(data.y).tolist() == EMNIST_COUNTS
    pixels = data.x / np.float32(255)
    assert pixels.mean() == pytest.approx(0.1736, abs=5e-4)
    assert pixels.std() == pytest.approx(0.3317, abs=5e-4)
    # An L has its bar below and left, a T above; a transposed image has them elsewhere.
    mean = {c: pixels[data.y == data.labels.index(c)].mean(0) for c in "LT7"}
    assert mean["L"][18:].sum() > 1.5 * mean["L"][:10].sum()
    assert mean["L"][:, :14].sum() > mean["L"][:, 14:].sum()
    assert mean["T"][:10].sum() > 1.3 * mean["T"][18:].sum()
    assert mean["7"][:10].sum() > 1.2 * mean["7"][18:].sum()


def test_emnist_labels_are_those_of_the_mapping():
    need(EMNIST_TEST[0])
    mapping = find(EMNIST_TEST[0]).path.parent / "emnist-byclass-mapping.txt"
    if not mapping.is_file():
        pytest.skip(f"{mapping} not here")
    rows = [line.split() for line in mapping.read_text().splitlines()]
    assert EMNIST_LABELS["byclass"] == "".join(chr(int(code)) for _, code in rows)


def test_all_emnist_splits_also_from_the_publishers_zip(tmp_path, monkeypatch):
    monkeypatch.delenv("MAXFL_DATA", raising=False)
    folder = tmp_path / "data" / "emnist"
    folder.mkdir(parents=True)
    images = np.arange(2 * 28 * 28).reshape(2, 28, 28) % 251
    with zipfile.ZipFile(folder / "gzip.zip", "w") as archive:
        for split, labels in EMNIST_LABELS.items():
            first = 1 if split == "letters" else 0
            for part in ("train", "test"):
                y = np.array([first, first + len(labels) - 1])
                for what, content in (("images", idx(images)), ("labels", idx(y))):
                    name = f"gzip/{getattr(emnist_files(split, part)[0], what).name}.gz"
                    archive.writestr(name, gzip.compress(content))
    for split, classes in (("byclass", 62), ("bymerge", 47), ("balanced", 47), ("letters", 26),
                           ("digits", 10), ("mnist", 10)):  # fmt: skip
        data = emnist(split, "both", tmp_path / "data")
        assert data.classes == classes
        assert data.y.tolist() == [0, classes - 1] * 2
        np.testing.assert_array_equal(data.x[3], images[1].T)


def test_a_file_of_another_split_is_noticed(tmp_path):
    for part in ("train", "test"):
        for what, array in (("images", np.zeros((1, 28, 28))), ("labels", np.array([61]))):
            name = getattr(emnist_files("balanced", part)[0], what).name
            (tmp_path / name).write_bytes(idx(array))
    words_ = r"train-labels-idx1-ubyte has labels 61 to 61 where 0 to 46 are expected"
    with pytest.raises(maxfl.InputError, match=words_):
        emnist("balanced", "both", tmp_path)
    for file, array in zip(fashion_mnist_files("test")[0], (np.ones((1, 4, 4)), [77]), strict=True):
        (tmp_path / file.name).write_bytes(idx(np.asarray(array)))
    with pytest.raises(maxfl.InputError, match=r"t10k-labels.* has labels 77 to 77 where 0 to 9"):
        fashion_mnist("test", tmp_path)
