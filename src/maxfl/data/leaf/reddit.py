"""Reddit by author: comments of December 2017 as sequences of tokens, and the same one further on.

Caldas et al. 2018. A comment is a list of sequences, ``<BOS> … <EOS> <PAD> …``; its label has them
as ``target_tokens``.
"""

from collections import defaultdict
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np

from maxfl.data.dataset import Dataset
from maxfl.data.leaf.files import Pair, read_leaf
from maxfl.utils.errors import InputError, check_count

PAD, UNKNOWN = "<PAD>", "<UNK>"
VOCABULARY = 10_000
"""LEAF's."""


def reddit(path: Path, vocabulary: int = VOCABULARY) -> Dataset:
    """Load sequences by author: x int32[n, length]; y the next tokens, alike, 0 where none is.

    Tokens are the most frequent ones of the training data, ``vocabulary`` in all with <PAD>, 0,
    and <UNK>, 1, which stands for all others. Sequences without any next token are left out.
    """
    check_count("data.vocabulary", vocabulary, least=3)
    number = defaultdict(count(1).__next__, {PAD: 0})

    def convert(comments: list[Any], labels: list[Any]) -> Pair:
        return _sequences(comments, labels, number)

    samples = read_leaf(path, convert)
    tokens = [*number]
    frequent = _most_frequent(samples.training, tokens, vocabulary - 2)
    new_number = np.ones(len(tokens), np.int32)
    new_number[0] = 0
    new_number[frequent] = np.arange(2, 2 + len(frequent))
    return Dataset(
        f"LEAF's Reddit, {2 + len(frequent):,} tokens",
        np.concatenate([new_number[x] for x in samples.x]),
        np.concatenate([new_number[y] for y in samples.y]), (),
        owner=samples.owner, owner_names=samples.names, is_test=samples.is_test,
        vocabulary=(PAD, UNKNOWN, *(tokens[i] for i in frequent)), notes=samples.notes,
    )  # fmt: skip


def _sequences(comments: list[Any], labels: list[Any], number: defaultdict[str, int]) -> Pair:
    """Return all sequences of an author's comments, tokens numbered as they first appear."""
    try:
        texts = [sequence for comment in comments for sequence in comment]
        targets = [sequence for label in labels for sequence in label["target_tokens"]]
        x, y = ([[number[t] for t in sequence] for sequence in s] for s in (texts, targets))
        arrays = np.array(x, np.int32), np.array(y, np.int32)
    except (TypeError, KeyError, ValueError) as error:
        raise InputError(
            f"expected comments as lists of sequences of tokens of one length, and labels with "
            f"target_tokens alike: {type(error).__name__} {error}"
        ) from None
    if arrays[0].shape != arrays[1].shape:
        raise InputError(
            f"sequences have shape {list(arrays[0].shape)} and target_tokens "
            f"{list(arrays[1].shape)}; expected the same"
        )
    if not texts:
        return np.empty((0, 1), np.int32), np.empty((0, 1), np.int32)
    has_label = arrays[1].reshape(len(texts), -1).any(1)
    return arrays[0][has_label], arrays[1][has_label]


def _most_frequent(pairs: list[Pair], tokens: list[str], most: int) -> list[int]:
    """Return the numbers of the most frequent tokens but <PAD>; equal ones by alphabet."""
    counts = np.zeros(len(tokens), np.int64)
    for sequences in chain.from_iterable(pairs):
        counts += np.bincount(sequences.ravel(), minlength=len(tokens))
    counts[0] = 0
    there = np.flatnonzero(counts).tolist()
    return sorted(there, key=lambda i: (-counts[i], tokens[i]))[:most]
