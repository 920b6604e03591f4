"""The judging part of a client's data: held out from training, so that the client judges fairly.

On its training data, a model that a client trained alone has seen every sample: it may have learnt
them by heart, and no other model beats it there, however much better it is on new ones. So a client
sets some of its training samples aside; what it requires, its weight, whether it is willing and
which model it uses come from these. Its test data are for reported figures alone.

    judging part   ⌊fraction · n_k⌋ of the n_k training samples of client k, drawn at random
    training part  the others

A client that is too small to hold out any judges by its training data.
"""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.core.checks.samples import client_offsets
from maxfl.core.federation import Federation, Samples
from maxfl.utils.display import named
from maxfl.utils.errors import InputError, check_choice, check_number

Judge = Literal["held-out", "training"]
JUDGES: dict[Judge, str] = {
    "held-out": "samples that it holds out from training",
    "training": "its training data, as in the paper",
}
"""What a client may judge a model by."""
FRACTION = 0.25
"""Of a client's training data, that it judges by."""


class Judging(NamedTuple):
    """What clients judge a model by.

    Attributes:
        data: One of ``JUDGES``.
        fraction: Of a client's training data, that it holds out to judge by.
    """

    data: Judge = "held-out"
    fraction: float = FRACTION

    @property
    def holds_out(self) -> bool:
        """Whether clients set samples aside."""
        return self.data == "held-out"

    def words(self) -> list[str]:
        """Write what differs from the defaults and has an effect, as arguments."""
        if not self.holds_out:
            return [f"judge={self.data!r}"]
        return [] if self.fraction == FRACTION else [f"judge_fraction={self.fraction!r}"]


class Parts(NamedTuple):
    """What clients train on, and what they judge by."""

    train: Samples
    judging: Samples


def judging(data: Judge = "held-out", fraction: float = FRACTION) -> Judging:
    """Return what clients judge a model by, checked."""
    check_choice("requirement.judge", data, JUDGES)
    check_number("requirement.judge_fraction", fraction, above=0, below=1)
    if np.ndim(fraction):
        raise InputError(f"requirement.judge_fraction = {fraction!r:.60}: expected one number")
    return Judging(data, fraction)


def with_judging(
    federation: Federation, chosen: Judging, client_ids: NDArray[np.int64] | None = None
) -> Federation:
    """Return the federation with the judging part that was chosen.

    A federation that has judging data keeps those; with ``"training"`` nobody looks at them.
    ``client_ids``, int[K], are its clients' among all, where these are more.
    """
    if not chosen.holds_out:
        if federation.judging is None:
            return federation
        given = federation.digest()  # of all its parts, also where it was read from disk
        return federation._replace(judging=None, known_digest=None, given_digest=given)
    if federation.judging is not None:
        return federation
    metadata = federation.metadata
    train, held = hold_out(federation.train, chosen.fraction, client_ids, metadata.overlap)
    small = judges_by_training(federation, chosen)
    if small.any():
        notes = (*metadata.notes, small_words(federation, small))
        metadata = metadata._replace(notes=notes, judges_by_training=small)
    return federation._replace(
        train=train, judging=held, metadata=metadata, known_digest=None,
        given_digest=federation.digest(),
    )  # fmt: skip


def judges_by_training(federation: Federation, chosen: Judging) -> NDArray[np.bool_]:
    """Return which clients have too few samples to hold any out, bool[K].

    Nobody, where samples are not to be held out, or the data have a judging part of their own.
    """
    known = federation.metadata.judges_by_training
    if known is not None:
        return known
    if not chosen.holds_out or federation.judging is not None:
        return np.zeros(federation.clients, bool)
    return _held_counts(federation.train_sizes, chosen.fraction, federation.metadata.overlap) == 0


def small_words(federation: Federation, small: NDArray[np.bool_]) -> str:
    """Count and name clients that judge by their training data, ``small`` bool[K]."""
    names = federation.names[small]
    return (
        f"{len(names)} of {federation.clients} clients have too few samples to hold any out "
        f"({named(names)}): they judge by their training data"
    )


def hold_out(
    train: Samples,
    fraction: float,
    client_ids: NDArray[np.int64] | None = None,
    overlap: int = 0,
) -> Parts:
    """Split training samples of some clients into what they train on and what they judge by.

    Which samples those are depends on the client's id and their place among its samples alone, so
    that whoever reads it, with whatever others, finds the same.

    Args:
        train: Their samples, in order; rows behind the last client's are left out.
        fraction: That each holds out.
        client_ids: Their ids, int[n]; by default 0 to n − 1.
        overlap: How many samples after another one share something with it. Then a client holds
            out its last samples, and those between the parts are left out.
    """
    offsets = np.asarray(train.offsets)
    sizes = np.diff(offsets)
    ids = np.arange(len(sizes)) if client_ids is None else np.asarray(client_ids)
    place = np.arange(offsets[-1]) - np.repeat(offsets[:-1], sizes)
    rank = place if overlap else _random_ranks(ids, sizes, place)
    counts = _held_counts(sizes, fraction, overlap)
    from_end = np.repeat(sizes, sizes) - 1 - rank
    is_held = from_end < np.repeat(counts, sizes)
    kept_apart = from_end < np.repeat(np.where(counts > 0, counts + overlap, 0), sizes)
    holds_none = np.repeat(counts == 0, sizes)
    return Parts(_take(train, ~kept_apart), _take(train, is_held | holds_none))


def _held_counts(sizes: NDArray[np.int64], fraction: float, overlap: int) -> NDArray[np.int64]:
    """Return how many samples clients of these sizes hold out; at least one stays for training."""
    free = np.maximum(sizes - overlap, 0)
    # A product such as 0.2 · 15 may come out just below the whole number that it is.
    most = np.floor(fraction * free + 1e-9).astype(np.int64)
    return np.minimum(most, np.maximum(free - 1, 0))


def _random_ranks(
    ids: NDArray[np.int64], sizes: NDArray[np.int64], place: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return each sample's rank among its client's in a random order, int[total]."""
    draws = _hash(
        (np.repeat(ids, sizes).astype(np.uint64) << np.uint64(32)) + place.view(np.uint64)
    )
    order = np.lexsort((draws, np.repeat(np.arange(len(sizes)), sizes)))
    ranks = np.empty_like(place)
    ranks[order] = place  # clients stay where they are, and so do the places of each
    return ranks


def _hash(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return numbers that look random, different for different ones.

    SplitMix64 of Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
    """
    z = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _take(samples: Samples, chosen: NDArray[np.bool_]) -> Samples:
    """Copy the chosen rows, in their order."""
    owner = np.repeat(np.arange(len(samples.offsets) - 1), np.diff(samples.offsets))
    sizes = np.bincount(owner[chosen], minlength=len(samples.offsets) - 1)
    rows = np.flatnonzero(chosen)
    offsets = client_offsets(sizes, "what clients train on and judge by")
    return Samples(samples.x[rows], samples.y[rows], offsets)
