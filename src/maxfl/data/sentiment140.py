"""Sentiment140: 1.6 million tweets by their authors, sad or happy.

Go, Bhayani, Huang, "Twitter Sentiment Classification using Distant Supervision", 2009. The file
has six columns, in latin-1 and without a heading: polarity (0 or 4), number, date, query, user,
text.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

from maxfl.data.dataset import Dataset
from maxfl.data.glove import read_vectors
from maxfl.data.locate import Place, obtain, opened
from maxfl.data.registry import SENTIMENT140, SENTIMENT140_SAMPLE, File, glove_file
from maxfl.data.tweets import average
from maxfl.utils.errors import InputError

COLUMNS = ("polarity", "number", "date", "query", "user", "text")
LABELS = ("negative", "positive")
SAD, HAPPY, UNKNOWN = 0, 4, -1
"""Polarities of the file, and one that it can't have."""


class Tweets(NamedTuple):
    """Tweets: texts, labels int32[n], and their authors."""

    texts: list[str]
    y: NDArray[np.int32]
    users: NDArray[np.str_]


def read_tweets(place: Place) -> Tweets:
    """Read the publisher's CSV file."""
    with opened(place) as file:
        content = file.read()
    if content.startswith(b'"') and not content.rstrip().endswith(b'"'):
        raise InputError(f"{place} ends within a text: it was cut off; get it again")
    try:
        table = csv.read_csv(
            pa.BufferReader(content),
            csv.ReadOptions(column_names=COLUMNS, encoding="latin-1"),
            csv.ParseOptions(newlines_in_values=True),
            csv.ConvertOptions(
                column_types={"polarity": pa.int8(), "user": pa.string(), "text": pa.string()},
                include_columns=["polarity", "user", "text"],
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        raise InputError(
            f"{place} is not Sentiment140's CSV of six columns: {error}; get it again"
        ) from None
    if len(table) == 0:
        raise InputError(f"{place} has no tweets; get it again")
    users = np.asarray(table["user"].to_pylist(), dtype=np.str_)
    return Tweets(table["text"].to_pylist(), _labels(table["polarity"], place), users)


def _labels(polarity: pa.ChunkedArray, place: Place) -> NDArray[np.int32]:
    """Return 0 for sad and 1 for happy; an error names the first row with anything else."""
    numbers = polarity.fill_null(UNKNOWN).to_numpy()
    strange = np.flatnonzero(~np.isin(numbers, (SAD, HAPPY)))
    if strange.size:
        first = polarity[strange[0]].as_py()
        raise InputError(
            f"{place}, row {strange[0] + 1}: polarity {'missing' if first is None else first} "
            f"where only {SAD} and {HAPPY} are expected; get it again or correct that row"
        )
    return (numbers == HAPPY).astype(np.int32)


def sentiment140(vectors: str, data_dir: Path | None = None) -> Dataset:
    """Load all tweets, by their authors, as mean word vectors float32[n, dimension].

    Args:
        vectors: Name of the GloVe file without ``.txt``, for instance glove.6B.200d.
        data_dir: Folder to look in first.
    """
    title, tweets, x = _load(SENTIMENT140, vectors, data_dir)
    return Dataset(f"Sentiment140, {title}", x, tweets.y, LABELS, owner=tweets.users)


def sentiment140_stand_in(vectors: str, data_dir: Path | None = None) -> Dataset:
    """Load a sample of the tweets without their authors, to be split into made-up users.

    The sample has too few tweets of each author for the paper's users of 50 tweets and more.
    """
    title, tweets, x = _load(SENTIMENT140_SAMPLE, vectors, data_dir)
    count = f"STAND-IN for Sentiment140: {len(x):,} real tweets, made-up users"
    return Dataset(f"{count}, {title}", x, tweets.y, LABELS)


def _load(
    file: File, vectors: str, data_dir: Path | None
) -> tuple[str, Tweets, NDArray[np.float32]]:
    """Return the name of the features, the tweets, and their features."""
    tweets_at, vectors_at = obtain(file, data_dir), obtain(glove_file(vectors), data_dir)
    tweets = read_tweets(tweets_at)
    x, found = average(tweets.texts, read_vectors(vectors_at))
    return f"{vectors} ({found:.0%} of words found)", tweets, x
