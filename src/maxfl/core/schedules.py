"""Learning rates over the rounds: by what η_l or η_g is multiplied in round t = 0, 1, …, R − 1.

    constant      1
    linear        1 − (1 − end) p
    cosine        end + (1 − end) (1 + cos πp)/2
    exponential   end^p                            p = (t − warmup)/(rounds − 1 − warmup), in [0, 1]

While t < warmup, the factor is (t + 1)/(warmup + 1). Loshchilov, Hutter, "SGDR", ICLR 2017, for the
cosine. optax has the same schedules, but of numbers that are known when a program is compiled; here
they are numbers of a sweep.
"""

from enum import StrEnum
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array
from numpy.typing import ArrayLike

from maxfl.utils.errors import check_number


class ScheduleKind(StrEnum):
    """How a rate goes from 1 to ``end``."""

    CONSTANT = "constant"
    LINEAR = "linear"
    COSINE = "cosine"
    EXPONENTIAL = "exponential"


class ScheduleHParams(NamedTuple):
    """Hyper-parameters of a schedule.

    Attributes:
        end: Factor in the last round.
        warmup: Rounds over which the factor first rises to 1.
        rounds: Rounds over which it goes to ``end``; None for all of training.
    """

    end: Any = 1.0
    warmup: Any = 0.0
    rounds: Any = None


class Schedule(NamedTuple):
    """A kind of schedule, whether it warms up, and the hyper-parameters, or None."""

    kind: ScheduleKind = ScheduleKind.CONSTANT
    warms_up: bool = False
    hparams: Any = ScheduleHParams()


def constant(warmup: ArrayLike = 0) -> Schedule:
    """Leave a rate as it is, after ``warmup`` rounds in which it rises."""
    return _schedule(ScheduleKind.CONSTANT, 1.0, warmup, None)


def linear(
    end: ArrayLike = 0.1, warmup: ArrayLike = 0, rounds: ArrayLike | None = None
) -> Schedule:
    """Let a rate fall on a line to ``end`` times itself."""
    return _schedule(ScheduleKind.LINEAR, end, warmup, rounds)


def cosine(
    end: ArrayLike = 0.1, warmup: ArrayLike = 0, rounds: ArrayLike | None = None
) -> Schedule:
    """Let a rate fall along half a cosine to ``end`` times itself."""
    return _schedule(ScheduleKind.COSINE, end, warmup, rounds)


def exponential(
    end: ArrayLike = 0.1, warmup: ArrayLike = 0, rounds: ArrayLike | None = None
) -> Schedule:
    """Let a rate fall by the same factor in every round, to ``end`` times itself."""
    return _schedule(ScheduleKind.EXPONENTIAL, end, warmup, rounds)


def _schedule(
    kind: ScheduleKind, end: ArrayLike, warmup: ArrayLike, rounds: ArrayLike | None
) -> Schedule:
    check_number("schedule.end", end, above=0)  # methods divide by rates
    check_number("schedule.warmup", warmup, least=0)
    if rounds is not None:
        check_number("schedule.rounds", rounds, least=1)
    warms_up = bool(jnp.any(jnp.asarray(warmup) > 0))
    return Schedule(kind, warms_up, ScheduleHParams(end, warmup, rounds))


def scheduled(schedule: Schedule, hparams: ScheduleHParams, rate: Any, round_: ArrayLike) -> Any:
    """Return the rate of round ``round_``, counted from 0, with these hyper-parameters."""
    if schedule.kind is not ScheduleKind.CONSTANT:
        rate = rate * _decay(schedule.kind, hparams, jnp.asarray(round_, jnp.float32))
    if schedule.warms_up:
        rate = rate * jnp.minimum(1.0, (jnp.asarray(round_) + 1) / (hparams.warmup + 1))
    return rate


def _decay(kind: ScheduleKind, hparams: ScheduleHParams, t: Array) -> Array:
    length = jnp.maximum(hparams.rounds - 1 - hparams.warmup, 1)
    p = jnp.clip((t - hparams.warmup) / length, 0.0, 1.0)
    end = hparams.end
    match kind:
        case ScheduleKind.LINEAR:
            return 1 - (1 - end) * p
        case ScheduleKind.COSINE:
            return end + (1 - end) * (1 + jnp.cos(jnp.pi * p)) / 2
        case _:
            return end**p
