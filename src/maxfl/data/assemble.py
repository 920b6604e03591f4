"""From a data set and a split to a federation, in memory or client by client."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.core.checks.samples import Arrays, client_offsets
from maxfl.core.federation import Federation, Metadata, Samples
from maxfl.data import partition
from maxfl.data.dataset import Dataset
from maxfl.data.partition import Parts, Split
from maxfl.data.tables.inputs import Inputs, fit_inputs
from maxfl.utils.errors import InputError, check_choice, check_number

VALIDATION_FRACTION = 0.25
"""Of the training data, when settings are being chosen and the test data stay out of sight."""
FLIPS = ("reverse", "shift", "permute")
"""Ways to flip labels; ``label_map`` has what they do."""


class TrainTestSplit(NamedTuple):
    """The samples of each client, before they are copied.

    Attributes:
        train: Sample numbers of each client's training data.
        test: Sample numbers of each client's held-out data.
        is_flipped: Whether each client's labels are flipped, bool[K].
        new_label: What a flipped client's labels become, int32[classes]; None without classes.
        metadata: What the data are, for people.
        inputs: How their features become the model's input.
    """

    train: Parts
    test: Parts
    is_flipped: NDArray[np.bool_]
    new_label: NDArray[np.int32] | None
    metadata: Metadata
    inputs: Inputs


def split_by_owner(dataset: Dataset, unseen: int, smallest: int, rng: np.random.Generator) -> Split:
    """Split samples over the clients that the data name; see ``partition.by_owner``."""
    if dataset.owner is None:
        raise InputError(f"{dataset.title} does not say whose each sample is: give its clients")
    split = partition.by_owner(dataset.owner, unseen, smallest, rng)
    called = dataset.owner_names
    return split if called is None else split._replace(names=called[split.names])


def assemble(
    dataset: Dataset, split: Split, rng: np.random.Generator, *, unseen: int = 0, **options: Any
) -> Federation:
    """Make a federation in memory; options are those of ``train_test_split``."""
    clients = train_test_split(dataset, split, rng, unseen=unseen, **options)
    return Federation(
        _copy(dataset, clients.train, clients),
        _copy(dataset, clients.test, clients),
        seen=len(clients.train) - unseen,
        classes=dataset.classes,
        input_scaling=clients.inputs.scaling,
        metadata=clients.metadata,
    )


def iterate_clients(dataset: Dataset, clients: TrainTestSplit) -> Iterator[tuple[Arrays, Arrays]]:
    """Yield training and held-out (x, y) of one client after another."""
    new, filled = clients.new_label, clients.inputs.filled
    for train, test, flipped in zip(clients.train, clients.test, clients.is_flipped, strict=True):
        pairs = [(filled(dataset.x[rows]), dataset.y[rows]) for rows in (train, test)]
        flips = flipped and new is not None
        yield tuple((x, new[y] if flips else y) for x, y in pairs)  # type: ignore[misc, index]


def train_test_split(
    dataset: Dataset,
    split: Split,
    rng: np.random.Generator,
    *,
    unseen: int = 0,
    train_fraction: float = 0.6,
    flipped_fraction: float = 0.0,
    flip: str = "reverse",
    validation: bool = False,
) -> TrainTestSplit:
    """Split each client's samples into training and test data, and flip some clients' labels.

    Where the data have a split of their own, ``dataset.is_test``, it is kept. Samples that overlap
    are split in their order, and those that would share something with both sides are left out.

    Args:
        dataset: Where the samples are.
        split: Sample numbers of each client; the last ``unseen`` are the unseen clients.
        rng: Source of the splits, the choice of flipped clients and a random flip.
        unseen: Number of unseen clients.
        train_fraction: Fraction of a client's samples that is for training, unless the data say.
        flipped_fraction: Fraction of all clients whose labels are flipped.
        flip: One of ``FLIPS``; the same for all of them.
        validation: Leave the test data out and hold out a quarter of the training data instead.
    """
    parts, names, notes = split
    check_number("data.flipped_fraction", flipped_fraction, least=0, most=1)
    check_number("unseen", unseen, least=0, below=len(parts), whole=True)
    if flipped_fraction > 0 and dataset.classes is None:
        raise InputError(
            f"data.flipped_fraction = {flipped_fraction}: {dataset.title} has no classes to flip, "
            f"one integer per sample; leave it 0"
        )
    is_flipped = rng.permutation(len(parts)) < round(flipped_fraction * len(parts))
    train, test = partition.train_test_split(
        split, train_fraction, rng, is_test=dataset.is_test, overlap=dataset.overlap
    )
    if validation:
        train, test = _hold_out(train, names, dataset.overlap)
    classes = dataset.classes
    new_label = None if classes is None else label_map(flip, classes, rng)
    metadata = Metadata(
        dataset.title, dataset.labels or None, names, is_flipped, (*dataset.notes, *notes),
        dataset.vocabulary or None, dataset.features or None, dataset.overlap,
    )  # fmt: skip
    inputs = fit_inputs(dataset, train[: len(train) - unseen])
    return TrainTestSplit(train, test, is_flipped, new_label, metadata, inputs)


def _hold_out(parts: Parts, names: NDArray[Any] | None, overlap: int) -> tuple[Parts, Parts]:
    """Split each client's training samples once more; they are in random order already."""
    sides = [
        partition.cut(
            rows,
            1 - VALIDATION_FRACTION,
            overlap,
            f"client {k if names is None else names[k]}",
            "training ",
        )
        for k, rows in enumerate(parts)
    ]
    return [train for train, _ in sides], [test for _, test in sides]


def label_map(flip: str, classes: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Return the new label of each label, int32[classes].

    reverse: y → classes − 1 − y (the middle one of an odd number stays); shift: y → y + 1, the
    last becomes the first; permute: along one random cycle through all labels.
    """
    check_choice("data.flip", flip, FLIPS)
    labels = np.arange(classes, dtype=np.int32)
    if flip == "reverse":
        return labels[::-1].copy()
    cycle = labels if flip == "shift" else rng.permutation(labels)
    new = np.empty_like(labels)
    new[cycle] = np.roll(cycle, -1)
    return new


def _copy(dataset: Dataset, parts: Parts, clients: TrainTestSplit) -> Samples:
    """Copy the samples of all clients into flat arrays; flipped clients' with new labels."""
    sizes = [len(rows) for rows in parts]
    offsets = client_offsets(sizes, dataset.title)
    rows = np.concatenate(parts)
    y = dataset.y[rows]
    if clients.new_label is not None:
        y = np.where(np.repeat(clients.is_flipped, sizes), clients.new_label[y], y)
    return Samples(clients.inputs.filled(np.ascontiguousarray(dataset.x[rows])), y, offsets)
