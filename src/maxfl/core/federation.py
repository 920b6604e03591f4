"""A federation: every client's samples in flat arrays with offsets, so no sample is padded."""

import hashlib
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxfl.core.checks.samples import (
    Arrays,
    check_all_alike,
    checked_client,
    client_offsets,
    count_classes,
)
from maxfl.utils.display import Rows, array_type, counted, html_table, one_line, span
from maxfl.utils.errors import InputError, check_count, shorten

if TYPE_CHECKING:
    from maxfl.data.partition import Split


class Samples(NamedTuple):
    """Samples of all K clients, one client after another.

    Attributes:
        x: Features, [total, ...]. Images stay uint8 here and are decoded when a batch is drawn.
        y: Labels, int32[total] where they are classes; float32 or int32 [total, ...] else.
        offsets: int32[K + 1]; client k owns rows offsets[k] to offsets[k + 1].
    """

    x: Any
    y: Any
    offsets: Any


class InputScaling(NamedTuple):
    """How stored features become the model's input: (x − shift) · scale, in float32."""

    shift: Any = np.float32(0.0)
    scale: Any = np.float32(1.0)


class Metadata(NamedTuple):
    """What people want to know of a federation, and no computation needs.

    Attributes:
        title: What the data are; a stand-in says so here.
        labels: What the labels mean; None for their numbers.
        names: What the data themselves call each client, [K]; None for 0 to K − 1.
        flipped: Whether each client's labels contradict the others', bool[K]; None for nobody's.
        notes: How the split came out, where it is not as one would think.
        vocabulary: What numbers of tokens stand for; None where features are no tokens.
        features: What each feature of a sample is; None where they have no names.
        overlap: How many samples after another one share something with it, as in a text.
        judges_by_training: Whether each client has too few samples to hold any out, and judges by
            its training data although others do not, bool[K]; None for nobody.
    """

    title: str = "own data"
    labels: tuple[str, ...] | None = None
    names: NDArray[Any] | None = None
    flipped: NDArray[np.bool_] | None = None
    notes: tuple[str, ...] = ()
    vocabulary: tuple[str, ...] | None = None
    features: tuple[str, ...] | None = None
    overlap: int = 0
    judges_by_training: NDArray[np.bool_] | None = None


