"""Aggregation that some lying clients can't steer, composed with any method's weights.

A rule takes the updates u_k and the weights q_k, and gives a Total, so that a method's server goes
on as before: Σ q u becomes (Σ q) · robust mean of the u_k, each counting by its q_k.

    clip          u ← u · min(1, C/‖u‖), before all else; Sun et al., 2019
    median        per coordinate the weighted median; Yin et al., ICML 2018
    trimmed-mean  per coordinate the weighted mean without the share β of weight at both ends; same
    krum          the update closest to its n − f − 2 nearest; Blanchard et al., NeurIPS 2017
    multi-krum    the weighted mean of the ``keep`` closest ones; same

All but clipping hold the whole cohort's updates in memory at once, and leave those out that are not
finite; clipping makes nothing of them. With equal weights the rules are the textbook's. Lengths and
distances are those of the model's part of an update.
"""

from enum import StrEnum
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from numpy.typing import ArrayLike

from maxfl.core.algorithm import Pytree, Total, model_part, with_model_part
from maxfl.utils.errors import check_number

TIE = 1e-6
"""Share of all weight within which two sums of weights count as equal."""


class Rule(StrEnum):
    """How updates are put together."""

    MEAN = "mean"
    MEDIAN = "median"
    TRIMMED_MEAN = "trimmed-mean"
    KRUM = "krum"


class Limits(NamedTuple):
    """Numbers of the rules.

    Attributes:
        clip: C, the largest norm of an update.
        trim: β, share of the weight cut off at each end.
        liars: f, how many clients of a cohort may lie.
        keep: How many updates Krum keeps.
    """

    clip: Any = jnp.inf
    trim: Any = 0.0
    liars: Any = 0
    keep: Any = 1


class Robust(NamedTuple):
    """The rule, whether updates are clipped, and the numbers."""

    rule: Rule = Rule.MEAN
    clips: bool = False
    limits: Limits = Limits()


def mean(clip: ArrayLike | None = None) -> Robust:
    """The plain weighted mean, of clipped updates if ``clip`` is given."""
    return _robust(Rule.MEAN, clip)


def median(clip: ArrayLike | None = None) -> Robust:
    """The weighted median of each coordinate."""
    return _robust(Rule.MEDIAN, clip)


def trimmed_mean(trim: ArrayLike = 0.2, clip: ArrayLike | None = None) -> Robust:
    """The weighted mean of each coordinate, without a share of the weight at both ends."""
    check_number("server.trim", trim, least=0, below=0.5)
    return _robust(Rule.TRIMMED_MEAN, clip, trim=trim)


def krum(liars: ArrayLike = 1, keep: ArrayLike = 1, clip: ArrayLike | None = None) -> Robust:
    """The ``keep`` updates that are closest to the others; more than one is multi-Krum."""
    check_number("server.liars", liars, least=0, whole=True)
    check_number("server.keep", keep, least=1, whole=True)
    return _robust(Rule.KRUM, clip, liars=liars, keep=keep)


def _robust(rule: Rule, clip: ArrayLike | None, **numbers: ArrayLike) -> Robust:
    if clip is None:
        return Robust(rule, False, Limits(**numbers))
    check_number("server.clip", clip, above=0)
    return Robust(rule, True, Limits(clip=clip, **numbers))


def clip_norm(update: Pytree, largest: Array) -> Pytree:
    """The update, its model's part made shorter if it is longer than ``largest``."""
    part = model_part(update)
    norm = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(part)))
    factor = jnp.minimum(1.0, largest / jnp.where(norm > 0, norm, 1.0))
    clipped = jax.tree.map(lambda u: jnp.where(jnp.isfinite(norm), u * factor, 0.0), part)
    return with_model_part(update, clipped)


def combine(rule: Rule, limits: Limits, updates: Pytree, weights: Array) -> Total:
    """Put a cohort's updates, leading axis m, with weights float[m], together by a rule."""
    finite = jnp.all(jnp.stack([_finite(leaf) for leaf in jax.tree.leaves(updates)]), axis=0)
    q = jnp.where(finite, weights, 0.0)
    clean = jax.tree.map(lambda u: jnp.where(_like(q > 0, u), u, 0.0), updates)
    if rule is Rule.KRUM:
        kept = jnp.where(_closest(limits, model_part(clean), q > 0), q, 0.0)
        share = kept / jnp.where(kept.sum() > 0, kept.sum(), 1.0)
        return Total(jax.tree.map(lambda u: q.sum() * jnp.tensordot(share, u, 1), clean), q.sum())
    middle = _median if rule is Rule.MEDIAN else _trimmed
    return Total(jax.tree.map(lambda u: q.sum() * middle(limits, u, q), clean), q.sum())


def _median(limits: Limits, values: Array, q: Array) -> Array:  # noqa: ARG001
    """Weighted median over the first axis; halfway between two where the weights are even."""
    values, _, upto = _sorted(values, q)
    half, slack = q.sum() / 2, TIE * q.sum()
    lower = jnp.argmax(upto >= half - slack, axis=0, keepdims=True)
    upper = jnp.argmax(upto > half + slack, axis=0, keepdims=True)
    both = [jnp.take_along_axis(values, place, axis=0)[0] for place in (lower, upper)]
    return (both[0] + both[1]) / 2


def _trimmed(limits: Limits, values: Array, q: Array) -> Array:
    """Weighted mean over the first axis of what lies between the shares β and 1 − β."""
    values, weights, upto = _sorted(values, q)
    low, high = limits.trim * q.sum(), (1 - limits.trim) * q.sum()
    kept = jnp.maximum(jnp.minimum(upto, high) - jnp.maximum(upto - weights, low), 0.0)
    total = kept.sum(0)
    return (kept * values).sum(0) / jnp.where(total > 0, total, 1.0)


def _closest(limits: Limits, updates: Pytree, present: Array) -> Array:
    """Which clients Krum keeps, bool[m]."""
    rows = jnp.concatenate([u.reshape(len(present), -1) for u in jax.tree.leaves(updates)], axis=1)
    distances = jax.lax.map(lambda row: ((rows - row) ** 2).sum(1), rows)
    others = present & ~jnp.eye(len(present), dtype=bool)
    near = jnp.sort(jnp.where(others, distances, jnp.inf), axis=1)
    count = jnp.maximum(present.sum() - limits.liars - 2, 1)
    counted = (jnp.arange(len(present)) < count) & jnp.isfinite(near)
    score = jnp.where(present, jnp.where(counted, near, 0.0).sum(1), jnp.inf)
    rank = jnp.argsort(jnp.argsort(score))
    return present & (rank < limits.keep)


def _sorted(values: Array, q: Array) -> tuple[Array, Array, Array]:
    """Values in order over the first axis, their weights, and the weight up to each."""
    order = jnp.argsort(values, axis=0)
    weights = q[order]
    return jnp.take_along_axis(values, order, axis=0), weights, jnp.cumsum(weights, axis=0)


def _finite(leaf: Array) -> Array:
    return jnp.isfinite(leaf).reshape(len(leaf), -1).all(1)


def _like(flags: Array, leaf: Array) -> Array:
    return flags.reshape(-1, *[1] * (leaf.ndim - 1))
