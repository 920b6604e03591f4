"""Words of texts, and the means of their vectors."""

import numpy as np
import pytest

from maxfl.data.glove import read_vectors
from maxfl.data.locate import Place
from maxfl.data.tweets import average, words

pytestmark = pytest.mark.usefixtures("own_cache")


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
