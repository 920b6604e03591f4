"""The data sets that a configuration can name, the files they consist of, and their publishers."""

from collections.abc import Iterable
from typing import Literal, NamedTuple

Part = Literal["train", "test", "both"]


class Download(NamedTuple):
    """A file that a publisher offers.

    Attributes:
        url: Where it is.
        checksum: Algorithm and digest, as ``md5:...`` or ``sha256:...``.
        size: In bytes, to say beforehand how long it takes and to notice what was cut off.
    """

    url: str
    checksum: str
    size: int

    @property
    def name(self) -> str:
        """The file's name."""
        return self.url.rpartition("/")[2]


class File(NamedTuple):
    """A file that a data set consists of.

    Attributes:
        folder: Its folder below a folder of data sets.
        name: Its name without ``.gz``; packed with gzip or inside the publisher's zip will do.
        download: What brings it; the file itself, gzipped, or a zip that has it inside.
        packaged: Folder in which a system package installs it, if there is one.
        package: Name of that package.
        hint: What to say to someone who has not got it, beside where to put it.
    """

    folder: str
    name: str
    download: Download | None
    packaged: str | None = None
    package: str | None = None
    hint: str | None = None


class ImageFiles(NamedTuple):
    """The files of some images and of their labels."""

    images: File
    labels: File


class Entry(NamedTuple):
    """A data set that a configuration can name.

    Attributes:
        name: As in ``data.source``.
        what: In words.
        files: The files that it needs; none for those that come with a package.
        module: The module that brings it, if one does that need not be installed.
        how: How to get it, for those that are read where ``data.path`` says.
    """

    name: str
    what: str
    files: tuple[File, ...] = ()
    module: str | None = None
    how: str | None = None


PAPER_VECTORS = "glove.6B.200d"
"""The word vectors of the paper."""


def entry(name: str, part: Part = "both", vectors: str = PAPER_VECTORS) -> Entry:
    """Return a data set by its name."""
    return next(e for e in entries(part, vectors) if e.name == name)


def entries(part: Part = "both", vectors: str = PAPER_VECTORS) -> list[Entry]:
    """Return all data sets, with the files of some parts and word vectors."""
    words = glove_file(vectors)
    return [
        Entry("fashion-mnist-12k", "12,000 images of clothing, inside this package"),
        Entry(
            "fashion-mnist",
            "70,000 images of clothing, 10 labels",
            _all_files(fashion_mnist_files(part)),
        ),
        *(
            Entry(
                f"emnist-{split}",
                f"handwritten characters, {what}",
                _all_files(emnist_files(split, part)),
            )
            for split, what in EMNIST_SPLITS.items()
        ),
        Entry("sent140", "1.6 million tweets by author, as word vectors", (SENTIMENT140, words)),
        Entry(
            "sent140-stand-in",
            "STAND-IN: a sample of tweets, users made up",
            (SENTIMENT140_SAMPLE, words),
        ),
        Entry("digits", "1,797 small digits, from scikit-learn", module="sklearn"),
        Entry("synthetic", "drawn: clients differ by two numbers (FedProx)"),
        *(Entry(f"leaf-{name}", what, how=how) for name, (what, how) in LEAF.items()),
        Entry("text", "a text of your own, by characters", how="set data.path to a file in UTF-8"),
        Entry(
            "table",
            "a table of your own: CSV, Parquet, Arrow, a folder of Hugging Face's save_to_disk",
            how="set data.file, data.client_column and data.label_column",
        ),
    ]


def _all_files(pairs: Iterable[ImageFiles]) -> tuple[File, ...]:
    return tuple(file for pair in pairs for file in pair)


def _parts(part: Part) -> tuple[str, ...]:
    return ("train", "test") if part == "both" else (part,)


LEAF_URL = "https://github.com/TalwalkarLab/leaf"
_PREPROCESS = f"set data.path to the folder data/ that preprocess.sh of {LEAF_URL} writes"
LEAF = {
    "femnist": (
        "handwritten characters by writer, 62 labels (LEAF, BSD 2-Clause; images of NIST SD 19)",
        _PREPROCESS,
    ),
    "shakespeare": (
        "the next character, by role (LEAF, BSD 2-Clause; plays of Project Gutenberg)",
        _PREPROCESS,
    ),
    "reddit": (
        "the next word, by author (LEAF, BSD 2-Clause; comments of 2017, no licence stated)",
        f"set data.path to the preprocessed files that data/reddit of {LEAF_URL} links to",
    ),
}
"""Caldas et al., "LEAF: A Benchmark for Federated Settings", 2018: in words, and how to get it."""


