"""What clients are told in a round beside the model: how to weigh, to decide and to train."""

from logging import WARNING

from flwr.common.logger import log

from maxfl.flower import keys
from maxfl.flower.config import StrategyConfig
from maxfl.flower.round_log import Solver
from maxfl.flower.server.methods import fairness_of, pull_of
from maxfl.flower.sums import Counts


def instructions(
    config: StrategyConfig, solver: Solver, *, may_decline: bool
) -> dict[str, float | bool]:
    """Return the config of a round's messages."""
    of_method = {
        keys.QUANTILE: config.quantile,
        keys.SCALE: None if config.quantile is None else solver.scale,
        keys.FAIRNESS: fairness_of(config.stepping),
        keys.PROXIMAL_MU: pull_of(config.stepping),
    }
    return {
        keys.TEMPERATURE: solver.temperature,
        **{key: value for key, value in of_method.items() if value is not None},
        keys.MAY_DECLINE: may_decline,
        keys.COLLECT_LOSSES: config.collect_losses,
    }


def may_clients_decline(config: StrategyConfig, number: int, before: Counts | None) -> bool:
    """Return whether clients may stay away in a round, by how they answered in the one before."""
    if config.decline_after is None or number <= config.decline_after or config.observe_only:
        return False
    least = 0 if before is None else config.least_participants(before.sampled)
    if before is not None and before.participated < least:
        log(WARNING, "only %d clients participated, fewer than min_participants = %d: nobody "
            "may decline in round %d", before.participated, least, number)  # fmt: skip
        return False
    return True
