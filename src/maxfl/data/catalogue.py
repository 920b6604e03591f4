"""The data sets by name: what they are, and the files that each needs."""

from typing import NamedTuple

from maxfl.data.sources import (
    EMNIST_SPLITS,
    SENTIMENT140,
    SENTIMENT140_SAMPLE,
    File,
    Pair,
    Part,
    emnist_pairs,
    fashion_mnist_pairs,
    glove_file,
)

PAPER_VECTORS = "glove.6B.200d"


class Entry(NamedTuple):
    """A data set that a configuration can name.

    Attributes:
        name: As in ``data.source``.
        what: In words.
        files: The files that it needs; none for those that come with a package.
        module: The module that brings it, if one does that need not be installed.
    """

    name: str
    what: str
    files: tuple[File, ...]
    module: str | None = None


def entry(name: str, part: Part = "both", vectors: str = PAPER_VECTORS) -> Entry:
    """A data set by its name."""
    return next(e for e in entries(part, vectors) if e.name == name)


def entries(part: Part = "both", vectors: str = PAPER_VECTORS) -> list[Entry]:
    """All data sets, with the files of some parts and word vectors."""
    words = glove_file(vectors)
    return [
        Entry("fashion-mnist-12k", "12,000 images of clothing, inside this package", ()),
        Entry(
            "fashion-mnist",
            "70,000 images of clothing, 10 labels",
            _files(fashion_mnist_pairs(part)),
        ),
        *(
            Entry(
                f"emnist-{split}",
                f"handwritten characters, {what}",
                _files(emnist_pairs(split, part)),
            )
            for split, what in zip(
                EMNIST_SPLITS,
                (
                    "814,255 of 62 labels",
                    "814,255 of 47 labels",
                    "131,600 of 47 labels",
                    "145,600 letters, 26 labels",
                    "280,000 digits",
                    "70,000 digits",
                ),
                strict=True,
            )
        ),
        Entry("sent140", "1.6 million tweets by author, as word vectors", (SENTIMENT140, words)),
        Entry(
            "sent140-stand-in",
            "STAND-IN: a sample of tweets, users made up",
            (SENTIMENT140_SAMPLE, words),
        ),
        Entry("digits", "1,797 small digits, from scikit-learn", (), module="sklearn"),
        Entry("synthetic", "drawn: clients differ by two numbers (FedProx)", ()),
    ]


def _files(pairs: list[Pair]) -> tuple[File, ...]:
    return tuple(file for pair in pairs for file in pair)
