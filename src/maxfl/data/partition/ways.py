"""Ways to split samples over clients: by label, at random, or as the data say."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxfl.data.partition.split import Labels, Parts, Seed, Split, as_generator
from maxfl.utils.errors import InputError, check_number


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
    y, rng = _classes(y, classes), as_generator(rng)
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
    y, rng = _classes(y, classes), as_generator(rng)
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
    y, rng = _classes(y, classes), as_generator(rng)
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
    y, rng = _classes(y), as_generator(rng)
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
    y, rng = np.asarray(y), as_generator(rng)
    _check_enough(len(y), clients, samples)
    return Split(list(rng.permutation(len(y))[: clients * samples].reshape(clients, samples)))


def by_owner(owner: ArrayLike, unseen: int = 0, min_samples: int = 2, rng: Seed = 0) -> Split:
    """Make every owner of at least ``min_samples`` samples a client with all of them.

    Owners, numbers or text, keep the order in which they first appear, but for the ``unseen`` ones,
    drawn at random, which come last.
    """
    owner, rng = _one_each(owner, "owner"), as_generator(rng)
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
    client, are = ("client", "is") if left_out == 1 else ("clients", "are")
    notes = (f"{left_out} {client} with fewer than {min_samples} samples {are} left out",)
    return Split([parts[i] for i in order], names[order], notes if left_out else ())


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
