"""Ways to split samples over clients, and each client's into training and test data.

Each is pure and seeded, and each ends. A split is a list with one array of sample numbers per
client; no sample is used twice. Labels are classes, as numbers or text, one for each sample: an
array or whatever makes one. The classes are the values that occur, in sorted order, whatever their
numbers; with ``classes`` given they are the numbers below it, whether each occurs or not, as runs
of a configuration have them: a class without samples takes part in what is drawn. ``rng`` is a seed
or a NumPy generator.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxfl.utils.display import counted, one_line, span
from maxfl.utils.errors import InputError, check_number, shorten

Rows = NDArray[np.int64]
Parts = list[Rows]
Labels = NDArray[np.int64]
Seed = int | np.random.Generator
PARTITION_STREAM = 0xDA7A
"""Keeps the partition's random numbers apart from everything else drawn with the same seed."""


class Split(NamedTuple):
    """Samples split over clients.

    Attributes:
        parts: Sample numbers of each client.
        names: What the data call each client, where they do.
        notes: What people should know about how it came out.
    """

    parts: Parts
    names: NDArray[Any] | None = None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Return a line that says how many clients there are, and how large."""
        return one_line("Split", lambda: "; ".join((self._sizes(), *self.notes)))

    def _sizes(self) -> str:
        sizes = span([len(part) for part in self.parts], "{:,}".format)
        return f"{counted(len(self.parts), 'client')}, {sizes} samples each"


class TrainTest(NamedTuple):
    """Sample numbers of each client's training data, and of its held-out data."""

    train: Parts
    test: Parts


def dirichlet(
    y: ArrayLike,
    clients: int,
    samples: int,
    alpha: float,
    rng: Seed = 0,
    *,
    classes: int | None = None,
) -> Split:
    """Draw each client's label mix from Dirichlet(α), and ``samples`` samples of that mix.

    Hsu, Qi, Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
    Classification", 2019. When a label runs out, what is missing is drawn from the labels that
    are left, in the client's proportions; if it draws none of those, in proportion to what is
    left of them. So later clients of a nearly used-up data set are less skewed than α says.
    """
    y, rng = _classes(y, classes), _generator(rng)
    check_number("alpha", alpha, above=0)
    _check_enough(len(y), clients, samples)
    stock = _by_label(y, rng)
    mixes = rng.dirichlet(np.full(len(stock), alpha), size=clients)
    return _deal(stock, mixes, samples, rng)


def dirichlet_unequal(
    y: ArrayLike,
    clients: int,
    alpha: float,
    min_samples: int = 2,
    rng: Seed = 0,
    *,
    classes: int | None = None,
) -> Split:
    """Give each label's samples to the clients in shares from Dirichlet(α), of unequal sizes.

    Yurochkin et al., "Bayesian Nonparametric Federated Learning of Neural Networks", 2019. All
    samples are used. Others draw again until every client has enough, which need not end; here
    clients below ``min_samples`` take what they lack, at random, from those that have more to
    spare.
    """
    y, rng = _classes(y, classes), _generator(rng)
    check_number("alpha", alpha, above=0)
    _check_enough(len(y), clients, min_samples, setting="min_samples")
    owner = np.empty(len(y), np.int64)
    for rows in _by_label(y, rng):
        shares = rng.dirichlet(np.full(clients, alpha))
        owner[rows] = np.repeat(np.arange(clients), rng.multinomial(len(rows), shares))
    moved = _even_out(owner, clients, min_samples, rng)
    notes = (f"{moved} samples were moved to clients below {min_samples}",) if moved else ()
    return Split(_grouped(owner, clients), notes=notes)


