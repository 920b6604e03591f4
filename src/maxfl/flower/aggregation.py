"""A round's replies added up, as privately as the operator chose; or why that makes no step.

Sums come from the replies themselves or from secure aggregation; noise, where there is any, is
added before anybody looks at them. Where there is noise, secure aggregation that failed is a round
of zeros that is lost in noise, and nothing that is given away says more.
"""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.core.aggregators import AggregationRule, krum_limit, mean
from maxfl.flower.config import StrategyConfig
from maxfl.flower.privacy import Privacy, add_noise, is_lost_in_noise
from maxfl.flower.replies.arrays import Arrays, norm_of_update, of_model
from maxfl.flower.replies.pieces import in_threads
from maxfl.flower.replies.sort import AcceptedReply, SortedReplies
from maxfl.flower.round_log import Event, Solver
from maxfl.flower.secagg_server import SecAggResult
from maxfl.flower.secure.bounds import (
    bound_step,
    bound_steps,
    most_drawn,
    wrong_portfolio,
    wrong_sums,
)
from maxfl.flower.secure.generator import Randomness
from maxfl.flower.server.methods import fairness_of, sum_steepness
from maxfl.flower.sums import (
    Counts,
    ModelSums,
    RoundSums,
    cap_gaps,
    count_replies,
    estimate_counts,
    sum_gaps,
    sum_updates,
)


class Sampled(NamedTuple):
    """The nodes of a round.

    Attributes:
        nodes: That the model was sent to.
        expected: How many are drawn on average, where who was drawn is not to be known.
        answered: Those whose reply came in time.
        solver: What they were told, and so asked.
    """

    nodes: list[int]
    expected: int
    answered: set[int]
    solver: Solver


class RoundTotal(NamedTuple):
    """What a round adds up to.

    Attributes:
        counts: How clients answered.
        sums: None if there are no secure ones.
        problem: Why there are none.
        steepness: Σ q_k h_k of q-FFL; None of other methods.
        portfolio: Where there are several models, the sums of each; ``sums`` then has no update.
    """

    counts: Counts
    sums: RoundSums | None
    problem: str = ""
    steepness: float | None = None
    portfolio: list[ModelSums] | None = None

    def of_model(self, number: int) -> "RoundTotal":
        """Return the total of one model of a portfolio, as if it were the only one."""
        if self.sums is None or self.portfolio is None:
            return self
        each = self.portfolio[number]
        sums = self.sums._replace(update=each.update, weight=each.weight)
        return self._replace(sums=sums, steepness=each.steepness, portfolio=None)

    @property
    def clients_by_model(self) -> list[int]:
        """How many clients trained each model; [] where there is one."""
        return [max(round(each.clients), 0) for each in self.portfolio or []]


def add_up(
    config: StrategyConfig,
    model: Arrays,
    sampled: Sampled,
    replies: SortedReplies,
    secure: SecAggResult | None,
    rng: Randomness,
) -> RoundTotal:
    """Count and add up replies, or take secure aggregation's sums; noise comes from ``rng``."""
    if secure is None:
        total = _add_up_plainly(config, model, sampled, replies)
    else:
        total = _take_secure_sums(sampled, secure)
    privacy = config.privacy
    if privacy is None:
        return total
    if privacy.private:
        total = _hide(privacy, model, sampled, total, secure, rng)
    if secure is not None:
        total = _check_secure_sums(privacy, sampled, total, secure)
    if total.sums is None:
        return total
    if total.portfolio is not None:
        return total._replace(portfolio=bound_steps(privacy, config.step_epsilon, total.portfolio))
    return total._replace(sums=bound_step(privacy, config.step_epsilon, total.sums))


def _hide(
    privacy: Privacy,
    model: Arrays,
    sampled: Sampled,
    total: RoundTotal,
    secure: SecAggResult | None,
    rng: Randomness,
) -> RoundTotal:
    """Return noisy sums and the counts that they imply; zeros and no weight if there are no sums.

    So that a round whose secure aggregation failed looks like another that is lost in noise.
    """
    sums = total.sums
    if sums is None:
        zeros: Arrays = {name: np.zeros(array.shape) for name, array in model.items()}
        sums = _as_asked(sampled.solver, RoundSums(zeros, 0.0, 0.0, 0.0, 0.0, near=0.0))
    noisy = add_noise(privacy, sums, 0 if secure is None else secure.levels, rng)
    counts = estimate_counts(sampled.expected, noisy)._replace(failed=0)
    return RoundTotal(counts, noisy if total.sums is not None else noisy._replace(weight=0.0))


def _check_secure_sums(
    privacy: Privacy, sampled: Sampled, total: RoundTotal, secure: SecAggResult
) -> RoundTotal:
    """Return the sums if honest clients can have them; else none, and all in them are rejected."""
    if total.sums is None:
        return total
    clients = most_drawn(sampled.expected) if privacy.private else secure.clients
    if total.portfolio is None:
        problem = wrong_sums(privacy, total.sums, clients, secure.levels)
    else:
        problem = wrong_portfolio(privacy, total.sums, total.portfolio, clients, secure.levels)
    if not problem:
        return total
    number = total.counts.sampled
    rejected = number if privacy.private else secure.clients
    counts = Counts(number, failed=number - rejected, rejected=rejected)
    return RoundTotal(counts, None, problem)


