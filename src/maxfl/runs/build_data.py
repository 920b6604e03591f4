"""From the data section of a configuration to a federation."""

import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from maxfl.core.checks.samples import Arrays
from maxfl.core.federation import Federation, Samples
from maxfl.core.federation_files import (
    ThreeParts,
    TwoParts,
    check_empty,
    open_federation,
    write_federation,
)
from maxfl.data import partition
from maxfl.data.arrays import load_arrays
from maxfl.data.assemble import assemble, iterate_clients, split_by_owner, train_test_split
from maxfl.data.dataset import Dataset
from maxfl.data.digits import digits
from maxfl.data.emnist import emnist
from maxfl.data.fashion_mnist import fashion_mnist, fashion_mnist_12k
from maxfl.data.leaf.femnist import femnist
from maxfl.data.leaf.reddit import reddit
from maxfl.data.leaf.shakespeare import shakespeare
from maxfl.data.locate import VARIABLE
from maxfl.data.partition import Split
from maxfl.data.registry import Part
from maxfl.data.sentiment140 import sentiment140, sentiment140_stand_in
from maxfl.data.synthetic import synthetic
from maxfl.data.tables.columns import read_dataset
from maxfl.data.tables.files import read_table
from maxfl.data.tables.roles import TableOptions
from maxfl.data.text import load_text
from maxfl.runs.configs.data import DataConfig, is_own_source
from maxfl.runs.plugins.factories import make_data
from maxfl.utils.errors import InputError

_LOCK = threading.Lock()
"""Sweeps ask from several threads; each federation is made once."""


def prepare_federation(data: DataConfig, seed: int) -> Federation:
    """Load the data, and split them over clients with a seed; or open what is on disk.

    The last few are kept, since the methods of a sweep meet the same ones.
    """
    if data.folder is not None:
        return open_federation(data.folder)
    with _LOCK:
        changed = _changed(data.file or data.path)
        return _prepare(data, seed, os.environ.get(VARIABLE), changed)


def _changed(path: Path | None) -> int | None:
    """Return when a file, or the last one of a folder, was written; None if it is not there.

    Then its loader will say so.
    """
    if path is None or not path.exists():
        return None
    return max(p.stat().st_mtime_ns for p in (path, *path.glob("*.json"), *path.glob("*/*.json")))


@lru_cache(maxsize=4)
def _prepare(
    data: DataConfig, seed: int, _variable: str | None, _changed: int | None
) -> Federation:
    rng = partition.generator(seed)
    dataset = _own(data, seed) if is_own_source(data.source) else _dataset(data, rng)
    if isinstance(dataset, Federation):
        return dataset
    return assemble(dataset, _split(data, dataset, rng), rng, **_cutting(data))


def write_prepared(
    data: DataConfig, seed: int, folder: Path, progress: Callable[[int, int], None]
) -> Path:
    """Write the federation that ``prepare_federation`` gives, client by client, to a folder.

    Samples that are drawn need not fit into memory: they go through files beside the folder.
    """
    check_empty(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".drawn-") as scratch:
        rng = partition.generator(seed)
        own = _own(data, seed) if is_own_source(data.source) else None
        if isinstance(own, Federation):
            return _write_made(own, folder, progress)
        dataset = _dataset(data, rng, Path(scratch)) if own is None else own
        split = train_test_split(dataset, _split(data, dataset, rng), rng, **_cutting(data))
        samples = sum(len(rows) for part in split.parts for rows in part)
        each = sum(int(np.prod(a.shape[1:])) * a.dtype.itemsize for a in (dataset.x, dataset.y))

        def clients() -> Iterator[TwoParts | ThreeParts]:
            for done, client in enumerate(iterate_clients(dataset, split)):
                progress(done, len(split.train))
                yield client

        return write_federation(
            folder, clients(), classes=dataset.classes, unseen=data.unseen,
            input_scaling=split.inputs.scaling, metadata=split.metadata, room=samples * each,
        )  # fmt: skip


def _write_made(federation: Federation, folder: Path, progress: Callable[[int, int], None]) -> Path:
    """Write a federation that is in memory."""

    def part(samples: Samples, k: int) -> Arrays:
        rows = slice(*samples.offsets[k : k + 2])
        return samples.x[rows], samples.y[rows]

    def clients() -> Iterator[TwoParts | ThreeParts]:
        judging = federation.judging
        for k in range(federation.clients):
            progress(k, federation.clients)
            train, test = part(federation.train, k), part(federation.test, k)
            if judging is None:
                yield TwoParts(train, test)
            else:
                yield ThreeParts(train, part(judging, k), test)

    return write_federation(
        folder, clients(), classes=federation.classes, unseen=federation.clients - federation.seen,
        input_scaling=federation.input_scaling, metadata=federation.metadata,
    )  # fmt: skip


SPLITTING = (
    "clients", "unseen", "samples", "min_samples", "alpha", "clusters", "shards", "train_fraction",
    "flipped_fraction", "flip", "evaluate_on",
)  # fmt: skip
"""Settings of how samples are split over clients."""


