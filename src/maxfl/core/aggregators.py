"""Aggregation that some Byzantine clients can't steer, composed with any method's weights.

A rule takes the updates u_k and the weights q_k, and gives a WeightedSum, so that a method's server
goes on as before: Σ q u becomes (Σ q) · robust mean of the u_k.

    clip_norm     u ← u · min(1, C/‖u‖), before all else; Sun et al., 2019
    median        per coordinate the median; Yin et al., ICML 2018
    trimmed-mean  per coordinate the mean without the share β at both ends; same
    krum          the update closest to its n − f − 2 nearest; Blanchard et al., NeurIPS 2017
    multi-krum    the mean of the ``num_selected`` closest ones; same
                  Both need n > 2f + 2 updates: from fewer, nothing is made.

In these each client with a weight has one vote. A weight is what a client claims: where honest gaps
are wide and their q small, one that claims q = ¼ would outweigh them all, and a median by weight
follow it. Nor do weights say who votes, but for q = 0: any threshold that follows them, a minority
could raise until it is the majority of those above. ``by_weight`` lets updates count by their q
instead, where clients are trusted.

All but clipping hold the whole cohort's updates in memory at once, and leave those out that are not
finite; clipping makes nothing of them. Lengths and distances are those of the model's part of an
update.
"""

from enum import StrEnum
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from numpy.typing import ArrayLike

from maxfl.core.algorithm import Pytree, WeightedSum, model_part, with_model_part
from maxfl.utils.errors import check_number

TIE = 1e-6
"""Share of all weight within which two sums of weights count as equal."""


class AggregationRule(StrEnum):
    """How updates are put together."""

    MEAN = "mean"
    MEDIAN = "median"
    TRIMMED_MEAN = "trimmed-mean"
    KRUM = "krum"


class AggregatorHParams(NamedTuple):
    """Hyper-parameters of the rules.

    Attributes:
        clip_norm: C, the largest norm of an update.
        trim_fraction: β, fraction of the votes, or of the weight, cut off at each end.
        num_byzantine: f, how many clients of a cohort may be Byzantine.
        num_selected: How many updates Krum selects.
        by_weight: Whether an update counts by its weight, and not by one vote.
    """

    clip_norm: Any = jnp.inf
    trim_fraction: Any = 0.0
    num_byzantine: Any = 0
    num_selected: Any = 1
    by_weight: Any = False


class Aggregator(NamedTuple):
    """The rule, whether updates are clipped, and the hyper-parameters."""

    rule: AggregationRule = AggregationRule.MEAN
    clips: bool = False
    hparams: AggregatorHParams = AggregatorHParams()


def mean(clip_norm: ArrayLike | None = None) -> Aggregator:
    """Take the plain weighted mean, of clipped updates if ``clip_norm`` is given."""
    return _aggregator(AggregationRule.MEAN, clip_norm)


def median(clip_norm: ArrayLike | None = None, *, by_weight: ArrayLike = False) -> Aggregator:
    """Take the median of each coordinate."""
    return _aggregator(AggregationRule.MEDIAN, clip_norm, by_weight=by_weight)


def trimmed_mean(
    trim_fraction: ArrayLike = 0.2,
    clip_norm: ArrayLike | None = None,
    *,
    by_weight: ArrayLike = False,
) -> Aggregator:
    """Take the mean of each coordinate without ``trim_fraction`` at both ends."""
    check_number("server.trim_fraction", trim_fraction, least=0, below=0.5)
    numbers = {"trim_fraction": trim_fraction, "by_weight": by_weight}
    return _aggregator(AggregationRule.TRIMMED_MEAN, clip_norm, **numbers)


def krum(
    num_byzantine: ArrayLike = 1,
    num_selected: ArrayLike = 1,
    clip_norm: ArrayLike | None = None,
    *,
    by_weight: ArrayLike = False,
) -> Aggregator:
    """Take the ``num_selected`` updates closest to the others; more than one is multi-Krum."""
    check_number("server.num_byzantine", num_byzantine, least=0, whole=True)
    check_number("server.num_selected", num_selected, least=1, whole=True)
    numbers = {
        "num_byzantine": num_byzantine, "num_selected": num_selected, "by_weight": by_weight,
    }  # fmt: skip
    return _aggregator(AggregationRule.KRUM, clip_norm, **numbers)


def _aggregator(
    rule: AggregationRule, clip_norm: ArrayLike | None, **numbers: ArrayLike
) -> Aggregator:
    if clip_norm is None:
        return Aggregator(rule, False, AggregatorHParams(**numbers))
    check_number("server.clip_norm", clip_norm, above=0)
    return Aggregator(rule, True, AggregatorHParams(clip_norm=clip_norm, **numbers))


