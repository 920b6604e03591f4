"""Ways to split samples over clients: each pure and seeded, and each ends.

A partition is a list with one array of sample numbers per client; no sample is used twice.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxfl.errors import InputError, check_number

Parts = list[NDArray[np.int64]]


def dirichlet(
    y: NDArray[np.int32], clients: int, samples: int, alpha: float, rng: np.random.Generator
) -> Parts:
    """Each client draws its label mix from Dirichlet(α) and gets ``samples`` samples of that mix.

    Hsu, Qi, Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
    Classification", 2019. When a label runs out, what is missing is drawn from the labels that
    are left, in the client's own proportions; if it wants none of those, in proportion to what is
    left of them. So later clients of a nearly used-up data set are less skewed than α says.
    """
    check_number("data.alpha", alpha, above=0)
    _check_enough(len(y), clients, samples)
    stock = _by_label(y, rng)
    mixes = rng.dirichlet(np.full(len(stock), alpha), size=clients)
    return _deal(stock, mixes, samples, rng)


def clusters(
    y: NDArray[np.int32], clients: int, samples: int, count: int, rng: np.random.Generator
) -> Parts:
    """Labels form ``count`` clusters without overlap, and each client has the labels of one.

    Clusters take consecutive labels in equal numbers; clients are spread over them evenly and at
    random. Within a cluster clients are alike (paper, section "Experiment Details").
    """
    check_number("data.clusters", count, least=1, whole=True)
    _check_enough(len(y), clients, samples)
    stock = _by_label(y, rng)
    if len(stock) % count:
        raise InputError(f"data.clusters = {count} does not divide the {len(stock)} labels evenly")
    member = rng.permutation(np.arange(clients) % count)
    cluster_of_label = np.arange(len(stock)) // (len(stock) // count)
    for cluster, size in enumerate(np.bincount(member, minlength=count)):
        labels = np.flatnonzero(cluster_of_label == cluster)
        available = sum(len(stock[label]) for label in labels)
        if size * samples > available:
            raise InputError(
                f"{size} clients of cluster {cluster} with {samples} samples each need "
                f"{size * samples} samples of labels {labels[0]} to {labels[-1]}, but there are "
                f"{available}: lower data.samples or the number of clients"
            )
    mixes = (cluster_of_label == member[:, None]) * (count / len(stock))
    return _deal(stock, mixes, samples, rng)


def iid(y: NDArray[np.int32], clients: int, samples: int, rng: np.random.Generator) -> Parts:
    """Every client gets ``samples`` samples at random."""
    _check_enough(len(y), clients, samples)
    return list(rng.permutation(len(y))[: clients * samples].reshape(clients, samples))


def by_owner(
    owner: NDArray[Any], unseen: int, rng: np.random.Generator
) -> tuple[Parts, NDArray[Any]]:
    """Every owner is a client with all of its samples; the parts, and whose they are.

    Owners keep the order in which they first appear, but for the ``unseen`` ones, drawn at
    random, who come last.
    """
    names, first, number = np.unique(owner, return_index=True, return_inverse=True)
    check_number("data.unseen", unseen, least=0, below=len(names), whole=True)
    parts = np.split(np.argsort(number, kind="stable"), np.cumsum(np.bincount(number))[:-1])
    is_unseen = rng.permutation(len(names)) < unseen
    order = np.lexsort((first, is_unseen))
    return [parts[i] for i in order], names[order]


def _check_enough(total: int, clients: int, samples: int) -> None:
    check_number("data.clients", clients, least=1, whole=True)
    check_number("data.samples", samples, least=2, whole=True)
    if clients * samples > total:
        raise InputError(
            f"{clients} clients (seen and unseen) with {samples} samples each need "
            f"{clients * samples} samples, but the data set has {total}: lower data.clients, "
            f"data.unseen or data.samples"
        )


def _by_label(y: NDArray[np.int32], rng: np.random.Generator) -> Parts:
    """Sample numbers of each label, shuffled."""
    return [rng.permutation(np.flatnonzero(y == label)) for label in range(int(y.max()) + 1)]


def _deal(
    stock: Parts, mixes: NDArray[np.float64], samples: int, rng: np.random.Generator
) -> Parts:
    """Deal each client ``samples`` samples of its mix of labels, float[clients, labels]."""
    used = np.zeros(len(stock), np.int64)
    sizes = np.array([len(rows) for rows in stock])
    parts = []
    for i in rng.permutation(len(mixes)):
        counts = _draw_counts(mixes[i], samples, sizes - used, rng)
        rows = [r[u : u + c] for r, u, c in zip(stock, used, counts, strict=True)]
        parts.append((i, np.concatenate(rows)))
        used += counts
    return [rows for _, rows in sorted(parts, key=lambda part: part[0])]


def _draw_counts(
    mix: NDArray[np.float64], samples: int, left: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """How many samples of each label a client gets: at most what is left, ``samples`` in all.

    Every pass either completes the client or uses up a label, so it ends.
    """
    counts = np.zeros(len(left), np.int64)
    while (missing := samples - counts.sum()) > 0:
        room = left - counts
        wanted = np.where(room > 0, mix, 0.0)
        if wanted.sum() <= 0:
            wanted = room.astype(np.float64)
        counts += np.minimum(rng.multinomial(missing, wanted / wanted.sum()), room)
    return counts
