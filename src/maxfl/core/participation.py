"""Who takes part in a round: whom the server may ask, and who answers.

A client is willing if the model appeals to it, F_k(w) < ρ_k on its training data, or if fewer
than ``start`` rounds are done. Every round asks anew, so a client that left can come back.

    everyone   all are willing
    opt-out    the server samples among the willing only (paper, tables 1 and 2)
    decline    the server samples among all, and the unwilling decline

Beside that, any asked client fails to answer with probability ``dropout``.
"""

from enum import StrEnum
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from numpy.typing import ArrayLike

from maxfl.core import appeal
from maxfl.utils.errors import check_number


class Rule(StrEnum):
    """How unwilling clients stay away."""

    EVERYONE = "everyone"
    OPT_OUT = "opt-out"
    DECLINE = "decline"


class Presence(NamedTuple):
    """Numbers of the participation rule.

    Attributes:
        start: Rounds before appeal decides.
        dropout: Probability that an asked client fails to answer.
    """

    start: Any = 10
    dropout: Any = 0.0


class Participation(NamedTuple):
    """The rule and its numbers."""

    rule: Rule = Rule.EVERYONE
    presence: Presence = Presence()


def everyone(dropout: ArrayLike = 0.0) -> Participation:
    """All clients take part when asked, but for random dropout."""
    _check(0, dropout)
    return Participation(Rule.EVERYONE, Presence(0, dropout))


def opt_out(start: ArrayLike = 10, dropout: ArrayLike = 0.0) -> Participation:
    """After ``start`` rounds, the server can sample only clients that the model appeals to."""
    _check(start, dropout)
    return Participation(Rule.OPT_OUT, Presence(start, dropout))


def decline(start: ArrayLike = 10, dropout: ArrayLike = 0.0) -> Participation:
    """After ``start`` rounds, a sampled client that the model does not appeal to declines."""
    _check(start, dropout)
    return Participation(Rule.DECLINE, Presence(start, dropout))


def _check(start: ArrayLike, dropout: ArrayLike) -> None:
    check_number("participation.start", start, least=0, whole=True)
    check_number("participation.dropout", dropout, least=0, below=1)


def willing(
    rule: Rule, presence: Presence, round_: Array, loss: Array, requirement: Array
) -> Array:
    """Whether each client wants to take part in round ``round_``, bool like ``loss``."""
    if rule is Rule.EVERYONE:
        return jnp.ones_like(loss, bool)
    return appeal.appealing(loss, requirement) | (round_ < presence.start)


def sample(key: Array, available: Array, size: int) -> tuple[Array, Array]:
    """Draw ``size`` of the available clients, uniformly and without replacement.

    Each client draws a score, and the highest available scores win: the same seed and round give
    the same scores to every method, so cohorts differ only as far as availability does.

    Returns:
        Client numbers int[size], and which of them are real: where fewer are available, the
        others are placeholders that take no part, bool[size].
    """
    scores = jnp.where(available, jax.random.uniform(key, available.shape), -1.0)
    best, index = jax.lax.top_k(scores, size)
    return index, best >= 0


def answers(key: Array, presence: Presence, index: Array) -> Array:
    """Whether each asked client answers at all, bool[m]; drawn for each client by its number."""
    draws = jax.vmap(lambda k: jax.random.uniform(jax.random.fold_in(key, k)))(index)
    return draws >= presence.dropout