def _own(data: DataConfig, seed: int) -> Federation | Dataset:
    """Call the user's own source, and refuse settings that a whole federation can't heed."""
    made = make_data(data.source, data.options.given, seed)
    given = [key for key in SPLITTING if key in data.model_fields_set]
    given += ["partition"] if data.partition != "by-owner" else []
    if isinstance(made, Federation) and given:
        raise InputError(
            f"{data.source} returns a whole federation, with its clients and their test data: "
            f"leave {', '.join(f'data.{key}' for key in given)} out, or return a Dataset"
        )
    return made


def _cutting(data: DataConfig) -> dict[str, Any]:
    """Return how clients' samples are split, for ``train_test_split``."""
    return {
        "unseen": data.unseen,
        "train_fraction": data.train_fraction,
        "flipped_fraction": data.flipped_fraction,
        "flip": data.flip,
        "validation": data.evaluate_on == "validation",
    }


def _dataset(data: DataConfig, rng: np.random.Generator, scratch: Path | None = None) -> Dataset:
    """Load or draw all samples; those that are drawn, into files if there is a folder."""
    if data.source == "synthetic":
        clients, size = data.clients + data.unseen, data.synthetic_samples
        numbers = clients, data.synthetic_alpha, data.synthetic_beta
        return synthetic(*numbers, rng, samples=size, scratch=scratch)
    if data.source == "table" and data.file is not None:
        table = _table(data.file, data.table_options, _changed(data.file))
        return _as_owned(data, table)
    if data.file is not None:
        return _as_owned(data, load_arrays(data.file))
    if data.path is not None:
        text = data.sequence_length, data.role_pattern, data.clients + data.unseen
        found = _at_path(data.source, data.path, data.vocabulary, text, _changed(data.path))
        return _as_owned(data, found)
    return _published(data.source, data.part, data.vectors, data.dir, os.environ.get(VARIABLE))


def _as_owned(data: DataConfig, dataset: Dataset) -> Dataset:
    """Return a data set without its own split of each owner's samples, where clients are others."""
    if data.partition == "by-owner":
        return dataset
    return dataset._replace(is_test=None, is_judging=None)


@lru_cache(maxsize=1)
def _table(path: Path, options: TableOptions, _changed: int | None) -> Dataset:
    """Read a table; the last one stays, since a sweep splits it for every seed."""
    exact = [name for name in (options.client, options.split) if name is not None]
    return read_dataset(read_table(path, exact), options).dataset


@lru_cache(maxsize=1)
def _at_path(
    source: str,
    path: Path,
    vocabulary: int,
    text: tuple[int, str | None, int],
    _changed: int | None,
) -> Dataset:
    """Load data from where the user has them; the last ones stay, as ``_published`` ones do."""
    match source:
        case "leaf-femnist":
            return femnist(path)
        case "leaf-shakespeare":
            return shakespeare(path)
        case "leaf-reddit":
            return reddit(path, vocabulary)
        case _:
            length, role_pattern, stretches = text
            return load_text(path, length, role_pattern=role_pattern, stretches=stretches)


@lru_cache(maxsize=1)
def _published(
    source: str, part: Part, vectors: str, data_dir: Path | None, _variable: str | None
) -> Dataset:
    """Load a data set by name; the last one stays, since a sweep splits it for every seed.

    ``_variable`` is only a part of the key: the loaders look for themselves where it points.
    """
    match source:
        case "fashion-mnist-12k":
            return fashion_mnist_12k()
        case "fashion-mnist":
            return fashion_mnist(part, data_dir)
        case "digits":
            return digits()
        case "sent140":
            return sentiment140(vectors, data_dir)
        case "sent140-stand-in":
            return sentiment140_stand_in(vectors, data_dir)
        case _:
            return emnist(source.removeprefix("emnist-"), part, data_dir)


def _split(data: DataConfig, dataset: Dataset, rng: np.random.Generator) -> Split:
    if dataset.classes is None and data.partition not in ("iid", "by-owner"):
        raise InputError(
            f'data.partition = "{data.partition}" skews classes, but {dataset.title} has none, one '
            f"integer per sample: choose iid or by-owner"
        )
    if dataset.owner is None and data.partition == "by-owner":
        where = f"data.file = {data.file}, an array `client`," if data.file else "it"
        raise InputError(
            f"{dataset.title} does not say whose each sample is: give {where} or choose another "
            f"data.partition"
        )
    try:
        return _drawn(data, dataset, rng)
    except InputError as error:  # whose words are those of Python's arguments
        raise InputError(f"in [data], {error}") from error


def _drawn(data: DataConfig, dataset: Dataset, rng: np.random.Generator) -> Split:
    """Split samples by the partitioner that is named."""
    y, clients = dataset.y, data.clients + data.unseen
    # Classes beyond the last that occurs take no part in what is drawn.
    classes = None if dataset.classes is None else int(y.max()) + 1
    match data.partition:
        case "dirichlet":
            return partition.dirichlet(y, clients, data.samples, data.alpha, rng, classes=classes)
        case "dirichlet-unequal":
            return partition.dirichlet_unequal(
                y, clients, data.alpha, data.min_samples, rng, classes=classes
            )
        case "clusters":
            return partition.clusters(y, clients, data.samples, data.clusters, rng, classes=classes)
        case "shards":
            return partition.shards(y, clients, data.samples, data.shards, rng)
        case "iid":
            return partition.iid(y, clients, data.samples, rng)
        case "by-owner":
            return split_by_owner(dataset, data.unseen, data.min_samples, rng)
