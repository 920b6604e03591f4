"""From a data set and a split to a federation, in memory or client by client."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.core.federation import About, Arrays, Federation, Samples, default_decoding
from maxfl.data.dataset import Dataset
from maxfl.data.partition import Parts, Split
from maxfl.utils.errors import InputError, check_choice, check_number

VALIDATION_SHARE = 0.25
"""Of the training data, when settings are being chosen and the test data stay out of sight."""


class Cut(NamedTuple):
    """Who has which samples, before they are copied.

    Attributes:
        train: Sample numbers of each client's training data.
        test: Of its held-out data.
        is_flipped: Whether each client's labels are flipped, bool[K].
        new_label: What a flipped client's labels become, int32[classes].
        about: For people.
    """

    train: Parts
    test: Parts
    is_flipped: NDArray[np.bool_]
    new_label: NDArray[np.int32]
    about: About


def assemble(
    dataset: Dataset, split: Split, rng: np.random.Generator, *, unseen: int = 0, **options: Any
) -> Federation:
    """A federation in memory; options are those of ``cut``."""
    own = cut(dataset, split, rng, unseen=unseen, **options)
    return Federation(
        _gather(dataset, own.train, own.is_flipped, own.new_label),
        _gather(dataset, own.test, own.is_flipped, own.new_label),
        seen=len(own.train) - unseen,
        classes=dataset.classes,
        decoding=dataset.decoding or default_decoding(dataset.x.dtype),
        about=own.about,
    )


def one_by_one(dataset: Dataset, own: Cut) -> Iterator[tuple[Arrays, Arrays]]:
    """The same clients one after another: training and held-out (x, y) of each."""
    for train, test, flipped in zip(own.train, own.test, own.is_flipped, strict=True):
        pairs = [(dataset.x[rows], dataset.y[rows]) for rows in (train, test)]
        yield tuple((x, own.new_label[y] if flipped else y) for x, y in pairs)  # type: ignore[misc]


def cut(
    dataset: Dataset,
    split: Split,
    rng: np.random.Generator,
    *,
    unseen: int = 0,
    train_share: float = 0.6,
    flipped: float = 0.0,
    flip: str = "reverse",
    validation: bool = False,
) -> Cut:
    """Split each client's samples into training and test data, and flip some clients' labels.

    Args:
        dataset: Where the samples are.
        split: Sample numbers of each client; the last ``unseen`` are the unseen clients.
        rng: Source of the splits, the choice of flipped clients and a random flip.
        unseen: Number of unseen clients.
        train_share: Share of a client's samples that is for training.
        flipped: Share of all clients whose labels are flipped.
        flip: How, see ``maxfl.data.flips``; the same for all of them.
        validation: Leave the test data out and hold out a quarter of the training data instead.
    """
    parts, names, notes = split
    check_number("data.train_share", train_share, above=0, below=1)
    check_number("data.flipped", flipped, least=0, most=1)
    check_number("data.unseen", unseen, least=0, below=len(parts), whole=True)
    is_flipped = rng.permutation(len(parts)) < round(flipped * len(parts))
    train: Parts = []
    test: Parts = []
    for k, part in enumerate(parts):
        rows = rng.permutation(part)
        name = k if names is None else names[k]
        cut = _cut(len(rows), train_share, name)
        if validation:
            rows = rows[:cut]
            cut = _cut(cut, 1 - VALIDATION_SHARE, name, "training ")
        train.append(rows[:cut])
        test.append(rows[cut:])
    new_label = label_map(flip, dataset.classes, rng)
    about = About(dataset.title, dataset.labels, names, is_flipped, notes)
    return Cut(train, test, is_flipped, new_label, about)


def _gather(
    dataset: Dataset, parts: Parts, is_flipped: NDArray[np.bool_], new_label: NDArray[np.int32]
) -> Samples:
    """The samples of all clients in flat arrays; those of flipped clients with new labels."""
    sizes = [len(rows) for rows in parts]
    rows = np.concatenate(parts)
    y = dataset.y[rows]
    y = np.where(np.repeat(is_flipped, sizes), new_label[y], y)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    return Samples(np.ascontiguousarray(dataset.x[rows]), y, offsets)


def _cut(samples: int, share: float, name: Any, kind: str = "") -> int:
    """Number of samples before the cut: about the share, and at least one on each side."""
    if samples < 2:
        raise InputError(
            f"client {name} has {samples} {kind}sample(s) where two are needed, to hold one out: "
            f"raise data.samples, or data.min_samples where clients differ in size"
        )
    return min(max(round(share * samples), 1), samples - 1)


FLIPS = ("reverse", "shift", "permute")


def label_map(name: str, classes: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """New label of each label, int32[classes].

    reverse: y → classes − 1 − y (the middle one of an odd number stays); shift: y → y + 1, the
    last becomes the first; permute: along one random cycle through all labels.
    """
    check_choice("data.flip", name, FLIPS)
    labels = np.arange(classes, dtype=np.int32)
    if name == "reverse":
        return labels[::-1].copy()
    cycle = labels if name == "shift" else rng.permutation(labels)
    new = np.empty_like(labels)
    new[cycle] = np.roll(cycle, -1)
    return new
