"""Files of images: mapped where they are or unpacked once, and named where they are damaged."""

import gzip
import os

import numpy as np
import pytest

import maxfl
from maxfl.data import idx as idx_module
from maxfl.data.idx import map_images
from maxfl.data.locate import Place
from support.data_files import idx

pytestmark = pytest.mark.usefixtures("own_cache")


def cached(tmp_path):
    """What is left in the cache."""
    return [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]


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