class Federation(NamedTuple):
    """Clients with their data in three parts; the first ``seen`` of them can participate.

    Attributes:
        train: Training samples of all K clients.
        test: Test samples of all K clients, for reported figures alone.
        seen: Number of clients that participate in training; the others only look at the result.
        classes: Number of classes; None where labels are something else.
        input_scaling: From stored features to the model's input.
        metadata: For people.
        known_digest: Of files on disk, digested when they were written.
        judging: Samples that clients judge a model by and do not train on; None where they are
            still to be held out from the training samples, or nobody holds out any.
        given_digest: Of the data as they were given, where clients have since held out a judging
            part, or left theirs alone; None where they are as given.
    """

    train: Samples
    test: Samples
    seen: int
    classes: int | None
    input_scaling: InputScaling = InputScaling()
    metadata: Metadata = Metadata()
    known_digest: str | None = None
    judging: Samples | None = None
    given_digest: str | None = None

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
    def judging_sizes(self) -> NDArray[np.int64]:
        """Number of samples that each client holds out to judge by, int[K]."""
        if self.judging is None:
            return np.zeros(self.clients, np.int64)
        by_training = self.metadata.judges_by_training
        return np.where(
            False if by_training is None else by_training, 0, np.diff(self.judging.offsets)
        )

    @property
    def judged(self) -> Samples:
        """Samples that clients judge a model by: the judging part, or their training data."""
        return self.train if self.judging is None else self.judging

    @property
    def has_own_judging(self) -> bool:
        """Whether the data came with the part that clients judge by."""
        return self.judging is not None and self.given_digest is None

    @property
    def is_seen(self) -> NDArray[np.bool_]:
        """Whether each client participates in training, bool[K]."""
        return np.arange(self.clients) < self.seen

    @property
    def names(self) -> NDArray[Any]:
        """What the data call each client, [K]; their numbers, where they have no names."""
        return np.arange(self.clients) if self.metadata.names is None else self.metadata.names

    @classmethod
    def from_clients(
        cls,
        train: Sequence[Arrays],
        test: Sequence[Arrays],
        *,
        judging: Sequence[Arrays] | None = None,
        unseen: int = 0,
        classes: int | None = None,
        input_scaling: InputScaling | None = None,
        names: Iterable[Any] | None = None,
    ) -> "Federation":
        """Build a federation from one (x, y) pair of arrays per client, and check it.

        Args:
            train: Training data of each client: x [n_k, ...], y [n_k, ...]. Sizes may differ. One
                integer per sample is a class; other labels may have any shape.
            test: Test data of each client, in the same order: for reported figures alone.
            judging: Data that each client judges models by and does not train on, in the same
                order. By default they are held out from its training data when a run begins, see
                ``maxfl.solo``.
            unseen: How many of the last clients do not participate in training.
            classes: Number of classes; by default the largest label plus one.
            input_scaling: From stored features to the model's input. By default uint8 features are
                divided by 255 and others are taken as they are.
            names: What you call each client, for messages and tables; by default 0, 1, ...
        """
        given = {"train": train, "test": test} | ({} if judging is None else {"judging": judging})
        parts = {name: _listed(clients, name) for name, clients in given.items()}
        count = len(parts["train"])
        for name, clients in parts.items():
            if len(clients) != count:
                raise InputError(
                    f"train has {count} clients and {name} has {len(clients)}: give each client "
                    f"both"
                )
        if count == 0:
            raise InputError("a federation needs at least one client")
        check_count("unseen", unseen, least=0)
        if unseen >= count:
            raise InputError(
                f"unseen = {unseen} of {count} clients: at least one client must be seen"
            )
        called = None if names is None else _names(names, count)
        where = [
            f"{name} data of client {k if called is None else called[k]}"
            for name in parts
            for k in range(count)
        ]
        pairs = list(map(checked_client, chain(*parts.values()), where))
        check_all_alike(pairs, where)
        classes = count_classes([y for _, y in pairs], where, classes)
        samples = {
            name: _flatten(pairs[i * count : (i + 1) * count], name) for i, name in enumerate(parts)
        }
        return cls(
            samples["train"],
            samples["test"],
            judging=samples.get("judging"),
            seen=count - unseen,
            classes=classes,
            input_scaling=input_scaling or default_input_scaling(pairs[0][0].dtype),
            metadata=Metadata(names=called),
        )

    @classmethod
    def from_arrays(
        cls,
        x: ArrayLike,
        y: ArrayLike,
        client: "ArrayLike | Split",
        *,
        is_test: ArrayLike | None = None,
        part: ArrayLike | None = None,
        unseen: int = 0,
        train_fraction: float = 0.6,
        min_samples: int = 2,
        input_scaling: InputScaling | None = None,
        seed: int = 0,
    ) -> "Federation":
        """Build a federation from all samples, and who has which of them.

        Args:
            x: Features, [n, ...].
            y: Labels, [n, ...]. One integer per sample is a class; other labels may have any shape.
            client: Whose each sample is, numbers or text, [n]; or a split of ``maxfl.partition``.
            is_test: Whether each sample is for testing, bool[n]; by default each client's samples
                are split at random. It is kept for clients of a split too, each of which then needs
                samples on both sides.
            part: In its place, what each sample is for: "train", "judging" (its client judges
                models by it, and does not train on it) or "test", [n].
            unseen: How many clients do not participate in training: drawn at random, or the last
                ones of a split.
            train_fraction: Fraction of a client's samples that is for training.
            min_samples: Clients with fewer samples are left out; not of a split.
            input_scaling: From stored features to the model's input; see ``from_clients``.
            seed: Of all that is drawn.
        """
        from maxfl.data.arrays import federation_from_arrays

        return federation_from_arrays(
            x, y, client, is_test, part, input_scaling, unseen=unseen, min_samples=min_samples,
            train_fraction=train_fraction, seed=seed,
        )  # fmt: skip

    @classmethod
    def from_dataframe(
        cls,
        frame: Any,
        *,
        client: "str | Split",
        label: str | Sequence[str],
        features: Sequence[str] | None = None,
        drop: Sequence[str] = (),
        split: str | None = None,
        task: Literal["classification", "regression"] | None = None,
        encode: Literal["one-hot", "ordinal"] | None = None,
        missing: Literal["drop-rows", "mean", "zero"] | None = None,
        standardize: bool = True,
        unseen: int = 0,
        train_fraction: float = 0.6,
        min_samples: int = 2,
        seed: int = 0,
    ) -> "Federation":
        """Build a federation from a table whose columns say whose each row is, and its label.

        The same table as a file, with the same settings in TOML, gives the same federation.

        Args:
            frame: Of pandas, polars, Arrow or Hugging Face.
            client: The column that says whose each row is; or a split of ``maxfl.partition``.
            label: The column to be predicted: text, whole numbers, or yes and no are classes,
                floats are numbers; or several columns of numbers.
            features: Columns of the model's input, in this order; by default all others.
            drop: Columns that are not read.
            split: The column that says train or test or, of rows that clients judge by, judging;
                by default rows are split at random.
            task: Whether labels are classes or numbers, where their type does not tell.
            encode: How text and categories become numbers: a 0 or 1 for each value, or its number
                in sorted order; the values are those of all rows, test rows and unseen clients
                included. By default they are refused.
            missing: What becomes of rows with missing values: they are left out, or features are
                filled with their mean over the training rows of seen clients, or with 0. By default
                they are refused.
            standardize: Whether the input scaling brings columns of numbers to mean 0 and standard
                deviation 1 of the training rows of seen clients. Yes and no, one-hot codes and
                lists stay as they are.
            unseen: How many clients do not participate in training: drawn at random, or the last
                ones of a split.
            train_fraction: Fraction of a client's rows that is for training.
            min_samples: Clients with fewer rows are left out; not of a split.
            seed: Of all that is drawn.
        """
        from maxfl.data.tables.frames import federation_from_frame
        from maxfl.data.tables.roles import TableOptions

        options = TableOptions(
            label if isinstance(label, str) else _columns("label", label),
            None,
            None if features is None else _columns("features", features),
            _columns("drop", drop),
            split, task, encode, missing, standardize,
        )  # fmt: skip
        return federation_from_frame(
            frame, client, options, unseen=unseen, min_samples=min_samples,
            train_fraction=train_fraction, seed=seed,
        )  # fmt: skip

    def __repr__(self) -> str:
        """Return a line that says whose data these are, without a look at the samples."""
        return one_line("Federation", lambda: f"{self.metadata.title}: {', '.join(self._words())}")

    def _repr_html_(self) -> str:
        """Return a small table for notebooks."""
        return html_table("Federation", self._rows)

    def _words(self) -> list[str]:
        seen = "" if self.seen == self.clients else f", {self.seen:,} seen"
        words = f"{counted(self.clients, 'client')}{seen}", self._sizes(), self._labels()
        return [*words[:2], f"x {array_type(self.train.x, 1)}", words[2]]

    def _sizes(self) -> str:
        train, test = (span(sizes, "{:,}".format) for sizes in (self.train_sizes, self.test_sizes))
        if self.judging is None:
            return f"{train} train and {test} test samples each"
        judging = span(self.judging_sizes, "{:,}".format)
        return f"{train} train, {judging} judging and {test} test samples each"

    def _labels(self) -> str:
        if self.classes is None:
            return f"y {array_type(self.train.y, 1)}"
        return f"{self.classes:,} classes"

    def _rows(self) -> Rows:
        metadata = self.metadata
        yield "data", metadata.title
        unseen = self.clients - self.seen
        yield "clients", f"{self.clients:,}: {self.seen:,} seen, {unseen:,} unseen"
        yield "samples", self._sizes()
        yield "features", array_type(self.train.x, 1)
        yield "labels", self._labels()
        for note in metadata.notes:
            yield "split", note

    def digest(self) -> str:
        """Return SHA-256 of everything in the federation, to tell one from another."""
        if self.known_digest is not None:
            return self.known_digest
        sha = hashlib.sha256()
        names = () if self.metadata.names is None else (self.metadata.names,)
        classes = -1 if self.classes is None else self.classes
        judging = () if self.judging is None else self.judging
        parts = (*self.train, *self.test, self.seen, classes, *self.input_scaling, *names, *judging)
        for part in parts:
            array = np.ascontiguousarray(part)
            sha.update(f"{array.dtype}{array.shape}".encode())
            sha.update(array.view(np.uint8).data)
        return sha.hexdigest()

    def digest_as_given(self) -> str:
        """Return the digest of the data as they were given, the same whatever clients judge by."""
        return self.given_digest or self.digest()


