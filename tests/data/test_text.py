"""Tweets and word vectors: real ones, damaged ones, and means by hand."""

import gzip
import zipfile

import numpy as np
import pytest

import maxfl
from maxfl.data.glove import read_vectors
from maxfl.data.locate import Place, find, obtain
from maxfl.data.registry import SENTIMENT140, SENTIMENT140_SAMPLE, glove_file
from maxfl.data.sentiment140 import read_tweets, sentiment140, sentiment140_stand_in
from maxfl.data.tweets import average, words
from support.data_files import VECTORS, need

pytestmark = pytest.mark.usefixtures("own_cache")


def test_tweets_and_vectors_from_the_publishers_zips(tmp_path):
    with zipfile.ZipFile(tmp_path / SENTIMENT140.download.name, "w") as archive:
        rows = '"4","1","Mon","Q","ann","good"\n"0","2","Mon","Q","bob","bad bad"\n'
        archive.writestr(SENTIMENT140.name, rows)
        archive.writestr("testdata.manual.2009.06.14.csv", "")
    with zipfile.ZipFile(tmp_path / "glove.6B.zip", "w") as archive:
        archive.writestr("glove.6B.50d.txt", "other 1\n")
        archive.writestr("glove.6B.100d.txt", "good 1 0\nbad 0 1\n")
    data = sentiment140("glove.6B.100d", tmp_path)
    np.testing.assert_array_equal(data.x, [[1, 0], [0, 1]])
    assert data.y.tolist() == [1, 0]
    assert data.owner.tolist() == ["ann", "bob"]
    assert data.title == "Sentiment140, glove.6B.100d (100% of words found)"


def test_real_tweets():
    need(SENTIMENT140_SAMPLE)
    tweets = read_tweets(obtain(SENTIMENT140_SAMPLE))
    assert len(tweets.texts) == 24_354
    np.testing.assert_array_equal(np.bincount(tweets.y), [12_098, 12_256])
    assert len(np.unique(tweets.users)) == 22_092
    assert tweets.texts[1].startswith("is upset that he can't update his Facebook")
    assert tweets.y[0] == 0


def test_the_stand_in_calls_itself_one():
    need(SENTIMENT140_SAMPLE, glove_file(VECTORS))
    data = sentiment140_stand_in(VECTORS)
    assert data.title.startswith("STAND-IN for Sentiment140: 24,354 real tweets")
    assert "% of words found" in data.title
    assert data.owner is None
    assert data.x.shape == (24_354, 100)
    assert np.isfinite(data.x).all()
    # Sentiment is in there: a least-squares line on half of them gets the other half right.
    order = np.random.default_rng(0).permutation(len(data.x))
    fit, held = order[:12_000], order[12_000:]
    line = np.linalg.lstsq(data.x[fit], 2.0 * data.y[fit] - 1, rcond=None)[0]
    assert ((data.x[held] @ line > 0) == data.y[held]).mean() > 0.68


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_csv_in_latin_1(tmp_path, pack):
    path = tmp_path / ("t.csv.gz" if pack is gzip.compress else "t.csv")
    rows = '"0","1","Mon","Q","ann","caf\xe9, ""ok"""\n"4","2","Tue","Q","bob","NU\nLL"\n'
    path.write_bytes(pack(rows.encode("latin-1")))
    tweets = read_tweets(Place(path))
    assert tweets.texts == ['caf\xe9, "ok"', "NU\nLL"]
    assert tweets.users.tolist() == ["ann", "bob"]
    assert tweets.y.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("rows", "words_"),
    [
        ('"0","1","Mon","Q","ann","a"\n"4","2","Tue","Q","bob"\n', "Expected 6 columns, got 5"),
        ('"4","1","Mon","Q","ann","a"\n"2","1","Mon","Q","ann","a"\n', "row 2: polarity 2 where"),
        ('"","1","Mon","Q","ann","a"\n', "row 1: polarity missing where"),
        ('"0","1","Mon","Q","ann","a"\n"0","1","Mon","Q","ann","cut of', "ends within a text"),
        ("\n", "has no tweets|not Sentiment140's CSV"),
        ('"x","1","Mon","Q","ann","a"\n', "not Sentiment140's CSV"),
        ("", "not Sentiment140's CSV"),
    ],
)
def test_a_damaged_csv_is_named(tmp_path, rows, words_):
    path = tmp_path / "tweets.csv"
    path.write_text(rows)
    with pytest.raises(maxfl.InputError, match=words_) as caught:
        read_tweets(Place(path))
    assert "tweets.csv" in str(caught.value)


def test_texts_with_newlines_in_a_large_file(tmp_path):
    path = tmp_path / "tweets.csv"
    row = '"0","1","Mon","Q","ann","two\nlines, {}"\n'
    path.write_text("".join(row.format("x" * (i % 90)) for i in range(60_000)))
    assert len(read_tweets(Place(path)).texts) == 60_000


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
        ("the\t1\t2\n", "line 1: no numbers; want .* single spaces"),
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
    monkeypatch.setattr("maxfl.data.glove.AT_ONCE", 2)
    path = tmp_path / "v.txt"
    path.write_text("the 1 2 \n. . . 3 4\r\nthe 5 6\nat x@y.z 7 8")
    vectors = read_vectors(Place(path))
    assert vectors.row == {"the": 0, ". . .": 1, "at x@y.z": 3}
    np.testing.assert_array_equal(vectors.table, [[1, 2], [3, 4], [5, 6], [7, 8]])


def test_a_missing_short_word_has_the_vector_of_the_full_one(tmp_path):
    path = tmp_path / "v.txt"
    path.write_text("not 2 0\ndo 0 0\n'm 0 4\nam 9 9\n")
    x, found = average(["don't", "I'm", "he'd"], read_vectors(Place(path)))
    np.testing.assert_array_equal(x, [[1, 0], [0, 4], [0, 0]])
    assert found == 3 / 6


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Café naïve", ["café", "naïve"]),
        ("10,000 at 3.5% from 12:30", ["10,000", "at", "3.5", "%", "from", "12:30"]),
        ("co-op - can't", ["co-op", "-", "ca", "n't"]),
        ("&lt;3 &amp; &quot;#1&quot; $2", ["<", "3", "&", '"', "#", "1", '"', "$", "2"]),
        ("we'd they'll 'dog", ["we", "'d", "they", "'ll", "'", "dog"]),
    ],
)
def test_words_are_those_of_the_vocabulary(text, parts):
    assert words(text) == parts


def test_words_and_their_mean_by_hand(tmp_path):
    assert words("@Bob I don't KNOW: it's http://t.co/x 4 u!!") == [
        "i", "do", "n't", "know", ":", "it", "'s", "4", "u", "!", "!",
    ]  # fmt: skip
    path = tmp_path / "v.txt"
    path.write_text("good 1 0\nbad 0 1\n! 1 1\n")
    texts = ["Good good bad!", "nothing known", "bad"]
    x, found = average(texts, read_vectors(Place(path)))
    np.testing.assert_allclose(x, [[0.75, 0.5], [0, 0], [0, 1]])
    assert found == 5 / 7


def test_the_full_sentiment140_is_never_replaced_by_the_sample(tmp_path):
    (tmp_path / f"{SENTIMENT140_SAMPLE.name}").write_text("")
    assert find(SENTIMENT140, tmp_path) is None
