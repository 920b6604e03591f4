"""What a round adds up to: the two sums that MaxFL's step needs, and how clients answered."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from maxfl.core.aggregators import Robust, Rule, clip_norm, combine
from maxfl.core.algorithm import Total
from maxfl.flower.replies import Accepted, Arrays, Sorted


class Counts(NamedTuple):
    """How clients answered in a round.

    Attributes:
        asked: Messages that were sent.
        took_part: Replies that counted.
        satisfied: Of those, clients whose requirement the model met.
        declined: Clients that stayed away because it did not.
        failed: Errors, and clients that did not answer in time.
        rejected: Replies that were no good.
    """

    asked: int
    took_part: int
    satisfied: int
    declined: int
    failed: int
    rejected: int

    @property
    def told(self) -> int:
        """Clients that said whether they are satisfied."""
        return self.took_part + self.declined

    @property
    def gm_appeal(self) -> float:
        """Share of satisfied clients among those that said whether they are; NaN without any."""
        return self.satisfied / self.told if self.told else math.nan


class Tally(NamedTuple):
    """Sums over the clients of a round: all that the server needs to know of them.

    Attributes:
        weighted: Σ q_k Δ_k, by name.
        weight: Σ q_k.
        satisfied: Clients whose requirement the model met.
        declined: Clients that stayed away because it did not.
        told: Clients that are in these sums.
    """

    weighted: Arrays
    weight: float
    satisfied: float
    declined: float
    told: float


def count(asked: int, found: Sorted, replies: int) -> Counts:
    """How clients answered, as seen from their replies."""
    silent = max(0, asked - replies)
    return Counts(
        asked,
        len(found.accepted),
        sum(own.satisfied for own in found.accepted),
        len(found.declined),
        len(found.failed) + silent,
        len(found.rejected),
    )


def estimated(asked: int, sums: Tally) -> Counts:
    """Counts where only (noisy) sums are known: whole, and no more than can be."""
    told = round(min(max(sums.told, 0.0), asked))
    declined = round(min(max(sums.declined, 0.0), told))
    satisfied = round(min(max(sums.satisfied, 0.0), told - declined))
    return Counts(asked, told - declined, satisfied, declined, asked - told, 0)


def add_up(
    accepted: list[Accepted], counts: Counts, like: Arrays, robust: Robust, *, by_examples: bool
) -> Tally:
    """Σ q_k Δ_k and Σ q_k, of clipped updates, by the robust rule; or n_k in place of q_k."""
    if not accepted:
        nothing: Arrays = {name: np.zeros(array.shape) for name, array in like.items()}
        return Tally(nothing, 0.0, 0.0, counts.declined, counts.told)
    weights = np.array(
        [own.examples if by_examples else own.weight for own in accepted], np.float32
    )
    total = _total([own.update for own in accepted], weights, robust)
    weighted = {name: np.asarray(array) for name, array in total.update.items()}
    return Tally(weighted, float(total.weight), counts.satisfied, counts.declined, counts.told)


def _total(updates: list[Arrays], weights: NDArray[np.float32], robust: Robust) -> Total:
    limits, rule = robust.limits, robust.rule
    if robust.clips:
        updates = [clip_norm(update, limits.clip) for update in updates]
    if rule is not Rule.MEAN:
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *updates)
        return combine(rule, limits, stacked, jnp.asarray(weights))
    weighted = [jax.tree.map(lambda u, q=q: q * u, update)
                for q, update in zip(weights, updates, strict=True)]  # fmt: skip
    return Total(jax.tree.map(lambda *leaves: sum(leaves), *weighted), weights.sum())