def clusters(
    y: ArrayLike,
    clients: int,
    samples: int,
    count: int,
    rng: Seed = 0,
    *,
    classes: int | None = None,
) -> Split:
    """Form ``count`` clusters of labels without overlap; each client has the labels of one.

    Clusters take consecutive labels in equal numbers; clients are spread over them evenly and at
    random. Within a cluster clients are alike (paper, section "Experiment Details").
    """
    y, rng = _classes(y, classes), _generator(rng)
    check_number("count", count, least=1, whole=True)
    _check_enough(len(y), clients, samples)
    stock = _by_label(y, rng)
    if len(stock) % count:
        raise InputError(
            f"{count} clusters do not divide the {len(stock)} labels evenly: choose one of "
            f"{_divisors(len(stock))}"
        )
    member = rng.permutation(np.arange(clients) % count)
    cluster_of_label = np.arange(len(stock)) // (len(stock) // count)
    for cluster, size in enumerate(np.bincount(member, minlength=count)):
        labels = np.flatnonzero(cluster_of_label == cluster)
        available = sum(len(stock[label]) for label in labels)
        if size * samples > available:
            raise InputError(
                f"{size} clients of cluster {cluster} with {samples} samples each need "
                f"{size * samples} samples of labels {labels[0]} to {labels[-1]}, but there are "
                f"{available}: lower samples or the number of clients"
            )
    mixes = (cluster_of_label == member[:, None]) * (count / len(stock))
    return _deal(stock, mixes, samples, rng)


def shards(y: ArrayLike, clients: int, samples: int, count: int, rng: Seed = 0) -> Split:
    """Cut samples sorted by label into shards; each client gets ``count`` of them.

    McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data",
    2017, with ``samples`` samples per client.
    """
    y, rng = _classes(y), _generator(rng)
    check_number("count", count, least=1, whole=True)
    _check_enough(len(y), clients, samples)
    if samples % count:
        raise InputError(
            f"samples = {samples} can't be cut into {count} shards: choose one of "
            f"{_divisors(samples)}, or other samples"
        )
    chosen = rng.permutation(len(y))[: clients * samples]
    by_label = chosen[np.argsort(y[chosen], kind="stable")].reshape(clients * count, -1)
    dealt = by_label[rng.permutation(len(by_label))]
    return Split(list(dealt.reshape(clients, samples)))


def iid(y: ArrayLike, clients: int, samples: int, rng: Seed = 0) -> Split:
    """Give every client ``samples`` samples at random; labels may be anything, [n, ...]."""
    y, rng = np.asarray(y), _generator(rng)
    _check_enough(len(y), clients, samples)
    return Split(list(rng.permutation(len(y))[: clients * samples].reshape(clients, samples)))


def by_owner(owner: ArrayLike, unseen: int = 0, min_samples: int = 2, rng: Seed = 0) -> Split:
    """Make every owner of at least ``min_samples`` samples a client with all of them.

    Owners, numbers or text, keep the order in which they first appear, but for the ``unseen`` ones,
    drawn at random, which come last.
    """
    owner, rng = _one_each(owner, "owner"), _generator(rng)
    names, first, number = np.unique(owner, return_index=True, return_inverse=True)
    parts = _grouped(number, len(names))
    enough = np.flatnonzero(np.bincount(number) >= min_samples)
    if len(enough) == 0:
        raise InputError(
            f"none of {len(names)} clients has {min_samples} samples, the largest has "
            f"{np.bincount(number).max()}: lower min_samples, or name clients otherwise"
        )
    if unseen >= len(enough):
        raise InputError(
            f"unseen = {unseen}, but there are {len(enough)} clients with at least "
            f"{min_samples} samples: lower unseen or min_samples, at least one must be seen"
        )
    is_unseen = rng.permutation(len(enough)) < unseen
    order = enough[np.lexsort((first[enough], is_unseen))]
    left_out = len(names) - len(enough)
    notes = (f"{left_out} clients with fewer than {min_samples} samples are left out",)
    return Split([parts[i] for i in order], names[order], notes if left_out else ())


def train_test_split(
    split: Split | Sequence[ArrayLike],
    train_fraction: float = 0.6,
    rng: Seed = 0,
    *,
    is_test: ArrayLike | None = None,
    overlap: int = 0,
) -> TrainTest:
    """Split each client's samples into training and test data, at random.

    Args:
        split: Samples of each client.
        train_fraction: Fraction of a client's samples that is for training; at least one is on
            each side.
        rng: A seed, or a generator.
        is_test: Whether each sample of the data is for testing, where they say so, bool[n].
        overlap: How many samples after another one share something with it; those are split in
            their order, and what would be shared by both sides is left out.
    """
    parts, names = _parts(split), split.names if isinstance(split, Split) else None
    mask = None if is_test is None else _mask(is_test, parts)
    check_number("train_fraction", train_fraction, above=0, below=1)
    rng = _generator(rng)
    train: Parts = []
    test: Parts = []
    for k, part in enumerate(parts):
        client = f"client {k if names is None else names[k]}"
        rows = part if overlap else rng.permutation(part)
        if mask is None:
            sides = cut(rows, train_fraction, overlap, client)
        else:
            sides = _as_given(rows, mask, client)
        train.append(sides[0])
        test.append(sides[1])
    return TrainTest(train, test)


