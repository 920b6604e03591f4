"""What a round adds up to: how clients answered, and the two sums of MaxFL."""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from maxfl.core.aggregators import AggregationRule, Aggregator, aggregate, clip_update
from maxfl.core.algorithm import WeightedSum
from maxfl.flower.replies.arrays import (
    Arrays,
    is_trained,
    subtract_piece,
    sum_type,
    update_of,
)
from maxfl.flower.replies.pieces import in_threads, piece_of, places
from maxfl.flower.replies.sort import AcceptedReply, SortedReplies


class Counts(NamedTuple):
    """How clients answered in a round.

    Attributes:
        sampled: Messages that were sent.
        participated: Replies that counted.
        satisfied: Of those, clients whose requirement the model met.
        declined: Clients that stayed away because it did not.
        failed: Errors, and clients that did not answer in time.
        rejected: Replies that were no good.
    """

    sampled: int
    participated: int = 0
    satisfied: int = 0
    declined: int = 0
    failed: int = 0
    rejected: int = 0

    @property
    def responded(self) -> int:
        """Clients that said whether they are satisfied."""
        return self.participated + self.declined

    @property
    def gm_appeal(self) -> float:
        """Share of satisfied clients among those that said whether they are; NaN without any."""
        return self.satisfied / self.responded if self.responded else math.nan


class RoundSums(NamedTuple):
    """Sums over the clients of a round: all that the server needs to know of them.

    Attributes:
        update: Σ q_k Δ_k, by name.
        weight: Σ q_k.
        satisfied: Clients whose requirement the model met.
        declined: Clients that stayed away because it did not.
        responded: Clients that are in these sums.
        near: Participants whose loss was within s_t of their requirement; None where T is fixed,
            so that nobody is asked.
        gaps: Σ |F_k(w) − ρ_k| of the participants; None where nobody is asked, since T is fixed or
            s_t is known.
    """

    update: Arrays
    weight: float
    satisfied: float
    declined: float
    responded: float
    near: float | None = None
    gaps: float | None = None


class ModelSums(NamedTuple):
    """Sums over the clients of a round that trained one model of a portfolio.

    Attributes:
        update: Σ q_k Δ_k, by name.
        weight: Σ q_k.
        clients: How many these are.
        unmet: Those of them that are not satisfied.
        unmet_gaps: Σ F_k − ρ_k of those.
        steepness: Σ q_k h_k of q-FFL; None of other methods.
    """

    update: Arrays
    weight: float
    clients: float
    unmet: float = 0.0
    unmet_gaps: float = 0.0
    steepness: float | None = None


GAP_RATIO = 10.0
"""Honest gaps of one round are seldom further apart."""
SCALARS = len(RoundSums._fields) - 1
"""Numbers that a client adds to the sums beside its update: its weight, four bits and its gap."""


def count_replies(sampled: int, replies: SortedReplies, answered: int) -> Counts:
    """Count how clients answered; those that did not are failed too."""
    return Counts(
        sampled,
        participated=len(replies.accepted),
        satisfied=sum(reply.satisfied for reply in replies.accepted),
        declined=len(replies.declined),
        failed=len(replies.failed) + max(0, sampled - answered),
        rejected=len(replies.rejected),
    )


def estimate_counts(sampled: int, sums: RoundSums) -> Counts:
    """Estimate counts from sums, which may be noisy: whole numbers, and no more than can be."""
    responded = round(min(max(sums.responded, 0.0), sampled))
    declined = round(min(max(sums.declined, 0.0), responded))
    satisfied = round(min(max(sums.satisfied, 0.0), responded - declined))
    return Counts(
        sampled, responded - declined, satisfied, declined, failed=sampled - responded, rejected=0
    )


def estimate_near(near: float, participated: int) -> float:
    """Estimate how many participants were near their requirement, from a sum that may be noisy.

    It may come out below 0 or above all: cutting noise off at 0, near which the share is, would
    make it larger on average and s ever smaller. The bounds, a share of −1 and one of 2, keep one
    bad draw from throwing s far off.
    """
    return min(max(near, -participated), 2 * participated)


