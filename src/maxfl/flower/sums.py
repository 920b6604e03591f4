"""What a round adds up to: how clients answered, the two sums of MaxFL, and the step along them."""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from maxfl.core.aggregators import AggregationRule, Aggregator, aggregate, clip_update
from maxfl.core.algorithm import WeightedSum, average
from maxfl.flower.replies import AcceptedReply, Arrays, SortedReplies


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


def sum_updates(
    accepted: list[AcceptedReply],
    counts: Counts,
    model: Arrays,
    aggregator: Aggregator,
    *,
    by_examples: bool,
) -> RoundSums:
    """Add up Σ q_k Δ_k and Σ q_k by an aggregator; n_k takes the place of q_k ``by_examples``."""
    if not accepted:
        zeros: Arrays = {name: np.zeros(array.shape) for name, array in model.items()}
        return RoundSums(zeros, 0.0, 0.0, counts.declined, counts.responded)
    weights = np.array(
        [reply.examples if by_examples else reply.weight for reply in accepted], np.float32
    )
    total = _weighted_sum([reply.update for reply in accepted], weights, aggregator)
    update = {name: np.asarray(array) for name, array in total.update.items()}
    return RoundSums(
        update, float(total.weight), counts.satisfied, counts.declined, counts.responded
    )


def _weighted_sum(
    updates: list[Arrays], weights: NDArray[np.float32], aggregator: Aggregator
) -> WeightedSum:
    hparams, rule = aggregator.hparams, aggregator.rule
    if aggregator.clips:
        updates = [clip_update(update, hparams.clip_norm) for update in updates]
    if rule is not AggregationRule.MEAN:
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *updates)
        return aggregate(rule, hparams, stacked, jnp.asarray(weights))
    weighted = [jax.tree.map(lambda u, q=q: q * u, update)
                for q, update in zip(weights, updates, strict=True)]  # fmt: skip
    return WeightedSum(jax.tree.map(lambda *leaves: sum(leaves), *weighted), weights.sum())


def take_step(
    epsilon: float, rate_of: Callable[[str], float], model: Arrays, sums: RoundSums
) -> Arrays:
    """Compute w − η_g · Σ q_k Δ_k / (Σ q_k + ε), as the simulation does; it may not be finite.

    ``rate_of`` gives η_g of an array by its name.
    """
    direction = average(WeightedSum(sums.update, jnp.float32(sums.weight)), epsilon)
    with np.errstate(over="ignore", invalid="ignore"):
        return {
            name: np.asarray(w - rate_of(name) * np.asarray(direction[name]), w.dtype)
            for name, w in model.items()
        }
