"""The solver at the server: T of each round, how it follows the clients' gaps, and η_g.

Of ``maxfl.maxfl_auto`` clients are told T_t and s_t, and answer whether |F_k − ρ_k| < s_t; the next
s_t follows from how many of them said so, which is a sum. In the first round, unless s_0 is given,
they answer with |F_k − ρ_k|, of which s_t begins as the mean. Where too few clients reply, s_t
stays; where they have no weight, or one that is lost in noise, s_t goes on, as in the simulation.
Of ``maxfl.maxfl_annealed`` T falls with the rounds in which enough clients replied. Methods in
which all weigh the same have T = ∞.
"""

import math
from typing import Any

import jax.numpy as jnp

from maxfl.algorithms.maxfl_annealed import temperature as annealed_temperature
from maxfl.algorithms.maxfl_auto import ServerState, init_server, next_state, scale, temperature
from maxfl.core.schedules import ScheduleKind, scheduled
from maxfl.flower.aggregation import RoundTotal
from maxfl.flower.config import StrategyConfig
from maxfl.flower.round_log import Solver
from maxfl.flower.sums import estimate_near
from maxfl.utils.errors import InputError

PAPERS_TEMPERATURE = 1.0
"""T of the weights that one who only observes is shown."""
SolverState = ServerState | None
"""t and s_t, float32 each; None where T is fixed."""


def init_solver(config: StrategyConfig) -> SolverState:
    """Return what the server keeps before the first round."""
    return init_server((), 0) if config.follows_gaps or _anneals(config) else None


def solver_of_round(config: StrategyConfig, state: SolverState) -> Solver:
    """Return what clients are told in the next round."""
    name, hparams = config.algorithm.name, config.algorithm.hparams
    if name == "maxfl":
        return Solver(float(hparams.temperature))
    if config.observe_only:
        return Solver(PAPERS_TEMPERATURE)
    if state is None:
        return Solver(math.inf)
    if _anneals(config):
        return Solver(float(annealed_temperature(hparams, state.rounds)))
    return Solver(float(temperature(hparams, state)), float(scale(hparams, state)))


def next_solver(config: StrategyConfig, state: SolverState, total: RoundTotal) -> SolverState:
    """Return what the server keeps after a round, by how many participated and were near."""
    if state is None:
        return None
    if _anneals(config):
        return state._replace(rounds=state.rounds + 1)
    counts, sums = total.counts, total.sums
    if sums is None or sums.near is None:
        return state
    near = estimate_near(sums.near, counts.participated)
    gaps = max(sums.gaps or 0.0, 0.0)  # rounding may bring them below
    return next_state(config.algorithm.hparams, state, near, gaps, counts.participated)


def server_rate(
    config: StrategyConfig, number: int, rounds: int | None, state: SolverState = None
) -> float:
    """Return η_g of a round, counted from 1, of so many."""
    schedule = config.chosen_schedule
    hparams = schedule.hparams
    if hparams.rounds is None:
        if rounds is None and schedule.kind is not ScheduleKind.CONSTANT:
            raise InputError(
                f"server_schedule = {schedule.kind} falls over all rounds, and their number is not "
                f"known: run through start(), set the strategy's num_rounds, or say "
                f"maxfl.schedules.{schedule.kind}(rounds=50)"
            )
        hparams = hparams._replace(rounds=rounds)
    rate = float(scheduled(schedule, hparams, config.server_lr, number - 1))
    if state is None or not _anneals(config):
        return rate
    cooling = config.algorithm.hparams
    fallen = annealed_temperature(cooling, state.rounds) / cooling.start
    return rate * float(fallen**cooling.cooling)


def _anneals(config: StrategyConfig) -> bool:
    """Return whether T falls with the rounds, and steps with it."""
    return config.algorithm.name == "maxfl-annealed" and not config.observe_only


def state_to_plain(state: SolverState) -> list[float] | None:
    """Return the state as numbers that JSON holds to the last bit."""
    return None if state is None else [float(number) for number in state]


def state_from_plain(content: Any) -> SolverState:
    """Return the state that ``state_to_plain`` made numbers of."""
    return None if content is None else ServerState(*map(jnp.float32, content))
