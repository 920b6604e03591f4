"""Time and memory of loading, splitting and text features, on real files.

    MAXFL_DATA=folder python benchmarks/data.py

Needs Fashion-MNIST, the Sentiment140 sample and a GloVe file. Tweets are the sample's rows repeated
to the number of the full Sentiment140.
"""

import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from maxfl.data import partition
from maxfl.data.assemble import assemble
from maxfl.data.fashion_mnist import fashion_mnist
from maxfl.data.glove import read_vectors
from maxfl.data.locate import obtain
from maxfl.data.registry import SENTIMENT140_SAMPLE, glove_file
from maxfl.data.sentiment140 import read_tweets
from maxfl.data.tweets import average

TWEETS = 1_600_000
VECTORS = sys.argv[1] if len(sys.argv) > 1 else "glove.6B.100d.top50k"


def timed(what: str, work: Callable[[], Any]) -> Any:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - began
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"{what:58} {seconds:8.2f} s   peak memory + {grown:6.0f} MB", flush=True)
    return result


def main() -> None:
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache  # nothing unpacked before
        data = timed("Fashion-MNIST, first time (unpacks it)", fashion_mnist)
        timed("Fashion-MNIST again", fashion_mnist)

        def rng() -> np.random.Generator:
            return np.random.default_rng(0)

        split = timed(
            "70,000 samples over 10,000 clients, Dirichlet 0.1",
            lambda: partition.dirichlet(data.y, 10_000, 7, 0.1, rng()),
        )
        timed(
            "the same, unequal sizes",
            lambda: partition.dirichlet_unequal(data.y, 10_000, 0.1, 2, rng()),
        )
        timed("10,000 clients as a federation", lambda: assemble(data, split, rng()))
        tweets = timed("24,354 tweets from CSV", lambda: read_tweets(obtain(SENTIMENT140_SAMPLE)))
        vectors = timed(f"{VECTORS}", lambda: read_vectors(obtain(glove_file(VECTORS))))
        texts = (tweets.texts * -(-TWEETS // len(tweets.texts)))[:TWEETS]
        dimension = vectors.table.shape[1]
        x, found = timed(
            f"{TWEETS:,} tweets as mean vectors of {dimension}", lambda: average(texts, vectors)
        )
        print(f"words found: {found:.1%}; features {x.shape} {x.dtype}, {x.nbytes / 2**20:.0f} MB")


if __name__ == "__main__":
    main()
