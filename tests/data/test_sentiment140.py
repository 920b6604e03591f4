"""Sentiment140: the publisher's files, the stand-in, and damaged files."""

import gzip
import zipfile

import numpy as np
import pytest

import maxfl
from maxfl.data.locate import Place, find, obtain
from maxfl.data.registry import SENTIMENT140, SENTIMENT140_SAMPLE, glove_file
from maxfl.data.sentiment140 import read_tweets, sentiment140, sentiment140_stand_in
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


def test_the_full_sentiment140_is_never_replaced_by_the_sample(tmp_path):
    (tmp_path / f"{SENTIMENT140_SAMPLE.name}").write_text("")
    assert find(SENTIMENT140, tmp_path) is None