def clip_update(update: Pytree, largest: Array) -> Pytree:
    """Shorten the model's part of an update if it is longer than ``largest``."""
    part = model_part(update)
    norm = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(part)))
    factor = jnp.minimum(1.0, largest / jnp.where(norm > 0, norm, 1.0))
    clipped = jax.tree.map(lambda u: jnp.where(jnp.isfinite(norm), u * factor, 0.0), part)
    return with_model_part(update, clipped)


def aggregate(
    rule: AggregationRule, hparams: AggregatorHParams, updates: Pytree, weights: Array
) -> WeightedSum:
    """Put a cohort's updates, leading axis m, with weights float[m], together by a rule.

    Where the rule can't decide, the sum has no weight, and the model is to stay as it was.
    """
    finite = jnp.all(jnp.stack([_finite(leaf) for leaf in jax.tree.leaves(updates)]), axis=0)
    q = jnp.where(finite, weights, 0.0)
    counted = jnp.where(hparams.by_weight, q, 1.0 * (q > 0))
    if rule is AggregationRule.KRUM:
        counted = jnp.where((counted > 0).sum() > krum_limit(hparams), counted, 0.0)
    present = counted > 0
    clean = jax.tree.map(lambda u: jnp.where(_like(present, u), u, 0.0), updates)
    total = jnp.where(present, q, 0.0).sum()
    if rule is AggregationRule.KRUM:
        selected = jnp.where(_closest(hparams, model_part(clean), present), counted, 0.0)
        share = selected / jnp.where(selected.sum() > 0, selected.sum(), 1.0)
        return WeightedSum(jax.tree.map(lambda u: total * jnp.tensordot(share, u, 1), clean), total)
    middle = _median if rule is AggregationRule.MEDIAN else _trimmed
    return WeightedSum(jax.tree.map(lambda u: total * middle(hparams, u, counted), clean), total)


def krum_limit(hparams: AggregatorHParams) -> Any:
    """Return 2f + 2: with no more updates than that, Byzantine ones can win."""
    return 2 * hparams.num_byzantine + 2


def _median(hparams: AggregatorHParams, values: Array, q: Array) -> Array:  # noqa: ARG001
    """Return the weighted median over the first axis; halfway where weights are even."""
    values, _, upto = _sorted(values, q)
    half, slack = q.sum() / 2, TIE * q.sum()
    lower = jnp.argmax(upto >= half - slack, axis=0, keepdims=True)
    upper = jnp.argmax(upto > half + slack, axis=0, keepdims=True)
    both = [jnp.take_along_axis(values, place, axis=0)[0] for place in (lower, upper)]
    return (both[0] + both[1]) / 2


def _trimmed(hparams: AggregatorHParams, values: Array, q: Array) -> Array:
    """Return the weighted mean over the first axis of what lies between the shares β and 1 − β."""
    values, weights, upto = _sorted(values, q)
    low, high = hparams.trim_fraction * q.sum(), (1 - hparams.trim_fraction) * q.sum()
    inner = jnp.maximum(jnp.minimum(upto, high) - jnp.maximum(upto - weights, low), 0.0)
    total = inner.sum(0)
    return (inner * values).sum(0) / jnp.where(total > 0, total, 1.0)


def _closest(hparams: AggregatorHParams, updates: Pytree, present: Array) -> Array:
    """Return which clients Krum selects, bool[m]."""
    rows = jnp.concatenate([u.reshape(len(present), -1) for u in jax.tree.leaves(updates)], axis=1)
    distances = jax.lax.map(lambda row: ((rows - row) ** 2).sum(1), rows)
    others = present & ~jnp.eye(len(present), dtype=bool)
    near = jnp.sort(jnp.where(others, distances, jnp.inf), axis=1)
    # Distances that overflow are infinite, and so is the score of whoever is that far away.
    counted = jnp.arange(len(present)) < present.sum() - hparams.num_byzantine - 2
    score = jnp.where(present, jnp.where(counted, near, 0.0).sum(1), jnp.inf)
    rank = jnp.argsort(jnp.argsort(score))
    return present & (rank < hparams.num_selected)


def _sorted(values: Array, q: Array) -> tuple[Array, Array, Array]:
    """Sort values over the first axis; also their weights, and the weight up to each."""
    order = jnp.argsort(values, axis=0)
    weights = q[order]
    return jnp.take_along_axis(values, order, axis=0), weights, jnp.cumsum(weights, axis=0)


def _finite(leaf: Array) -> Array:
    return jnp.isfinite(leaf).reshape(len(leaf), -1).all(1)


def _like(flags: Array, leaf: Array) -> Array:
    return flags.reshape(-1, *[1] * (leaf.ndim - 1))
