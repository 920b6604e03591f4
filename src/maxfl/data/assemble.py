"""From a data set and a split to a federation, in memory or client by client."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.core.checks.samples import Arrays, client_offsets
from maxfl.core.federation import Federation, Metadata, Samples
from maxfl.core.federation_files import ThreeParts, TwoParts
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
        test: Sample numbers of each client's test data.
        is_flipped: Whether each client's labels are flipped, bool[K].
        new_label: What a flipped client's labels become, int32[classes]; None without classes.
        metadata: What the data are, for people.
        inputs: How their features become the model's input.
        judging: Sample numbers of what each client judges by; None where the data do not say.
    """

    train: Parts
    test: Parts
    is_flipped: NDArray[np.bool_]
    new_label: NDArray[np.int32] | None
    metadata: Metadata
    inputs: Inputs
    judging: Parts | None = None

    @property
    def parts(self) -> list[Parts]:
        """Sample numbers of each part that there is."""
        return [part for part in (self.train, self.judging, self.test) if part is not None]


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
        judging=None if clients.judging is None else _copy(dataset, clients.judging, clients),
    )


def iterate_clients(dataset: Dataset, clients: TrainTestSplit) -> Iterator[TwoParts | ThreeParts]:
    """Yield (x, y) of each part of one client after another."""

    def samples(part: Parts, k: int) -> Arrays:
        x, y = clients.inputs.filled(dataset.x[part[k]]), dataset.y[part[k]]
        new = clients.new_label
        return x, y if new is None or not clients.is_flipped[k] else new[y]

    for k in range(len(clients.train)):
        train, test = samples(clients.train, k), samples(clients.test, k)
        if clients.judging is None:
            yield TwoParts(train, test)
        else:
            yield ThreeParts(train, samples(clients.judging, k), test)


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

    Where the data have a split of their own, ``dataset.is_test`` and ``dataset.is_judging``, it is
    kept. Samples that overlap are split in their order, and those that would share something with
    both sides are left out.

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
    judging = None
    if dataset.is_test is not None and dataset.is_judging is not None:
        train, judging = partition.cut_judging(train, dataset.is_judging, names)
    if validation:
        train, test = _hold_out(train, names, dataset.overlap)
    classes = dataset.classes
    new_label = None if classes is None else label_map(flip, classes, rng)
    metadata = Metadata(
        dataset.title, dataset.labels or None, names, is_flipped, (*dataset.notes, *notes),
        dataset.vocabulary or None, dataset.features or None, dataset.overlap,
    )  # fmt: skip
    inputs = fit_inputs(dataset, train[: len(train) - unseen])
    return TrainTestSplit(train, test, is_flipped, new_label, metadata, inputs, judging)


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
