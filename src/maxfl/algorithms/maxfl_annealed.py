"""MaxFL, annealed: first near to everybody, then choosing whom to satisfy, in ever smaller steps.

    T_t = T_0 (T_1/T_0)^min(1, t/A),   q_k = s(1 − s) with T = T_t
    w ← w − η_g (T_t/T_0)^c · Σ q_k Δ_k / (Σ q_k + ε)

It differs from MaxFL in the temperature of round t, and in steps that shrink with it. At T = 1 the
sigmoid is wider than the losses of a well-trained model: all weights are near ¼ and the model is
FedAvg's. At a low one a fresh model has no client within reach, and whoever is close by chance is
served for good. So T falls from the one to the other, large steps while it is high keep the choice
open, and small ones at the end settle it; ε keeps a cohort of unreachable clients from undoing the
others' work. Ours, not the paper's; docs/reproduction.md has the runs that chose its numbers.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array
from numpy.typing import ArrayLike

from maxfl.algorithms.fedavg import BASE
from maxfl.core import appeal
from maxfl.core.algorithm import Algorithm, Client, Cohort, Server, WeightedSum, average, scale
from maxfl.core.model import Params
from maxfl.utils.errors import check_number


class HParams(NamedTuple):
    """Hyper-parameters of annealed MaxFL.

    Attributes:
        start: T_0.
        temperature: T_1.
        rounds: A, over which T falls.
        epsilon: ε.
        cooling: c, how steps shrink with T.
    """

    start: Any
    temperature: Any
    rounds: Any
    epsilon: Any
    cooling: Any


def init_server(params: Params, clients: int) -> Array:
    """Count the rounds in which somebody participated: 0."""
    return jnp.float32(0)


def temperature(hparams: HParams, done: ArrayLike) -> Array:
    """Return T_t after ``done`` rounds."""
    share = jnp.minimum(1.0, jnp.asarray(done) / hparams.rounds)
    return hparams.start * (hparams.temperature / hparams.start) ** share


def weight(hparams: HParams, server: Server, client: Client) -> Array:
    """Return q_k at this round's temperature."""
    now = temperature(hparams, server.state)
    return appeal.weight(client.finetuned_cost, client.requirement, now)


def server_update(
    hparams: HParams, server: Server, total: WeightedSum, cohort: Cohort
) -> tuple[Params, Array]:
    """Move along (T_t/T_0)^c · Σ q_k Δ_k / (Σ q_k + ε)."""
    step = (temperature(hparams, server.state) / hparams.start) ** hparams.cooling
    return scale(average(total, hparams.epsilon), step), server.state + 1


def maxfl_annealed(
    start: ArrayLike = 3.0,
    temperature: ArrayLike = 0.1,
    rounds: ArrayLike = 200,
    epsilon: ArrayLike = 0.1,
    cooling: ArrayLike = 0.5,
) -> Algorithm:
    """Return MaxFL with a temperature that falls over the rounds, to satisfy more clients.

    Args:
        start: T_0, the initial temperature.
        temperature: T_1, the final temperature.
        rounds: A, the number of rounds over which it falls; best all of training.
        epsilon: ε, added to the sum of the weights.
        cooling: c; steps shrink with the temperature to the power of c.
    """
    check_number("algorithm.start", start, above=0)
    check_number("algorithm.temperature", temperature, above=0)
    check_number("algorithm.rounds", rounds, above=0)
    check_number("algorithm.epsilon", epsilon, least=0)
    check_number("algorithm.cooling", cooling, least=0)
    return BASE._replace(
        name="maxfl-annealed",
        hparams=HParams(start, temperature, rounds, epsilon, cooling),
        init_server=init_server,
        weight=weight,
        server_update=server_update,
    )