def sum_gaps(gaps: list[float]) -> float:
    """Add up gaps, each counted as ``GAP_RATIO`` times the lower median at most.

    s begins at their mean, and one client that claims a gap of 10¹⁸ would put it out of reach.
    """
    return float(cap_gaps(gaps).sum())


def cap_gaps(gaps: list[float]) -> NDArray[np.float64]:
    """Return gaps, each ``GAP_RATIO`` times the lower median of those above 0 at most."""
    positive = sorted(gap for gap in gaps if gap > 0)
    typical = positive[(len(positive) - 1) // 2] if positive else 0.0
    return np.minimum(np.array(gaps, np.float64), GAP_RATIO * typical)


def sum_updates(
    accepted: list[AcceptedReply],
    counts: Counts,
    model: Arrays,
    aggregator: Aggregator,
    *,
    by_examples: bool,
    exact: bool,
) -> RoundSums:
    """Add up Σ q_k Δ_k and Σ q_k by an aggregator; n_k takes the place of q_k ``by_examples``.

    ``exact`` sums are in double precision: what rounding adds to a client's term, noise must hide.
    """
    kind = np.float64 if exact else np.float32
    weights = np.array(
        [reply.examples if by_examples else reply.weight for reply in accepted], kind
    )
    if not accepted or aggregator.rule is AggregationRule.MEAN:
        factors = weights * np.array([_clipping(aggregator, reply) for reply in accepted], kind)
        update, weight = _stream(accepted, factors, model), float(weights.sum())
    else:
        update, weight = _put_together(accepted, weights, model, aggregator)
    return RoundSums(update, weight, counts.satisfied, counts.declined, counts.responded)


def _clipping(aggregator: Aggregator, reply: AcceptedReply) -> float:
    """Return min(1, C/‖Δ_k‖), by which an update is shortened."""
    if not aggregator.clips or reply.norm == 0:
        return 1.0
    return min(1.0, float(aggregator.hparams.clip_norm) / reply.norm)


def _stream(accepted: list[AcceptedReply], factors: NDArray[Any], model: Arrays) -> Arrays:
    """Add up Σ f_k (w − w_k), a piece of an array at a time, in the order of the replies."""
    total = {
        name: np.zeros(array.shape, np.result_type(sum_type(array), factors.dtype))
        for name, array in model.items()
        if is_trained(array)
    }
    for name, into in total.items():
        updates = [reply.arrays[name] for reply in accepted]
        in_threads(partial(_add, into, model[name], updates, factors), places(into.size))
    return total


def _add(
    total: NDArray[Any],
    before: NDArray[Any],
    updates: list[NDArray[Any]],
    factors: NDArray[Any],
    place: slice,
) -> None:
    """Add up a piece of Σ f_k (w − w_k); while it grows, it stays in a core's cache."""
    into, room = piece_of(total, place), np.empty(place.stop - place.start, total.dtype)
    with np.errstate(over="ignore", invalid="ignore"):  # a step that is not finite is not taken
        for after, factor in zip(updates, factors, strict=True):
            piece = subtract_piece(before, after, place, room)
            piece *= factor
            into += piece


def _put_together(
    accepted: list[AcceptedReply],
    weights: NDArray[Any],
    model: Arrays,
    aggregator: Aggregator,
) -> tuple[Arrays, float]:
    """Return the robust mean times Σ q_k, and Σ q_k; all updates are in memory at once."""
    hparams = aggregator.hparams
    updates = [update_of(model, reply.arrays) for reply in accepted]
    if aggregator.clips:
        updates = [clip_update(update, hparams.clip_norm) for update in updates]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *updates)
    total: WeightedSum = aggregate(aggregator.rule, hparams, stacked, jnp.asarray(weights))
    return {name: np.asarray(array) for name, array in total.update.items()}, float(total.weight)
