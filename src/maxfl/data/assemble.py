"""From a data set and a partition to a federation."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxfl.data.dataset import Dataset
from maxfl.data.partition import Parts
from maxfl.errors import InputError, check_number
from maxfl.federation import Federation

VALIDATION_SHARE = 0.25
"""Of the training data, when settings are being chosen and the test data stay out of sight."""


def assemble(
    dataset: Dataset,
    parts: Parts,
    rng: np.random.Generator,
    *,
    unseen: int = 0,
    names: NDArray[Any] | None = None,
    train_share: float = 0.6,
    flipped: float = 0.0,
    validation: bool = False,
) -> Federation:
    """Split each client's samples into training and test data, and flip some clients' labels.

    Args:
        dataset: Where the samples are.
        parts: Sample numbers of each client; the last ``unseen`` are the unseen clients.
        rng: Source of the splits and the choice of flipped clients.
        unseen: Number of unseen clients.
        names: What the data call each client, if they do.
        train_share: Share of a client's samples that is for training.
        flipped: Share of all clients whose labels are reversed, y → classes − 1 − y.
        validation: Leave the test data out and hold out a quarter of the training data instead.
    """
    check_number("data.train_share", train_share, above=0, below=1)
    check_number("data.flipped", flipped, least=0, most=1)
    check_number("data.unseen", unseen, least=0, whole=True)
    flips = rng.permutation(len(parts)) < round(flipped * len(parts))
    train, test = [], []
    for k, (part, flip) in enumerate(zip(parts, flips, strict=True)):
        rows = rng.permutation(part)
        name = k if names is None else names[k]
        cut = _cut(len(rows), train_share, name)
        if validation:
            rows = rows[:cut]
            cut = _cut(cut, 1 - VALIDATION_SHARE, name)
        y = dataset.y[rows]
        y = dataset.classes - 1 - y if flip else y
        train.append((dataset.x[rows[:cut]], y[:cut]))
        test.append((dataset.x[rows[cut:]], y[cut:]))
    return Federation.from_clients(
        train,
        test,
        unseen=unseen,
        classes=dataset.classes,
        decoding=dataset.decoding,
        names=names,
    )


def _cut(samples: int, share: float, name: Any) -> int:
    """Number of samples before the cut: about the share, and at least one on each side."""
    if samples < 2:
        raise InputError(
            f"client {name} has {samples} sample(s) where two are needed, to hold one out: "
            f"leave the client out, or give it more"
        )
    return min(max(round(share * samples), 1), samples - 1)
