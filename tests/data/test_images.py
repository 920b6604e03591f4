"""Fashion-MNIST and EMNIST: known facts of the real files; damaged files are named."""

import gzip
import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import maxfl
from maxfl.data import idx as idx_module
from maxfl.data.emnist import LABELS as EMNIST_LABELS
from maxfl.data.emnist import emnist
from maxfl.data.fashion_mnist import fashion_mnist
from maxfl.data.idx import map_images, read_labels
from maxfl.data.images import load_pairs
from maxfl.data.locate import Place, find
from maxfl.data.registry import FASHION_MNIST, emnist_file, fashion_mnist_pairs
from support.data_files import idx, need

pytestmark = pytest.mark.usefixtures("own_cache")


def cached(tmp_path):
    """What is left in the cache."""
    return [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]


def test_fashion_mnist_is_what_its_publisher_says():
    need(*FASHION_MNIST.values())
    data = fashion_mnist()
    assert data.x.shape == (70_000, 28, 28)
    assert isinstance(data.x, np.memmap)
    np.testing.assert_array_equal(np.bincount(data.y), [7000] * 10)
    np.testing.assert_array_equal(np.bincount(data.y[:60_000]), [6000] * 10)
    train = data.x[:60_000] / np.float32(255)
    assert train.mean() == pytest.approx(0.2860, abs=5e-5)
    assert train.std() == pytest.approx(0.3530, abs=5e-5)
    # The first image is an ankle boot, whose sole is below: dark above, bright below.
    assert data.labels[data.y[0]] == "ankle boot"
    assert data.x[0, 20:].mean() > 5 * data.x[0, :7].mean()
    assert len(fashion_mnist("test").y) == 10_000


LOADING = """
import resource, time
from maxfl.data.fashion_mnist import fashion_mnist
before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
fashion_mnist()
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(time.perf_counter() - began, grown / 1024)
"""


def test_fashion_mnist_loads_within_2_seconds_and_200_megabytes():
    need(*FASHION_MNIST.values())
    command = [sys.executable, "-c", LOADING]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, megabytes = map(float, done.stdout.split())
    assert seconds < 2
    assert megabytes < 200


EMNIST_COUNTS = [
    5778, 6330, 5869, 5969, 5619, 5190, 5705, 6139, 5633, 5686,
    1062, 648, 1739, 779, 851, 1440, 447, 521, 2048, 626, 382, 810, 1485, 1351, 4156, 1397, 413,
    809, 3508, 1576, 2002, 796, 806, 432, 798, 464,
    1644, 853, 432, 1683, 4092, 400, 589, 1479, 427, 317, 466, 2535, 464, 1898, 466, 368, 505,
    2320, 437, 2965, 482, 468, 467, 470, 381, 451,
]  # fmt: skip
"""Of the digits, upper-case and lower-case letters in the test images of ByClass."""
EMNIST_TEST = [emnist_file("byclass", "test", what) for what in ("images", "labels")]


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
                    name = f"gzip/{emnist_file(split, part, what).name}.gz"
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
            name = emnist_file("balanced", part, what).name
            (tmp_path / name).write_bytes(idx(array))
    words_ = r"train-labels-idx1-ubyte has labels 61 to 61 where 0 to 46 are expected"
    with pytest.raises(maxfl.InputError, match=words_):
        emnist("balanced", "both", tmp_path)
    for file, array in zip(fashion_mnist_pairs("test")[0], (np.ones((1, 4, 4)), [77]), strict=True):
        (tmp_path / file.name).write_bytes(idx(np.asarray(array)))
    with pytest.raises(maxfl.InputError, match=r"t10k-labels.* has labels 77 to 77 where 0 to 9"):
        fashion_mnist("test", tmp_path)