def _parts(split: Split | Sequence[ArrayLike]) -> Parts:
    """Return the sample numbers of each client, or say that these are none."""
    if isinstance(split, Split):
        return split.parts
    parts = [np.asarray(part) for part in split] if isinstance(split, Sequence) else []
    if not parts or any(part.ndim != 1 or part.dtype.kind not in "iu" for part in parts):
        raise InputError(
            f"split = {shorten(split)}: expected a split of maxfl.partition, or a list with the "
            f"sample numbers of each client"
        )
    return parts


def _mask(is_test: ArrayLike, parts: Parts) -> NDArray[np.bool_]:
    """Return which samples are for testing, or say that it does not tell of each."""
    mask = np.asarray(is_test)
    last = max((int(part.max()) for part in parts if part.size), default=-1)
    if mask.dtype != bool or mask.ndim != 1 or last >= len(mask):
        raise InputError(
            f"is_test is {mask.dtype}{list(mask.shape)}, but the split has sample {last}: expected "
            f"True or False for each sample of the data"
        )
    return mask


def cut(
    rows: Rows, fraction: float, overlap: int, client: str, kind: str = ""
) -> tuple[Rows, Rows]:
    """Return about a fraction of a client's rows, and the others: at least one on each side.

    Of samples that overlap, those between the two sides are left out.
    """
    needed, count = overlap + 2, len(rows)
    if count < needed:
        many = "two" if overlap == 0 else f"{needed}, of which {overlap} overlap with others,"
        raise InputError(
            f"{client} has {count} {kind}sample(s) where {many} are needed, to hold one out: "
            f"raise samples, or min_samples where clients differ in size"
        )
    size = min(max(round(fraction * (count - overlap)), 1), count - overlap - 1)
    return rows[:size], rows[size + overlap :]


def _as_given(rows: Rows, is_test: NDArray[np.bool_], client: str) -> tuple[Rows, Rows]:
    """Return rows as the data split them."""
    test = is_test[rows]
    if test.all() or not test.any():
        raise InputError(
            f"{client} has no {'training' if test.all() else 'test'} samples in the data's own "
            f"split: leave it out of the files, or split its samples otherwise"
        )
    return rows[~test], rows[test]


def check_rows(split: Split, samples: int, where: str) -> None:
    """Refuse a split of other samples than those that are there."""
    used = np.concatenate(split.parts) if split.parts else np.zeros(0, np.int64)
    if used.size == 0 or used.min() < 0 or used.max() >= samples:
        raise InputError(
            f"client is a split of other samples than the {samples} {where}: make it of their "
            f"labels"
        )


def generator(seed: int) -> np.random.Generator:
    """Return the source of all that is drawn when data are split over clients with a seed."""
    return np.random.default_rng([seed, PARTITION_STREAM])


def _check_enough(total: int, clients: int, samples: int, setting: str = "samples") -> None:
    check_number("clients", clients, least=1, whole=True)
    check_number(setting, samples, least=2, whole=True)
    if clients * samples > total:
        raise InputError(
            f"{clients} clients (seen and unseen) with {samples} samples each need "
            f"{clients * samples} samples, but the data set has {total}: lower clients, unseen "
            f"or {setting}"
        )


def _classes(y: ArrayLike, classes: int | None = None) -> Labels:
    """Return classes as numbers from 0; where it is known how many there are, as they are."""
    labels = _one_each(y, "label")
    if labels.dtype.kind == "f":
        raise InputError(
            "labels are floats, and only classes can be skewed: give whole numbers or text, or "
            "choose iid, which takes any labels"
        )
    if classes is None:
        return np.unique(labels, return_inverse=True)[1]
    if labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= classes:
        raise InputError(
            f"labels are {labels.dtype} from {labels.min()} to {labels.max()}, but classes = "
            f"{classes}: expected whole numbers from 0 below it, or leave classes out"
        )
    return labels


