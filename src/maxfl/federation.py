"""A federation: every client's samples in flat arrays with offsets, so no sample is padded."""

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxfl.errors import InputError

Arrays = tuple[ArrayLike, ArrayLike]
INT32 = np.iinfo(np.int32)


class Samples(NamedTuple):
    """Samples of all K clients, one client after another.

    Attributes:
        x: Features, [total, ...]. Images stay uint8 here and are decoded when a batch is drawn.
        y: Labels, int32[total].
        offsets: int32[K + 1]; client k owns rows offsets[k] to offsets[k + 1].
    """

    x: Any
    y: Any
    offsets: Any


class Decoding(NamedTuple):
    """How stored features become the model's input: (x − shift) · scale, in float32."""

    shift: Any = np.float32(0.0)
    scale: Any = np.float32(1.0)


class Federation(NamedTuple):
    """Clients with their training and test data; the first ``seen`` of them can take part.

    Attributes:
        train: Training samples of all K clients.
        test: Held-out samples of all K clients.
        seen: Number of clients that take part in training; the others only look at the result.
        classes: Number of labels.
        decoding: From stored features to the model's input.
    """

    train: Samples
    test: Samples
    seen: int
    classes: int
    decoding: Decoding = Decoding()

    @property
    def clients(self) -> int:
        """K: the number of clients, seen and unseen."""
        return len(self.train.offsets) - 1

    @property
    def train_sizes(self) -> NDArray[np.int64]:
        """Number of training samples of each client, int[K]."""
        return np.diff(self.train.offsets)

    @property
    def test_sizes(self) -> NDArray[np.int64]:
        """Number of test samples of each client, int[K]."""
        return np.diff(self.test.offsets)

    @property
    def is_seen(self) -> NDArray[np.bool_]:
        """Whether each client takes part in training, bool[K]."""
        return np.arange(self.clients) < self.seen

    @classmethod
    def from_clients(
        cls,
        train: Sequence[Arrays],
        test: Sequence[Arrays],
        *,
        unseen: int = 0,
        classes: int | None = None,
        decoding: Decoding | None = None,
    ) -> "Federation":
        """Build a federation from one (x, y) pair of arrays per client, and check it.

        Args:
            train: Training data of each client: x [n_k, ...], y int[n_k]. Sizes may differ.
            test: Held-out data of each client, in the same order.
            unseen: How many of the last clients take no part in training.
            classes: Number of labels; by default the largest label plus one.
            decoding: From stored features to the model's input. By default uint8 features are
                divided by 255 and others are taken as they are.
        """
        if len(train) != len(test):
            raise InputError(
                f"train has {len(train)} clients and test has {len(test)}: give each client both"
            )
        if not 0 <= unseen < max(len(train), 1):
            raise InputError(
                f"unseen = {unseen} of {len(train)} clients: at least one client must be seen"
            )
        if len(train) == 0:
            raise InputError("a federation needs at least one client")
        checked_train = [_client(pair, k, "train") for k, pair in enumerate(train)]
        checked_test = [_client(pair, k, "test") for k, pair in enumerate(test)]
        _same_features(checked_train + checked_test)
        pairs = (*checked_train, *checked_test)
        largest = [int(y.max()) for _, y in pairs]
        if classes is None:
            classes = max(largest) + 1
        for i, label in enumerate(largest):
            if label >= classes:
                raise InputError(
                    f"client {i % len(train)} has label {label}, but classes = {classes} allows "
                    f"labels 0 to {classes - 1}"
                )
        if decoding is None:
            is_bytes = checked_train[0][0].dtype == np.uint8
            decoding = Decoding(scale=np.float32(1 / 255)) if is_bytes else Decoding()
        return cls(
            _flatten(checked_train),
            _flatten(checked_test),
            seen=len(train) - unseen,
            classes=classes,
            decoding=decoding,
        )

    def digest(self) -> str:
        """SHA-256 of everything in the federation, to tell one from another."""
        sha = hashlib.sha256()
        for part in (*self.train, *self.test, self.seen, self.classes, *self.decoding):
            array = np.ascontiguousarray(part)
            sha.update(f"{array.dtype}{array.shape}".encode())
            sha.update(array.data)
        return sha.hexdigest()


def _client(pair: Arrays, k: int, split: str) -> tuple[NDArray[Any], NDArray[np.int32]]:
    """One client's arrays, checked; the message of an error names the client."""
    where = f"{split} data of client {k}"
    x, y = np.asarray(pair[0]), np.asarray(pair[1])
    if y.ndim != 1 or x.ndim < 1 or len(x) != len(y):
        raise InputError(f"{where}: x has shape {x.shape} and y {y.shape}; want [n, ...] and [n]")
    if len(y) == 0:
        raise InputError(f"{where} is empty: give it at least one sample, or leave the client out")
    if not np.issubdtype(y.dtype, np.integer):
        raise InputError(f"{where}: labels are {y.dtype}; want integers")
    if y.min() < 0 or y.max() > INT32.max:
        raise InputError(f"{where}: labels run from {y.min()} to {y.max()}; they count from 0")
    if np.issubdtype(x.dtype, np.floating):
        with np.errstate(over="ignore"):  # what does not fit is found below
            x = x.astype(np.float32, copy=False)
        bad = int((~np.isfinite(x)).sum())
        if bad:
            raise InputError(
                f"{where}: {bad} feature value(s) are NaN, infinite or too large for float32"
            )
    elif np.issubdtype(x.dtype, np.integer):
        if x.dtype.itemsize > 4 or x.dtype == np.uint32:  # the engine computes with 32 bits
            if x.min() < INT32.min or x.max() > INT32.max:
                raise InputError(f"{where}: integer features beyond 32 bits")
            x = x.astype(np.int32)
    else:
        raise InputError(f"{where}: features are {x.dtype}; want floats or integers")
    return x, y.astype(np.int32, copy=False)


def _same_features(clients: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> None:
    """Refuse clients whose samples differ in shape or type."""
    half = len(clients) // 2
    first = clients[0][0]
    for i, (x, _) in enumerate(clients):
        if x.shape[1:] != first.shape[1:] or x.dtype != first.dtype:
            raise InputError(
                f"client {i % half} has features {x.dtype}{list(x.shape[1:])} where client 0 has "
                f"{first.dtype}{list(first.shape[1:])}: all samples must be alike"
            )


def _flatten(clients: Sequence[tuple[NDArray[Any], NDArray[np.int32]]]) -> Samples:
    sizes = [len(y) for _, y in clients]
    return Samples(
        np.concatenate([x for x, _ in clients]),
        np.concatenate([y for _, y in clients]),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32),
    )
