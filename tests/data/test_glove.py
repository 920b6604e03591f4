"""Word vectors: of any dimension, plain or packed, and damaged."""

import gzip
import zipfile

import numpy as np
import pytest

import maxfl
from maxfl.data.glove import read_vectors
from maxfl.data.locate import Place

pytestmark = pytest.mark.usefixtures("own_cache")

LINES = "the 1 2 3\n, 0.5 -1e-2 4\nnaïve 0 0 1\n"


@pytest.mark.parametrize("how", ["txt", "txt.gz", "zip"])
def test_vectors_of_any_dimension_plain_or_packed(tmp_path, how):
    path = tmp_path / f"v.{how}"
    if how == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("glove.6B.3d.txt", LINES)
        place = Place(path, "glove.6B.3d.txt")
    else:
        content = LINES.encode()
        path.write_bytes(gzip.compress(content) if how == "txt.gz" else content)
        place = Place(path)
    vectors = read_vectors(place)
    assert vectors.row == {"the": 0, ",": 1, "naïve": 2}
    np.testing.assert_allclose(vectors.table, [[1, 2, 3], [0.5, -0.01, 4], [0, 0, 1]])


@pytest.mark.parametrize(
    ("lines", "words_"),
    [
        ("400000 100\nthe 1 2 3\n", "line 1: '400000 100' is a heading of word2vec"),
        ("the\t1\t2\n", "line 1: no numbers; expected .* single spaces"),
        ("a 1 2\nb\t1\t2\n", "line 2: 0 numbers where line 1 has 2"),
        ("a 1 2\nb 1  2\n", "line 2: could not convert .* single spaces"),
        ("a 1 2\nb 1 1e40\n", "line 2: .* too large"),
        (LINES + "odd 1 2\n", "line 4: 2 numbers where line 1 has 3"),
        ("a 1 2 3\nb 1 2\nc 1 2 3 4\n", "line 2: 2 numbers"),
        ("a 1 2\nb 1 x\n", "line 2: .*'x'"),
        ("a 1 2\nb 1 nan\n", "line 2: .* NaN"),
        ("", "is empty"),
    ],
)
def test_damaged_vectors_are_named(tmp_path, lines, words_):
    path = tmp_path / "glove.txt"
    path.write_text(lines)
    with pytest.raises(maxfl.InputError, match=words_) as caught:
        read_vectors(Place(path))
    assert "glove.txt" in str(caught.value)


def test_words_with_spaces_and_lines_with_a_last_space_have_vectors(tmp_path, monkeypatch):
    monkeypatch.setattr("maxfl.data.glove.CHUNK", 2)
    path = tmp_path / "v.txt"
    path.write_text("the 1 2 \n. . . 3 4\r\nthe 5 6\nat x@y.z 7 8")
    vectors = read_vectors(Place(path))
    assert vectors.row == {"the": 0, ". . .": 1, "at x@y.z": 3}
    np.testing.assert_array_equal(vectors.table, [[1, 2], [3, 4], [5, 6], [7, 8]])