def _add_up_plainly(
    config: StrategyConfig, model: Arrays, sampled: Sampled, replies: SortedReplies
) -> RoundTotal:
    """Count and add up the replies that the server sees."""
    counts = count_replies(len(sampled.nodes), replies, len(sampled.answered))
    near = sum(reply.near for reply in replies.accepted)
    gaps = sum_gaps([reply.gap for reply in replies.accepted])
    if config.has_portfolio:
        portfolio = _add_up_models(config, model, counts, replies)
        weight = sum(each.weight for each in portfolio)
        said = counts.satisfied, counts.declined, counts.responded
        sums = RoundSums({}, weight, *said, near, gaps)
        return RoundTotal(counts, _as_asked(sampled.solver, sums), portfolio=portfolio)
    sums = _sum_accepted(config, model, counts, replies.accepted)
    sums = _as_asked(sampled.solver, sums._replace(near=near, gaps=gaps))
    steepness = _sum_steepness(config, model, replies.accepted)
    return RoundTotal(counts, sums, steepness=steepness)


def _sum_accepted(
    config: StrategyConfig, model: Arrays, counts: Counts, accepted: list[AcceptedReply]
) -> RoundSums:
    """Add up replies by the aggregator that the operator chose, or as privacy needs it."""
    privacy = config.privacy
    aggregator = config.aggregator if privacy is None else mean(clip_norm=privacy.clip)
    return sum_updates(
        accepted, counts, model, aggregator, by_examples=config.by_examples, exact=config.private
    )


def _add_up_models(
    config: StrategyConfig, models: Arrays, counts: Counts, replies: SortedReplies
) -> list[ModelSums]:
    """Add up the replies of each model of a portfolio."""
    capped = cap_gaps([reply.unmet_gap for reply in replies.accepted])
    trained = np.array([reply.model for reply in replies.accepted])
    found = []
    for number in range(config.models):
        accepted = [reply for reply in replies.accepted if reply.model == number]
        model, gaps = of_model(models, number), capped[trained == number]
        sums = _sum_accepted(config, model, counts, accepted)
        unmet = int((gaps > 0).sum()), float(gaps.sum())
        steepness = _sum_steepness(config, model, accepted)
        found.append(ModelSums(sums.update, sums.weight, len(accepted), *unmet, steepness))
    return found


def _sum_steepness(
    config: StrategyConfig, model: Arrays, accepted: list[AcceptedReply]
) -> float | None:
    """Return Σ q_k h_k of q-FFL, over what gradients train; None for other methods."""
    q = fairness_of(config.stepping)
    if q is None:
        return None
    trained = {name: w for name, w in model.items() if not config.is_state(name)}
    weighing = [reply for reply in accepted if reply.weight > 0]
    norms = in_threads(lambda r: norm_of_update(trained, r.arrays, exact=True), weighing)
    return sum_steepness(q, config.local_rate, [reply.weight for reply in weighing], norms)


def _take_secure_sums(sampled: Sampled, secure: SecAggResult) -> RoundTotal:
    """Return the sums that secure aggregation gave, and the counts that they imply."""
    sums, number = secure.sums, len(sampled.nodes)
    if sums is None:
        counts = Counts(number, failed=number)
        return RoundTotal(counts, None, "too few clients stayed for secure sums")
    asked = _as_asked(sampled.solver, sums)
    return RoundTotal(estimate_counts(number, sums), asked, portfolio=secure.portfolio)


def _as_asked(solver: Solver, sums: RoundSums) -> RoundSums:
    """Return the sums without those that nobody was asked for: there is nothing to hide in them."""
    near = sums.near if solver.follows_gaps else None
    return sums._replace(near=near, gaps=sums.gaps if solver.asks_gaps else None)


def why_no_step(
    config: StrategyConfig,
    total: RoundTotal,
    after: Iterable[NDArray[Any]],
    replies: SortedReplies,
) -> str:
    """Return why the model stays as it was, "" if it steps; ``after`` is all that would be kept."""
    counts, sums = total.counts, total.sums
    if sums is None:
        return total.problem
    if config.privacy is not None and is_lost_in_noise(config.privacy, sums):
        return "the round's weight is lost in noise"
    if counts.participated < config.min_replies:
        return f"{counts.participated} good replies, fewer than {config.min_replies}"
    if sums.weight <= 0:
        return _why_no_weight(config, sum(reply.weight > 0 for reply in replies.accepted))
    steepness = 0.0 if total.steepness is None else total.steepness
    finite = math.isfinite(steepness) and all(np.isfinite(array).all() for array in after)
    return "" if finite else "the step along the replies is not finite"


def counts_enough(config: StrategyConfig, total: RoundTotal) -> bool:
    """Return whether enough clients participated for the round to tell something of their gaps."""
    return total.sums is not None and total.counts.participated >= config.min_replies


def _why_no_weight(config: StrategyConfig, num_weighted: int) -> str:
    """Return why good replies have no weight together, though so many of them have one."""
    aggregator = config.aggregator
    if aggregator.rule is AggregationRule.KRUM and num_weighted:
        limit = krum_limit(aggregator.hparams)
        return f"{num_weighted} replies with a weight, and Krum needs more than {limit}"
    return "no reply has a weight"


def absences(sampled: Sampled, replies: SortedReplies, secure: SecAggResult | None) -> list[Event]:
    """Return which clients did not participate, and why."""
    events = [
        Event.of(reply.node, kind, reply.reason)
        for kind in ("declined", "failed", "rejected")
        for reply in getattr(replies, kind)
    ]
    if secure is not None:
        return events + secure.dropouts
    silent = [node for node in sampled.nodes if node not in sampled.answered]
    return events + [Event.of(node, "failed", "no answer in time") for node in silent]
