"""The solver at the server: T of each round, how it follows the clients' gaps, and η_g.

With ``temperature="auto"`` it is ``maxfl.maxfl_auto``, with a number the paper's MaxFL. Clients are
told T_t and s_t, and answer whether |F_k − ρ_k| < s_t; the next s_t follows from how many of them
said so, which is a sum. In the first round, unless s_0 is given, they answer with |F_k − ρ_k|, of
which s_t begins as the mean. Where too few clients reply, s_t stays; where they have no weight, or
one that is lost in noise, s_t goes on, as in the simulation.
"""

from typing import Any

import jax.numpy as jnp

from maxfl.algorithms.maxfl_auto import ServerState, init_server, next_state, scale, temperature
from maxfl.core.schedules import ScheduleKind, scheduled
from maxfl.flower.aggregation import RoundTotal
from maxfl.flower.config import StrategyConfig
from maxfl.flower.round_log import Solver
from maxfl.flower.sums import estimate_near
from maxfl.utils.errors import InputError

SolverState = ServerState | None
"""t and s_t, float32 each; None where T is fixed."""


def init_solver(config: StrategyConfig) -> SolverState:
    """Return what the server keeps before the first round."""
    return init_server((), 0) if config.follows_gaps else None


def solver_of_round(config: StrategyConfig, state: SolverState) -> Solver:
    """Return what clients are told in the next round."""
    if state is None:
        return Solver(config.fixed_temperature)
    hparams = config.algorithm.hparams
    return Solver(float(temperature(hparams, state)), float(scale(hparams, state)))


def follow_gaps(config: StrategyConfig, state: SolverState, total: RoundTotal) -> SolverState:
    """Return what the server keeps after a round, by how many participated and were near."""
    counts, sums = total.counts, total.sums
    if state is None or sums is None or sums.near is None:
        return state
    near = estimate_near(sums.near, counts.participated)
    gaps = max(sums.gaps or 0.0, 0.0)  # rounding may bring them below
    return next_state(config.algorithm.hparams, state, near, gaps, counts.participated)


def server_rate(config: StrategyConfig, number: int, rounds: int | None) -> float:
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
    return float(scheduled(schedule, hparams, config.server_lr, number - 1))


def state_to_plain(state: SolverState) -> list[float] | None:
    """Return the state as numbers that JSON holds to the last bit."""
    return None if state is None else [float(number) for number in state]


def state_from_plain(content: Any) -> SolverState:
    """Return the state that ``state_to_plain`` made numbers of."""
    return None if content is None else ServerState(*map(jnp.float32, content))