@pytest.mark.parametrize(
    ("damage", "words_"),
    [
        (lambda c: gzip.compress(c)[:-30], "is damaged"),
        (lambda c: gzip.compress(b"\1" + c[1:]), "starts with 01 00 08 03"),
        (lambda c: gzip.compress(c[:-5]), "bytes of data where its header says"),
        (lambda c: gzip.compress(c + b"x"), "bytes of data where its header says"),
        (lambda c: gzip.compress(c[:7]), "ends within its header"),
        (lambda c: c, "is damaged"),
    ],
)
def test_a_damaged_image_file_is_named_and_leaves_nothing(tmp_path, damage, words_):
    path = tmp_path / "images-idx3-ubyte.gz"
    path.write_bytes(damage(idx(np.ones((50, 4, 4)))))
    with pytest.raises(maxfl.InputError, match=words_) as caught:
        map_images([Place(path)])
    assert "images-idx3-ubyte.gz" in str(caught.value)
    assert cached(tmp_path) == []


def test_labels_that_do_not_fit_the_images(tmp_path):
    """Also where only the sums fit, because the label files were swapped."""
    pairs = fashion_mnist_pairs("both")
    for pair, images in zip(pairs, (5, 4), strict=True):
        (tmp_path / pair.images.name).write_bytes(idx(np.ones((images, 4, 4))))
        (tmp_path / pair.labels.name).write_bytes(idx(np.ones(9 - images)))
    with pytest.raises(maxfl.InputError, match=r"5 images in .* but 4 labels in ") as caught:
        load_pairs(pairs, range(10), tmp_path)
    assert "t10k" not in str(caught.value)
    with pytest.raises(maxfl.InputError, match="not an idx file of 1 dimension"):
        read_labels(Place(tmp_path / pair.images.name))


def test_a_plain_file_is_mapped_where_it_is(tmp_path):
    path = tmp_path / "images-idx3-ubyte"
    content = idx(np.arange(48).reshape(3, 4, 4))
    path.write_bytes(content)
    images = map_images([Place(path)])
    assert isinstance(images, np.memmap)
    np.testing.assert_array_equal(images, np.arange(48).reshape(3, 4, 4))
    assert cached(tmp_path) == []
    for damaged, words_ in ((content[:-1], "47 bytes"), (idx(np.ones((0, 4, 4))), "is empty")):
        path.write_bytes(damaged)
        with pytest.raises(maxfl.InputError, match=words_):
            map_images([Place(path)])


def packed_images(tmp_path, value):
    path = tmp_path / "images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(idx(np.full((3 + value, 4, 4), value))))
    return [Place(path)]


def test_a_changed_file_is_unpacked_again_and_the_old_one_forgotten(tmp_path):
    for value in (1, 2):
        images = map_images(packed_images(tmp_path, value))
        np.testing.assert_array_equal(images, np.full((3 + value, 4, 4), value))
        (unpacked,) = cached(tmp_path)
        killed = unpacked.with_suffix(".partial")
        killed.write_bytes(b"")
        for path in (unpacked, killed):
            os.utime(path, (0, 0))


def test_a_cache_that_can_not_be_used(tmp_path, monkeypatch):
    places = packed_images(tmp_path, 1)
    map_images(places)
    (unpacked,) = cached(tmp_path)
    for damaged in (unpacked.read_bytes()[:-1], b""):
        unpacked.write_bytes(damaged)
        np.testing.assert_array_equal(map_images(places), np.ones((4, 4, 4)))
    unpacked.unlink()
    with monkeypatch.context() as patched:

        def full(_):
            raise OSError("No space left on device")

        patched.setattr(idx_module.os, "fsync", full)
        with pytest.raises(maxfl.InputError, match=r"unpacked can't be used .*No space.*XDG_CACHE"):
            map_images(places)
    assert cached(tmp_path) == []
    monkeypatch.setenv("XDG_CACHE_HOME", str(places[0].path))
    with pytest.raises(maxfl.InputError, match=r"can't be used .*XDG_CACHE_HOME"):
        map_images(places)
