"""MaxFL without tuning: the temperature follows the clients' own gaps.

    T_t = min(T_max, max(T_0 (T_1/T_0)^min(1, t/A), c·s_t)),   q_k = s(1 − s) with T = T_t
    s_{t+1} = s_t · exp(γ (p − share of the cohort with |F_k(w) − ρ_k| < s_t))
    w ← w − η_g · Σ q_k Δ_k / (Σ q_k + ε)

It differs from MaxFL in the temperature of round t. s_t tracks the p-quantile of |F_k − ρ_k|: it
rises while fewer than a share p of the cohort are that near to their requirement, and falls while
more are. So T_t falls on a line in the logarithm while the model is young, as in annealed MaxFL,
but never below what leaves about a share p of the clients on the steep part of the sigmoid, and
never above the paper's T = 1.

Every round descends F̃ at the temperature of the round, 1/M Σ σ((F_k − ρ_k)/T_t), whose limit at
T → 0 is 1 − GM-Appeal: a continuation, from a smooth objective to the one that is meant. Where s_t
settles, the pair (w, s) solves Σ q_k ∇F_k = 0 and P(|F_k − ρ_k| < s) = p together: an M-estimate
with its scale estimated beside it, as in Huber, "Robust Statistics", section 6.4. The update of s
is that of Andrew et al., "Differentially Private Learning with Adaptive Clipping", NeurIPS 2021.
It needs a count alone, so the server learns no client's gap where sums are aggregated securely.

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
        start: T_0.
        temperature: T_1.
        rounds: A, over which T falls from T_0 to T_1.
        most: T_max.
        multiple: c, the temperature as a multiple of s.
        quantile: p.
        gain: γ.
        epsilon: ε.
    """

    start: Any
    temperature: Any
    rounds: Any
    most: Any
    multiple: Any
    quantile: Any
    gain: Any
    epsilon: Any


class ServerState(NamedTuple):
    """What the server keeps beside the model.

    Attributes:
        rounds: t, rounds in which somebody participated.
        scale: s_t.
    """

    rounds: Array
    scale: Array


def init_server(params: Params, clients: int) -> ServerState:
    """Begin with s_0 = 1, which does not matter before T falls below it."""
    return ServerState(jnp.float32(0), jnp.float32(1))


def temperature(hparams: HParams, state: ServerState) -> Array:
    """Return T_t."""
    share = jnp.minimum(1.0, state.rounds / hparams.rounds)
    falling = hparams.start * (hparams.temperature / hparams.start) ** share
    return jnp.minimum(hparams.most, jnp.maximum(falling, hparams.multiple * state.scale))


def is_near(state: ServerState, cost: Any, requirement: Any) -> Any:
    """Return whether |F_k(w) − ρ_k| < s_t, elementwise."""
    return abs(cost - requirement) < state.scale


def next_state(hparams: HParams, state: ServerState, near: Any, participated: Any) -> ServerState:
    """Return what the server keeps after a round, by how many participated and were near."""
    share = near / jnp.maximum(participated, 1)
    scale = state.scale * jnp.exp(hparams.gain * (hparams.quantile - share))
    return ServerState(state.rounds + 1, scale)


def weight(hparams: HParams, server: Server, client: Client) -> Array:
    """Return q_k at this round's temperature."""
    now = temperature(hparams, server.state)
    return appeal.weight(client.finetuned_cost, client.requirement, now)


def server_update(
    hparams: HParams, server: Server, total: WeightedSum, cohort: Cohort
) -> tuple[Params, ServerState]:
    """Move as MaxFL does, and let s follow the gaps of those that participated."""
    state: ServerState = server.state
    near = cohort.participated & is_near(state, cohort.cost, cohort.requirement)
    renewed = next_state(hparams, state, near.sum(), cohort.participated.sum())
    return average(total, hparams.epsilon), renewed


def maxfl_auto(
    start: ArrayLike = 3.0,
    temperature: ArrayLike = 0.1,
    rounds: ArrayLike = 50,
    most: ArrayLike = 1.0,
    multiple: ArrayLike = 2.0,
    quantile: ArrayLike = 0.25,
    gain: ArrayLike = 0.2,
    epsilon: ArrayLike = 0.1,
) -> Algorithm:
    """Return MaxFL with a temperature that follows the clients' gaps, so that none is tuned.

    Args:
        start: T_0, the temperature that it falls from.
        temperature: T_1, the lowest temperature.
        rounds: A, the rounds over which it falls.
        most: T_max, the highest temperature.
        multiple: c; T is at least so many times the tracked quantile of |F_k − ρ_k|.
        quantile: p, which quantile is tracked.
        gain: γ, how fast it is tracked.
        epsilon: ε, added to the sum of the weights.
    """
    for name, value in (("start", start), ("temperature", temperature), ("rounds", rounds),
                        ("most", most)):  # fmt: skip
        check_number(f"algorithm.{name}", value, above=0)
    for name, value in (("multiple", multiple), ("gain", gain), ("epsilon", epsilon)):
        check_number(f"algorithm.{name}", value, least=0)
    check_number("algorithm.quantile", quantile, least=0, most=1)
    return BASE._replace(
        name="maxfl-auto",
        hparams=HParams(start, temperature, rounds, most, multiple, quantile, gain, epsilon),
        init_server=init_server,
        weight=weight,
        server_update=server_update,
    )
