"""The server's step: the model after a round, of the round's sums, as in the simulation.

    MaxFL        w − η_g · Σ q_k Δ_k / (Σ q_k + ε)
    FedAvg       the same with equal weights and ε = 0; so FedProx, and w of SCAFFOLD
    q-FFL        w − η_g · Σ q_k Δ_k / Σ q_k h_k, with q_k = F_k^q
    SCAFFOLD     c + m/M · mean of (c_k⁺ − c_k), with m of M clients
    state        the weighted mean, whatever η_g is

An optimizer of the server takes the direction in place of η_g times it. It keeps moments, and works
on whole arrays: it needs room for several models.
"""

from functools import partial
from logging import WARNING
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flwr.common.logger import log
from numpy.typing import NDArray

from maxfl.core.algorithm import average_scale
from maxfl.core.server_optimizers import OptimizerKind, ServerOptimizer, transformation
from maxfl.flower.aggregation import RoundTotal, why_no_step
from maxfl.flower.config import StrategyConfig
from maxfl.flower.replies.arrays import Arrays, of_model, stack
from maxfl.flower.replies.pieces import in_threads, piece_of, places
from maxfl.flower.replies.sort import SortedReplies
from maxfl.flower.server.travel import is_control
from maxfl.utils.tensors import from_named, to_named


class Rates(NamedTuple):
    """How far a step goes.

    Attributes:
        server: η_g of the round.
        control: m/M, the share of clients whose control variates were renewed.
    """

    server: float
    control: float = 0.0


class Stepped(NamedTuple):
    """What travelled, after a round's step, and what the server's optimizer keeps, by name."""

    arrays: Arrays
    moments: Arrays


class RoundEnd(NamedTuple):
    """What a step is made of.

    Attributes:
        sent: The arrays that clients received.
        total: The sums of their replies.
        moments: What the server's optimizer keeps, by name.
        replies: The replies themselves.
    """

    sent: Arrays
    total: RoundTotal
    moments: Arrays
    replies: SortedReplies

    def of_model(self, number: int) -> "RoundEnd":
        """Return that of one model of a portfolio."""
        accepted = [reply for reply in self.replies.accepted if reply.model == number]
        return RoundEnd(
            of_model(self.sent, number), self.total.of_model(number),
            moments_of(self.moments, number), self.replies._replace(accepted=accepted),
        )  # fmt: skip


def step_along(
    config: StrategyConfig, rates: Rates, sent: Arrays, total: RoundTotal, moments: Arrays
) -> Stepped | None:
    """Return what becomes of the arrays that were sent; None if there are no sums to step along.

    Arrays that no update speaks of stay. It may not be finite. New arrays take the place of the
    sums, so that there is no room needed for both.
    """
    sums = total.sums
    if sums is None:
        return None
    mean = average_scale(jnp.float32(sums.weight), config.step_epsilon)
    along = mean if total.steepness is None else average_scale(jnp.float32(total.steepness))
    optimized: Arrays = {}
    if config.server_optimizer.kind is not OptimizerKind.SGD:
        with np.errstate(over="ignore", invalid="ignore"):
            direction = {
                name: np.asarray(update * np.float32(along), np.float32)
                for name, update in sums.update.items()
                if not (config.is_state(name) or is_control(name))
            }
            optimized, moments = _optimize(
                config.server_optimizer, rates.server, sent, direction, moments
            )
    plain = {
        name: _step(w, sums.update[name], *_scales(config, rates, name, mean, along))
        for name, w in sent.items()
        if name in sums.update and name not in optimized
    }
    return Stepped(sent | plain | optimized, moments)


class Outcome(NamedTuple):
    """What came of a round's step.

    Attributes:
        stepped: None where nothing moved.
        problem: Why nothing did.
    """

    stepped: Stepped | None
    problem: str = ""


def take_step(config: StrategyConfig, rates: Rates, end: RoundEnd) -> Outcome:
    """Return what becomes of the arrays that were sent, or why they stay.

    Of a portfolio each model takes its own step, and stays where it has none. Its arrays have a
    leading axis [models]; moments of model 1 are called "1/...".
    """
    if not config.has_portfolio:
        return _step_or_stay(config, rates, end)
    ends = [end.of_model(number) for number in range(config.models)]
    parts = [_step_or_stay(config, rates, one) for one in ends]
    trained = end.total.clients_by_model or [0] * len(parts)
    if not any(part.stepped for part in parts):
        # Of the model that most trained: of one that nobody did, it would be no reason.
        return parts[trained.index(max(trained))]
    for number, (part, clients) in enumerate(zip(parts, trained, strict=True)):
        if part.problem and clients:
            log(WARNING, "model %d: %s: it stays as it was", number, part.problem)
    each = [
        part.stepped or Stepped(stays.sent, stays.moments)
        for part, stays in zip(parts, ends, strict=True)
    ]
    moved_moments = {
        f"{number}/{name}": array
        for number, one in enumerate(each)
        for name, array in one.moments.items()
    }
    return Outcome(Stepped(stack([one.arrays for one in each]), moved_moments))


def moments_of(moments: Arrays, number: int) -> Arrays:
    """Return what the optimizer keeps for one model of a portfolio."""
    begin = f"{number}/"
    return {
        name.removeprefix(begin): array for name, array in moments.items() if name.startswith(begin)
    }


def _step_or_stay(config: StrategyConfig, rates: Rates, end: RoundEnd) -> Outcome:
    """Return what becomes of one model, or why it stays."""
    stepped = step_along(config, rates, end.sent, end.total, end.moments)
    results = () if stepped is None else (*stepped.arrays.values(), *stepped.moments.values())
    problem = why_no_step(config, end.total, results, end.replies)
    return Outcome(None if problem else stepped, problem)


def _scales(
    config: StrategyConfig, rates: Rates, name: str, mean: Any, along: Any
) -> tuple[np.float32, float]:
    """Return what an array's sum is multiplied by, and its rate."""
    if config.is_state(name):
        return np.float32(mean), 1.0
    if is_control(name):
        return np.float32(mean), rates.control
    return np.float32(along), rates.server


def _optimize(
    optimizer: ServerOptimizer, rate: float, model: Arrays, direction: Arrays, moments: Arrays
) -> tuple[Arrays, Arrays]:
    """Take an optimizer's step; return the arrays that it moved, and its moments."""
    rule = transformation(*optimizer)
    like = jax.eval_shape(rule.init, direction)
    state = from_named(moments, like) if moments else rule.init(direction)
    step, state = rule.update(direction, state)
    # In NumPy, in the type of w, which JAX would make single precision.
    moved = {
        name: np.asarray(model[name] - rate * np.asarray(along), model[name].dtype)
        for name, along in step.items()
    }
    return moved, to_named(state)


def _step(w: NDArray[Any], total: NDArray[Any], scale: np.float32, rate: float) -> NDArray[Any]:
    """Return w − η_g · scale · Σ q_k Δ_k in the type of w, piece by piece."""
    can_stay = total.dtype == w.dtype and total.flags.writeable and total.flags.c_contiguous
    stepped = total if can_stay else np.empty(w.shape, w.dtype)
    in_threads(partial(_move, stepped, w, total, scale, rate), places(w.size))
    return stepped


def _move(
    stepped: NDArray[Any],
    w: NDArray[Any],
    total: NDArray[Any],
    scale: np.float32,
    rate: float,
    place: slice,
) -> None:
    # What NumPy warns of is of a thread: here too it is no step if it is not finite.
    with np.errstate(over="ignore", invalid="ignore"):
        piece_of(stepped, place)[...] = piece_of(w, place) - rate * (piece_of(total, place) * scale)