def _one_each(values: ArrayLike, what: str) -> NDArray[Any]:
    """Return one number or text for each sample."""
    array = np.asarray(values)
    if array.dtype.kind == "O" and all(isinstance(value, str) for value in array):  # of pandas
        array = array.astype(str)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "biufU":
        raise InputError(
            f"{what}s are {array.dtype}{list(array.shape)}: expected one number or text for each "
            f"sample, [n]"
        )
    return array


def _generator(rng: Seed) -> np.random.Generator:
    """Return a generator as it is, or that of a seed."""
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer) or rng < 0:
        raise InputError(
            f"rng = {shorten(rng)}: expected a seed, a whole number from 0, or a generator of "
            f"numpy.random.default_rng"
        )
    return np.random.default_rng(rng)


def _divisors(number: int) -> str:
    return ", ".join(str(n) for n in range(1, number + 1) if number % n == 0)


def _by_label(y: Labels, rng: np.random.Generator) -> Parts:
    """Return the sample numbers of each label, shuffled."""
    return [rng.permutation(rows) for rows in _grouped(y, int(y.max()) + 1)]


def _grouped(group: NDArray[Any], groups: int) -> Parts:
    """Return the sample numbers of each group, in their order."""
    ends = np.cumsum(np.bincount(group, minlength=groups))
    return np.split(np.argsort(group, kind="stable"), ends[:-1])


def _deal(
    stock: Parts, mixes: NDArray[np.float64], samples: int, rng: np.random.Generator
) -> Split:
    """Deal each client ``samples`` samples of its mix of labels, float[clients, labels]."""
    used = np.zeros(len(stock), np.int64)
    sizes = np.array([len(rows) for rows in stock])
    parts: Parts = [np.empty(0, np.int64)] * len(mixes)
    filled = 0.0
    for i in rng.permutation(len(mixes)):
        counts, other = _draw_counts(mixes[i], samples, sizes - used, rng)
        rows = [r[u : u + c] for r, u, c in zip(stock, used, counts, strict=True) if c]
        parts[i] = np.concatenate(rows)
        used += counts
        filled += other
    note = (
        f"about {filled:.0f} of {samples * len(mixes)} samples are of other labels than their "
        f"clients would have drawn, because those had run out"
    )
    return Split(parts, notes=(note,) if round(filled) else ())


def _draw_counts(
    mix: NDArray[np.float64], samples: int, left: NDArray[np.int64], rng: np.random.Generator
) -> tuple[NDArray[np.int64], float]:
    """Draw how many samples of each label a client gets, and about how many are of other labels.

    At most what is left, ``samples`` in all. Every pass either completes the client or uses up a
    label, so it ends.
    """
    counts = np.zeros(len(left), np.int64)
    filled = samples * float(mix[left == 0].sum())
    while (missing := samples - int(counts.sum())) > 0:
        if counts.any():
            filled = max(filled, missing)
        room = left - counts
        shares = np.where(room > 0, mix, 0.0)
        if shares.sum() <= 0:
            shares = room.astype(np.float64)
        counts += np.minimum(rng.multinomial(missing, shares / shares.sum()), room)
    return counts, filled


def _even_out(
    owner: NDArray[np.int64], clients: int, smallest: int, rng: np.random.Generator
) -> int:
    """Give clients below ``smallest`` what they lack, in place; return how many were moved."""
    sizes = np.bincount(owner, minlength=clients)
    lacking = np.maximum(smallest - sizes, 0)
    # A client spares what it has beyond the smallest size; which of it, chance decides.
    order = rng.permutation(len(owner))
    rank = np.empty(len(owner), np.int64)
    for rows in _grouped(owner[order], clients):
        rank[order[rows]] = np.arange(len(rows))
    spare = np.flatnonzero(rank >= smallest)
    moved = rng.permutation(spare)[: lacking.sum()]
    owner[moved] = np.repeat(np.arange(clients), lacking)
    return len(moved)
