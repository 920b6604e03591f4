"""What an operator chose as plain data, under the names that a simulation has for it."""

from typing import Any

from maxfl.core.metrics import ACCURACY
from maxfl.core.schedules import Schedule, ScheduleKind
from maxfl.core.server_optimizers import OptimizerKind, ServerOptimizer
from maxfl.flower.config import StrategyConfig
from maxfl.flower.server.offers import PICKED


def describe(
    config: StrategyConfig, rounds: int, fraction_train: float, examples_key: str
) -> dict[str, Any]:
    """Return the settings under the names that a simulation has for them."""
    algorithm, aggregator = config.stepping, config.aggregator
    local_lr = config.local_lr
    hparams = {} if config.observe_only else _floats(algorithm.hparams)
    return {
        "algorithm": {"name": algorithm.name, **hparams},
        "training": {
            "rounds": rounds,
            "server_lr": config.server_lr,
            **({} if local_lr is None else {"local_lr": float(local_lr)}),
        },
        **_describe_schedule(config.chosen_schedule, rounds),
        "requirement": {"kind": "clients"},
        "participation": {
            "rule": "decline" if config.may_decline else "everyone",
            "start_round": config.decline_after,
            "min_participants": config.min_participants,
        },
        "replies": {
            "min_replies": config.min_replies,
            "examples": examples_key,
            "max_update_norm": config.max_update_norm,
        },
        "server": {
            "aggregator": aggregator.rule.value,
            "clips": aggregator.clips,
            **_floats(aggregator.hparams),
            **({"state_arrays": list(config.state_arrays)} if config.state_arrays else {}),
            **({"trained_arrays": list(config.trained_arrays)} if config.trained_arrays else {}),
            **_describe_optimizer(config.server_optimizer),
        },
        **_describe_portfolio(config),
        "privacy": None if config.privacy is None else config.privacy._asdict(),
        "flower": {
            "fraction_train": fraction_train,
            "collect_losses": config.collect_losses,
            # Accuracy goes without saying, so that older folders stay the same experiments.
            **({} if config.metric == ACCURACY else {"metric": config.metric._asdict()}),
        },
    }


def _describe_schedule(schedule: Schedule, rounds: int) -> dict[str, Any]:
    """Return how η_g goes over the rounds; nothing where it stays, as in older folders."""
    if schedule.kind is ScheduleKind.CONSTANT and not schedule.warms_up:
        return {}
    end, warmup, over = schedule.hparams
    numbers = {"end": end, "warmup": warmup, "rounds": rounds if over is None else over}
    described = {f"server_{name}": float(number) for name, number in numbers.items()}
    return {"schedule": {"server": str(schedule.kind), **described}}


def _describe_portfolio(config: StrategyConfig) -> dict[str, Any]:
    """Return how many models there are and how they travel; nothing of one, as in older folders."""
    if not config.has_portfolio:
        return {}
    hparams = config.portfolio_hparams
    described = {name: int(value) for name, value in hparams._asdict().items()}
    offers = config.offers._asdict() if config.offers.message == PICKED else {}
    return {"portfolio": described | offers}


def _describe_optimizer(optimizer: ServerOptimizer) -> dict[str, Any]:
    """Return the server's optimizer; nothing of plain steps, as in older folders."""
    if optimizer.kind is OptimizerKind.SGD:
        return {}
    return {"optimizer": optimizer.kind.value, **_floats(optimizer.hparams)}


def _floats(hparams: Any) -> dict[str, float]:
    if hparams == ():  # a method without hyper-parameters
        return {}
    return {name: float(value) for name, value in hparams._asdict().items()}
