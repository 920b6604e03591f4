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

import jax
import jax.numpy as jnp
from jax import Array
from numpy.typing import ArrayLike

from maxfl.algorithms.fedavg import BASE
from maxfl.core import appeal
from maxfl.core.algorithm import Algorithm, Client, Cohort, Server, Total, average
from maxfl.core.model import Params
from maxfl.utils.errors import check_number


class Hyper(NamedTuple):
    """Numbers of annealed MaxFL.

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


def init(params: Params, clients: int) -> Array:  # noqa: ARG001
    """Rounds in which somebody took part: 0."""
    return jnp.float32(0)


def temperature(hyper: Hyper, done: ArrayLike) -> Array:
    """T_t after ``done`` rounds."""
    share = jnp.minimum(1.0, jnp.asarray(done) / hyper.rounds)
    return hyper.start * (hyper.temperature / hyper.start) ** share


def weight(hyper: Hyper, server: Server, client: Client) -> Array:
    """q_k at this round's temperature."""
    now = temperature(hyper, server.state)
    return appeal.weight(client.tuned_loss, client.requirement, now)


def server(hyper: Hyper, server: Server, total: Total, cohort: Cohort) -> tuple[Params, Array]:  # noqa: ARG001
    """Direction: (T_t/T_0)^c · Σ q_k Δ_k / (Σ q_k + ε)."""
    step = (temperature(hyper, server.state) / hyper.start) ** hyper.cooling
    direction = jax.tree.map(lambda u: step * u, average(total, hyper.epsilon))
    return direction, server.state + 1


def maxfl_annealed(
    start: ArrayLike = 3.0,
    temperature: ArrayLike = 0.1,
    rounds: ArrayLike = 200,
    epsilon: ArrayLike = 0.1,
    cooling: ArrayLike = 0.5,
) -> Algorithm:
    """MaxFL with a temperature that falls, so that more clients are satisfied.

    Args:
        start: T_0, the temperature at first.
        temperature: T_1, the temperature in the end.
        rounds: A, the rounds over which it falls; best all of training.
        epsilon: ε, added to the sum of the weights.
        cooling: c; steps shrink like the temperature to this power.
    """
    check_number("algorithm.start", start, above=0)
    check_number("algorithm.temperature", temperature, above=0)
    check_number("algorithm.rounds", rounds, above=0)
    check_number("algorithm.epsilon", epsilon, least=0)
    check_number("algorithm.cooling", cooling, least=0)
    return BASE._replace(
        name="maxfl-annealed",
        hyper=Hyper(start, temperature, rounds, epsilon, cooling),
        init=init,
        weight=weight,
        server=server,
    )