def default_input_scaling(dtype: np.dtype[Any]) -> InputScaling:
    """Divide bytes by 255; take other features as they are."""
    return InputScaling(scale=np.float32(1 / 255)) if dtype == np.uint8 else InputScaling()


def _columns(name: str, columns: Any) -> tuple[str, ...]:
    """Return names of columns, or say that they are none."""
    given = [] if isinstance(columns, str) or not isinstance(columns, Iterable) else [*columns]
    if (columns and not given) or not all(isinstance(column, str) for column in given):
        raise InputError(f"{name} = {shorten(columns)}: expected a list of names of columns")
    return tuple(given)


def _listed(clients: Any, split: str) -> list[Arrays]:
    try:
        return list(clients)
    except TypeError:
        raise InputError(
            f"{split} = {clients!r}: expected a list with one pair (x, y) per client"
        ) from None


def _names(names: Any, clients: int) -> NDArray[np.str_]:
    """Return one name for each client, as text."""
    listed = [] if isinstance(names, str) or not isinstance(names, Iterable) else list(names)
    called = [str(name) for name in listed]
    if len(set(called)) != clients or len(called) != clients:
        raise InputError(
            f"names holds {len(set(called))} different names for {clients} clients: give a list "
            f"with a name of its own for each"
        )
    return np.array(called)


def _flatten(clients: Sequence[tuple[NDArray[Any], NDArray[Any]]], where: str) -> Samples:
    offsets = client_offsets([len(y) for _, y in clients], where)  # before anything is copied
    x, y = zip(*clients, strict=True)
    return Samples(np.concatenate(x), np.concatenate(y), offsets)
