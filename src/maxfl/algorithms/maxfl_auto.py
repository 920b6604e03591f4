"""MaxFL without tuning: the temperature follows the clients' own gaps.

    T_t = c·s_t,   q_k = s(1 − s) with T = T_t,   w ← w − η_g · Σ q_k Δ_k / (Σ q_k + ε)
    s_1 = mean of |F_k(w) − ρ_k| over the first cohort, which all weigh the same in (T_0 = ∞)
    s_{t+1} = s_t · exp(γ (p − share of the cohort with |F_k(w) − ρ_k| < s_t))

A client that is exactly on its requirement counts as p, and so moves s neither way. Otherwise,
where many are, as with an accuracy of 100 %, s would fall to 0, and with it all others' weights.

It differs from MaxFL in the temperature of round t. s_t tracks the p-quantile of |F_k − ρ_k|: it
rises while fewer than a share p of the cohort are that near to their requirement, and falls while
more are. Once settled, a share p of the clients is on the steep part of the sigmoid, whether
losses are of order 1 or 1000: a fixed T is too wide where requirements are strict, and all weights
are alike, or too narrow where they are far, and all weights vanish.

The quantile is tracked as in Andrew et al., "Differentially Private Learning with Adaptive
Clipping", NeurIPS 2021. That needs a count, and once a sum, so with secure aggregation the server
learns no client's gap.

Every round descends F̃ at the temperature of the round, 1/M Σ σ((F_k − ρ_k)/T_t), whose limit for
T → 0 is 1 − GM-Appeal: a continuation, from a smooth objective to the intended one. Where s_t
settles, (w, s) solve Σ q_k ∇F_k = 0 and P(|F_k − ρ_k| < s) = p together: an M-estimate whose scale
is estimated jointly (Huber, "Robust Statistics", 1981, chapter 6).

Ours, not the paper's; docs/methods.md has the runs that chose its numbers, and those that tried
them on other data.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array
from numpy.typing import ArrayLike

from maxfl.algorithms.fedavg import BASE
from maxfl.core import appeal
from maxfl.core.algorithm import Algorithm, Client, Cohort, Server, WeightedSum, average
from maxfl.core.model import Params
from maxfl.utils.errors import check_number


class HParams(NamedTuple):
    """Hyper-parameters of MaxFL without tuning.

    Attributes:
        multiple: c, the temperature as a multiple of s.
        quantile: p.
        gain: γ.
        epsilon: ε.
        scale: s_0, in units of the loss; 0 for the mean of the first cohort.
    """

    multiple: Any = 1.5
    quantile: Any = 0.35
    gain: Any = 0.3
    epsilon: Any = 0.1
    scale: Any = 0.0


class ServerState(NamedTuple):
    """What the server keeps beside the model.

    Attributes:
        rounds: t, rounds in which somebody participated.
        scale: s_t, after the first of them.
    """

    rounds: Array
    scale: Array


def init_server(params: Params, clients: int) -> ServerState:
    """Begin in round 0."""
    return ServerState(jnp.float32(0), jnp.float32(0))


def scale(hparams: HParams, state: ServerState) -> Array:
    """Return s_t; 0 where nothing is known of it yet."""
    return jnp.where(state.rounds > 0, state.scale, hparams.scale)


def temperature(hparams: HParams, state: ServerState) -> Array:
    """Return T_t; ∞, at which all clients weigh the same, before s is known."""
    now = scale(hparams, state)
    return jnp.where(now > 0, hparams.multiple * now, jnp.inf)


def next_state(
    hparams: HParams, state: ServerState, near: Any, gaps: Any, participated: Any
) -> ServerState:
    """Return what the server keeps after a round; s stays where nobody participated.

    Args:
        hparams: Hyper-parameters.
        state: Of the round.
        near: Sum of what those that participated say to |F_k − ρ_k| < s_t, see ``appeal.nearness``.
        gaps: Their Σ |F_k − ρ_k|, which counts where s_t is not known.
        participated: How many did.
    """
    count, now = jnp.maximum(participated, 1), scale(hparams, state)
    ahead = jnp.where(participated > 0, hparams.quantile - near / count, 0.0)
    tracked = now * jnp.exp(hparams.gain * ahead)
    return ServerState(state.rounds + 1, jnp.where(now > 0, tracked, gaps / count))


def weight(hparams: HParams, server: Server, client: Client) -> Array:
    """Return q_k at this round's temperature."""
    now = temperature(hparams, server.state)
    return appeal.weight(client.finetuned_cost, client.requirement, now)


def server_update(
    hparams: HParams, server: Server, total: WeightedSum, cohort: Cohort
) -> tuple[Params, ServerState]:
    """Move as MaxFL does, and let s follow the gaps of those that participated."""
    here = cohort.participated & jnp.isfinite(cohort.gap)
    now = scale(hparams, server.state)
    near = appeal.nearness(cohort.gap, cohort.requirement, now, hparams.quantile)
    near, gaps = (jnp.where(here, value, 0.0).sum() for value in (near, abs(cohort.gap)))
    renewed = next_state(hparams, server.state, near, gaps, here.sum())
    return average(total, hparams.epsilon), renewed


def maxfl_auto(
    multiple: ArrayLike = 1.5,
    quantile: ArrayLike = 0.35,
    gain: ArrayLike = 0.3,
    epsilon: ArrayLike = 0.1,
    scale: ArrayLike = 0.0,
) -> Algorithm:
    """Return MaxFL with a temperature that follows the clients' gaps and needs no tuning.

    Args:
        multiple: c; the temperature is c times the tracked quantile of the clients' absolute gaps.
        quantile: p, the quantile that is tracked.
        gain: γ, how fast the quantile is tracked.
        epsilon: ε, added to the sum of the weights.
        scale: initial value of the quantile, in units of the loss; 0 for the mean absolute gap of
            the first cohort.
    """
    check_number("algorithm.multiple", multiple, above=0)
    check_number("algorithm.quantile", quantile, above=0, below=1)
    check_number("algorithm.gain", gain, least=0)
    check_number("algorithm.epsilon", epsilon, least=0)
    check_number("algorithm.scale", scale, least=0)
    return BASE._replace(
        name="maxfl-auto",
        hparams=HParams(multiple, quantile, gain, epsilon, scale),
        init_server=init_server,
        weight=weight,
        server_update=server_update,
    )
