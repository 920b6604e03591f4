"""A bridge to Flower Datasets: any of its partitioners makes a federation.

Needs the extra ``maxfl[partitioners]``; see https://flower.ai/docs/datasets.
"""

from typing import Any

import numpy as np

from maxfl.core.checks.samples import checked_samples
from maxfl.core.federation import Federation
from maxfl.data.assemble import assemble
from maxfl.data.dataset import Dataset, numbered
from maxfl.data.partition import Split
from maxfl.utils.errors import InputError, check_count


def from_flwr_datasets(
    partitioner: Any,
    *,
    x: str = "image",
    y: str = "label",
    unseen: int = 0,
    min_samples: int = 2,
    train_fraction: float = 0.6,
    seed: int = 0,
) -> Federation:
    """Make every partition a client, split into training and test data.

    Args:
        partitioner: Of ``flwr_datasets.partitioner``, with its ``dataset`` set.
        x: Column of the features.
        y: Column of the labels, whole numbers from 0.
        unseen: How many of the last partitions are unseen clients.
        min_samples: Smaller partitions are left out; two are needed, to hold one out.
        train_fraction: Fraction of a client's samples that is for training.
        seed: Of the split into training and test data.
    """
    check_count("min_samples", min_samples, least=2)
    every = [partitioner.load_partition(i) for i in range(partitioner.num_partitions)]
    names = every[0].column_names
    if missing := {x, y} - set(names):
        raise InputError(
            f"no column {', '.join(sorted(missing))}; there are {', '.join(names)}: name them "
            f"with x and y"
        )
    numbers = [i for i, piece in enumerate(every) if len(piece) >= min_samples]
    if not numbers:
        raise InputError(
            f"none of {len(every)} partitions has min_samples = {min_samples} samples: make fewer"
        )
    pieces = [every[i].select_columns([x, y]) for i in numbers]
    loaded = [piece.with_format("numpy")[:] for piece in pieces]
    features, labels = checked_samples(
        np.concatenate([np.asarray(columns[x]) for columns in loaded]),
        np.concatenate([np.asarray(columns[y]) for columns in loaded]),
        f"columns {x} and {y}",
    )
    label_names = getattr(pieces[0].features[y], "names", None) or numbered(int(labels.max()) + 1)
    dataset = Dataset("Flower Datasets", features, labels, tuple(label_names))
    ends = np.cumsum([len(piece) for piece in pieces])
    parts = np.split(np.arange(ends[-1]), ends[:-1])
    left_out = len(every) - len(numbers)
    note = f"{left_out} partitions with fewer than {min_samples} samples are left out"
    split = Split(parts, np.array(numbers), (note,)) if left_out else Split(parts)
    rng = np.random.default_rng(seed)
    return assemble(dataset, split, rng, unseen=unseen, train_fraction=train_fraction)