FASHION_MNIST_URL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
FASHION_MNIST = {
    name: File(
        "fmnist",
        name,
        Download(f"{FASHION_MNIST_URL}/{name}.gz", f"md5:{md5}", size),
        packaged="/usr/share/datasets/fashion-mnist",
        package="dataset-fashion-mnist (Debian)",
    )
    for name, md5, size in (
        ("train-images-idx3-ubyte", "8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26_421_880),
        ("train-labels-idx1-ubyte", "25c81989df183df01b3e8a0aad5dffbe", 29_515),
        ("t10k-images-idx3-ubyte", "bef4ecab320f06d8554ea6380940ec79", 4_422_102),
        ("t10k-labels-idx1-ubyte", "bb300cfdad3c16e7a12a480ee83cd310", 5_148),
    )
}
"""Xiao, Rasul, Vollgraf, "Fashion-MNIST", 2017; MIT licence."""


def fashion_mnist_files(part: Part) -> list[ImageFiles]:
    """Return the files of Fashion-MNIST."""
    prefixes = [{"train": "train", "test": "t10k"}[name] for name in _parts(part)]
    return [
        ImageFiles(FASHION_MNIST[f"{p}-images-idx3-ubyte"], FASHION_MNIST[f"{p}-labels-idx1-ubyte"])
        for p in prefixes
    ]


EMNIST_ZIP = Download(
    "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
    "md5:58c8d27c78d21e728a6bc7b3cc06412e",
    561_753_746,
)
EMNIST_SPLITS = {
    "byclass": "814,255 of 62 labels",
    "bymerge": "814,255 of 47 labels",
    "balanced": "131,600 of 47 labels",
    "letters": "145,600 letters, 26 labels",
    "digits": "280,000 digits",
    "mnist": "70,000 digits",
}
"""Cohen, Afshar, Tapson, van Schaik, "EMNIST", 2017: its splits, in words."""


def emnist_files(split: str, part: Part) -> list[ImageFiles]:
    """Return the files of a split of EMNIST."""
    return [
        ImageFiles(
            File("emnist", f"emnist-{split}-{name}-images-idx3-ubyte", EMNIST_ZIP),
            File("emnist", f"emnist-{split}-{name}-labels-idx1-ubyte", EMNIST_ZIP),
        )
        for name in _parts(part)
    ]


SENTIMENT140 = File(
    "sent140",
    "training.1600000.processed.noemoticon.csv",
    Download(
        "http://cs.stanford.edu/people/alecmgo/trainingandtestdata.zip",
        "sha256:004a3772c8a7ff9bbfeb875880f47f0679d93fc63e5cf9cff72d54a8a6162e57",
        81_363_704,
    ),
)
"""Go, Bhayani, Huang, "Twitter Sentiment Classification using Distant Supervision", 2009."""

SENTIMENT140_SAMPLE = File("sent140", "sample.training.processed.noemoticon.csv", None)
"""Some rows of Sentiment140 in the same format, for the stand-in."""

GLOVE_6B = Download(
    "https://nlp.stanford.edu/data/glove.6B.zip",
    "sha256:617afb2fe6cbd085c235baf7a465b96f4112bd7f7ccb2b2cbd649fed9cbcf2fb",
    862_182_613,
)
GLOVE_TWITTER = Download(
    "https://nlp.stanford.edu/data/glove.twitter.27B.zip",
    "sha256:792af52f795d1a32c9842a3240f5f3fe5e941a8ff6df5eb0f9d668092ebc019c",
    1_520_408_563,
)
GLOVE = {
    **{f"glove.6B.{dimension}d": GLOVE_6B for dimension in (50, 100, 200, 300)},
    **{f"glove.twitter.27B.{dimension}d": GLOVE_TWITTER for dimension in (25, 50, 100, 200)},
}
"""Pennington, Socher, Manning, "GloVe: Global Vectors for Word Representation", 2014; PDDL."""


def glove_file(name: str) -> File:
    """Return a file of GloVe vectors by its name without ``.txt``, for instance glove.6B.200d."""
    hint = None if name in GLOVE else f"vectors that can be downloaded are {', '.join(GLOVE)}"
    return File("glove", f"{name}.txt", GLOVE.get(name), hint=hint)
