"""Who participates in a round: whom the server may sample, and who replies.

A client is willing if the model satisfies it, F_k(w) < ρ_k on its training data, or if fewer
than ``start_round`` rounds are done. Every round asks anew, so a client that left can come back.

    everyone   all are willing
    opt-out    the server samples among the willing only (paper, tables 1 and 2)
    decline    the server samples among all, and the unwilling decline

Beside that, any sampled client fails to reply with probability ``client_dropout``.
"""

from enum import StrEnum
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from numpy.typing import ArrayLike

from maxfl.core import appeal
from maxfl.utils.display import numbers, one_line
from maxfl.utils.errors import check_number


class ParticipationRule(StrEnum):
    """How unwilling clients stay away."""

    EVERYONE = "everyone"
    OPT_OUT = "opt-out"
    DECLINE = "decline"


class ParticipationHParams(NamedTuple):
    """Hyper-parameters of the participation rule.

    Attributes:
        start_round: Rounds before appeal decides.
        client_dropout: Probability that a sampled client fails to reply.
    """

    start_round: Any = 10
    client_dropout: Any = 0.0


class Participation(NamedTuple):
    """The rule and its hyper-parameters."""

    rule: ParticipationRule = ParticipationRule.EVERYONE
    hparams: ParticipationHParams = ParticipationHParams()

    def __repr__(self) -> str:
        """Return how it would be written."""
        return one_line(self.rule.replace("-", "_"), self._words)

    def _words(self) -> str:
        start, dropout = (numbers(value) for value in self.hparams)
        starts = [] if self.rule is ParticipationRule.EVERYONE else [f"start_round={start}"]
        return ", ".join(
            [*starts, *([] if dropout in ("0", "0.0") else [f"client_dropout={dropout}"])]
        )


def everyone(client_dropout: ArrayLike = 0.0) -> Participation:
    """Let all clients participate when sampled, but for random dropout."""
    _check(0, client_dropout)
    return Participation(ParticipationRule.EVERYONE, ParticipationHParams(0, client_dropout))


def opt_out(start_round: ArrayLike = 10, client_dropout: ArrayLike = 0.0) -> Participation:
    """Sample only satisfied clients, after ``start_round`` rounds."""
    _check(start_round, client_dropout)
    return Participation(
        ParticipationRule.OPT_OUT, ParticipationHParams(start_round, client_dropout)
    )


def decline(start_round: ArrayLike = 10, client_dropout: ArrayLike = 0.0) -> Participation:
    """Let sampled clients that are not satisfied decline, after ``start_round`` rounds."""
    _check(start_round, client_dropout)
    return Participation(
        ParticipationRule.DECLINE, ParticipationHParams(start_round, client_dropout)
    )


def _check(start_round: ArrayLike, client_dropout: ArrayLike) -> None:
    check_number("participation.start_round", start_round, least=0, whole=True)
    check_number("participation.client_dropout", client_dropout, least=0, below=1)


def willing(
    rule: ParticipationRule,
    hparams: ParticipationHParams,
    round_: Array,
    cost: Array,
    requirement: Array,
) -> Array:
    """Return whether each client wants to participate in round ``round_``, bool like ``cost``.

    A cost is the loss, or what else the requirement is about.
    """
    if rule is ParticipationRule.EVERYONE:
        return jnp.ones_like(cost, bool)
    return appeal.satisfied(cost, requirement) | (round_ < hparams.start_round)


def sample(key: Array, available: Array, size: int) -> tuple[Array, Array]:
    """Draw ``size`` of the available clients, uniformly and without replacement.

    Each client draws a score, and the highest available scores win: the same seed and round give
    the same scores to every method, so cohorts differ only as far as availability does.

    Returns:
        Clients int[size], and which of them are real: where fewer are available, the
        others are placeholders that do not participate, bool[size].
    """
    scores = jnp.where(available, jax.random.uniform(key, available.shape), -1.0)
    best, index = jax.lax.top_k(scores, size)
    return index, best >= 0


def responds(key: Array, hparams: ParticipationHParams, index: Array) -> Array:
    """Draw whether each sampled client replies at all, bool[m], by its id."""
    draws = jax.vmap(lambda k: jax.random.uniform(jax.random.fold_in(key, k)))(index)
    return draws >= hparams.client_dropout
