"""Digests tell data and settings apart, whatever they are made of."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr", reason="Flower not installed")

from maxfl.flower.client.digests import digest_of
from maxfl.utils.errors import InputError

pytestmark = pytest.mark.extras


def test_equal_parts_have_equal_digests():
    a = np.arange(6.0).reshape(2, 3)
    assert digest_of(a, {"lr": 0.1, "steps": 3}) == digest_of(a.copy(), {"steps": 3, "lr": 0.1})
    assert digest_of(a.T) == digest_of(np.ascontiguousarray(a.T)), "not how it lies in memory"
    assert digest_of((a, 1)) == digest_of([a, 1])


def test_different_parts_have_different_digests():
    a = np.arange(6)
    different = [
        (a,), (a.reshape(2, 3),), (a.astype(np.int32),), (a.astype(">i8"),), (a + 1,), (a, a),
        ((a, a),), (a[:0],), (a[:0].astype(np.int8),), (np.int64(1),), (1,), (1.0,), (True,),
        ("1",), (b"1",), (None,), (), ("",), ("", ""), ("a", "b"), ("ab",), (["a"], "b"),
        (["a", "b"],), ({"a": "b"},), ({"a": 1, "b": 2},), ({"a": 2, "b": 1},),
        (np.array(["a"]),), (np.array("2020", "M8[Y]"),), (np.array("2020", "M8[D]"),),
    ]  # fmt: skip
    assert len({digest_of(*parts) for parts in different}) == len(different)


def test_of_files_the_content_counts(tmp_path):
    first, second = tmp_path / "a" / "data.csv", tmp_path / "b" / "data.csv"
    for path in (first, second):
        path.parent.mkdir()
        path.write_text("1,2\n")
    assert digest_of(first) == digest_of(second)
    assert digest_of(first.parent) == digest_of(second.parent)
    assert len({digest_of(first), digest_of(first.parent), digest_of(str(first))}) == 3
    second.rename(second.with_name("other.csv"))
    assert digest_of(first.parent) != digest_of(second.parent)
    first.write_text("1,3\n")
    assert digest_of(first) != digest_of(second.with_name("other.csv"))


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (np.array([{}]), "array of Python objects"),
        (object(), "expected arrays, paths, text"),
        ({1, 2}, "is a set; expected"),
        (Path("nowhere/at/all.csv"), "can't be read: No such file"),
    ],
)
def test_what_has_no_digest_is_refused(part, words):
    with pytest.raises(InputError, match=words):
        digest_of([part])
