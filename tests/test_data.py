"""Real files in, known facts out; damaged files are named."""

import gzip
import os
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import maxfl
from maxfl import data_command
from maxfl.data import idx as idx_module
from maxfl.data import locate
from maxfl.data.catalogue import entry
from maxfl.data.download import UnavailableError
from maxfl.data.emnist import LABELS as EMNIST_LABELS
from maxfl.data.emnist import emnist
from maxfl.data.fashion_mnist import fashion_mnist
from maxfl.data.glove import read_vectors
from maxfl.data.idx import map_images, read_labels
from maxfl.data.images import load_pairs
from maxfl.data.locate import Place, find, obtain
from maxfl.data.prepare import prepare_federation
from maxfl.data.sentiment140 import read_tweets, sentiment140, sentiment140_stand_in
from maxfl.data.sources import (
    FASHION_MNIST,
    SENTIMENT140,
    SENTIMENT140_SAMPLE,
    emnist_file,
    fashion_mnist_pairs,
    glove_file,
)
from maxfl.data.synthetic import synthetic
from maxfl.data.tweets import average, words
from maxfl.settings import DataConfig

VECTORS = "glove.6B.100d.top50k"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Each test unpacks into a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def need(*files):
    """Skip the test where a data set is not here, and say so."""
    if missing := [file.name for file in files if find(file) is None]:
        pytest.skip(f"{', '.join(missing)} not here: MAXFL_DATA")


def idx(array):
    """Content of an idx file."""
    header = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


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


def test_the_search_order(tmp_path, monkeypatch):
    file = FASHION_MNIST["t10k-labels-idx1-ubyte"]._replace(packaged=str(tmp_path / "package"))
    places = [tmp_path / "given/fmnist", tmp_path / "variable", tmp_path / "package",
              tmp_path / "cache/maxfl/data/fmnist"]  # fmt: skip
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MAXFL_DATA", "~/variable")
    with pytest.raises(maxfl.InputError, match=r"data\.dir = .*given: there is no such folder"):
        find(file, tmp_path / "given")
    (tmp_path / "given").mkdir()
    with pytest.raises(maxfl.InputError, match="MAXFL_DATA = ~/variable: there is no such folder"):
        find(file, tmp_path / "given")
    (tmp_path / "variable").mkdir()
    assert find(file, tmp_path / "given") is None
    for folder in reversed(places):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{file.name}.gz").write_bytes(b"")
        assert find(file, tmp_path / "given").path.parent == folder


def test_offline_the_error_says_what_to_put_where(tmp_path, monkeypatch):
    monkeypatch.delenv("MAXFL_DATA", raising=False)

    def unreachable(*_):
        raise UnavailableError("no network")

    monkeypatch.setattr(locate, "fetch", unreachable)
    file = FASHION_MNIST["t10k-labels-idx1-ubyte"]._replace(packaged=str(tmp_path / "none"))
    with pytest.raises(maxfl.InputError) as caught:
        obtain(file, tmp_path)
    for words_ in (
        "t10k-labels-idx1-ubyte.gz into", str(tmp_path / "fmnist"), "no network",
        "dataset-fashion-mnist", file.download.url,
    ):  # fmt: skip
        assert words_ in str(caught.value)
    with pytest.raises(maxfl.InputError, match="it can't be downloaded"):
        obtain(SENTIMENT140_SAMPLE, tmp_path)
    with pytest.raises(maxfl.InputError, match=r"txt\.gz or the whole glove\.6B\.zip into"):
        obtain(glove_file("glove.6B.50d"), tmp_path)


def test_another_folder_of_data_is_not_mistaken_for_the_last(tmp_path, monkeypatch):
    wanted = {"source": "fashion-mnist", "part": "test", "partition": "iid", "unseen": 0}
    for value in (1, 2):
        folder = tmp_path / str(value)
        folder.mkdir()
        arrays = np.full((2, 4, 4), value), np.zeros(2)
        for file, array in zip(fashion_mnist_pairs("test")[0], arrays, strict=True):
            (folder / file.name).write_bytes(idx(array))
        monkeypatch.setenv("MAXFL_DATA", str(folder))
        fed = prepare_federation(DataConfig(**wanted, clients=1, samples=2), 0)
        assert (fed.train.x == value).all()


def test_a_damaged_zip_hides_no_good_copy(tmp_path, monkeypatch):
    monkeypatch.setenv("MAXFL_DATA", str(tmp_path))
    given = tmp_path / "given"
    given.mkdir()
    file = glove_file("glove.6B.50d")
    (given / "glove.6B.zip").write_bytes(b"PK")
    with pytest.raises(maxfl.InputError, match=r"given/glove\.6B\.zip is damaged"):
        find(file, given)
    (tmp_path / file.name).write_text("")
    assert find(file, given).path == tmp_path / file.name


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


def test_synthetic_clients_differ_as_asked():
    def spread(alpha, beta):
        data = synthetic(200, alpha, beta, np.random.default_rng(0))
        sizes = np.bincount(data.owner)
        means = np.add.reduceat(data.x, np.cumsum(sizes) - sizes) / sizes[:, None]
        return data, sizes, means.mean(1).std()

    data, sizes, even = spread(0.0, 0.0)
    assert data.title == "Synthetic(0, 0)"
    assert sizes.min() >= 50
    assert sizes.max() > 5 * np.median(sizes)
    # Means over 60 features: deviation 1/√60 from v_k alone, and β more with B_k.
    assert even == pytest.approx(1 / np.sqrt(60), rel=0.2)
    assert spread(0.0, 1.0)[2] == pytest.approx(np.sqrt(1 + 1 / 60), rel=0.2)
    variances = data.x[data.owner == sizes.argmax()].var(0)
    np.testing.assert_allclose(variances[[0, 9]], [1, 10**-1.2], rtol=0.15)
    again, _, _ = spread(0.0, 0.0)
    np.testing.assert_array_equal(data.x, again.x)


def test_digits():
    pytest.importorskip("sklearn", reason="scikit-learn brings the digits")
    from maxfl.data.digits import MEAN, STD, digits

    data = digits()
    assert data.x.shape == (1797, 8, 8)
    assert data.x.mean() == pytest.approx(MEAN, abs=1e-3)
    assert data.x.std() == pytest.approx(STD, abs=1e-3)


def test_digits_are_missing_without_scikit_learn(monkeypatch):
    monkeypatch.setattr(data_command, "find_spec", lambda _: None)
    assert "pip install 'maxfl" in data_command._state(entry("digits"), None)
