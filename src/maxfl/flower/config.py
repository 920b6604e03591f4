"""What an operator chose for a federation: checked, and as plain data."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from maxfl.algorithms import fedavg, maxfl
from maxfl.core.aggregators import AggregationRule, Aggregator
from maxfl.core.algorithm import Algorithm
from maxfl.core.metrics import ACCURACY, MetricInfo
from maxfl.flower.privacy import Privacy, validate_privacy
from maxfl.utils.errors import InputError, check_number

RENAMED = {
    "floor": "min_participants",
    "least_replies": "min_replies",
    "largest_norm": "max_update_norm",
    "robust": "aggregator",
    "observe": "observe_only",
    "reveal": "collect_losses",
    "accuracy_key": "metric_key",
}
"""Arguments of earlier versions, and what they are called now."""


OUR_STATE = ("state.*",)
"""Arrays that are state unless an operator says otherwise: those of ``maxfl.Variables``."""


class StrategyConfig(NamedTuple):
    """The settings of ``maxfl.flower.MaxFL``, which says what each of them is."""

    temperature: float
    epsilon: float
    server_lr: float
    decline_after: int | None
    min_participants: int
    min_replies: int
    max_update_norm: float
    aggregator: Aggregator
    observe_only: bool
    collect_losses: bool
    privacy: Privacy | None
    metric: MetricInfo = ACCURACY
    state_arrays: tuple[str, ...] | None = None

    def rate_of(self, name: str) -> float:
        """Return η_g of an array; state of the model, which no gradient trains, is averaged."""
        patterns = OUR_STATE if self.state_arrays is None else self.state_arrays
        is_state = any(fnmatchcase(name, pattern) for pattern in patterns)
        return 1.0 if is_state else self.server_lr

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm whose step the server takes."""
        return fedavg() if self.observe_only else maxfl(self.temperature, self.epsilon)

    @property
    def may_decline(self) -> bool:
        """Whether clients may stay away at all."""
        return self.decline_after is not None and not self.observe_only

    @property
    def private(self) -> bool:
        """Whether results are differentially private."""
        return self.privacy is not None and self.privacy.private

    @property
    def is_plain_mean(self) -> bool:
        """Whether updates are averaged as they are."""
        return self.aggregator.rule is AggregationRule.MEAN and not self.aggregator.clips


def refuse_renamed(arguments: Iterable[str]) -> None:
    """Refuse arguments of earlier versions with their new names."""
    if old := [name for name in arguments if name in RENAMED]:
        new = "; ".join(f"{name}= is called {RENAMED[name]}= now" for name in old)
        raise InputError(f"maxfl.flower.MaxFL: {new}")


def check_state_arrays(config: StrategyConfig, names: Iterable[str]) -> None:
    """Refuse patterns for state that no array of the model matches."""
    known = list(names)
    for pattern in config.state_arrays or ():
        if not any(fnmatchcase(name, pattern) for name in known):
            raise InputError(
                f"state_arrays has {pattern!r}, but the model's arrays are called "
                f"{', '.join(known[:8])}{', ...' if len(known) > 8 else ''}"
            )


def validate(config: StrategyConfig, fraction_evaluate: float) -> None:
    """Refuse settings that make no sense, alone or together."""
    if not isinstance(config.aggregator, Aggregator):
        raise InputError(
            f"aggregator = {config.aggregator!r}: expected one of maxfl.aggregators, such as "
            f"maxfl.aggregators.median()"
        )
    if config.privacy is not None and not isinstance(config.privacy, Privacy):
        raise InputError(f"privacy = {config.privacy!r}: expected a maxfl.flower.Privacy")
    if not isinstance(config.metric, MetricInfo) or not config.metric.name.isidentifier():
        raise InputError(
            f'metric = {config.metric!r}: expected maxfl.metrics.MetricInfo("mae", '
            f"higher_is_better=False), say; its name becomes a column: letters, digits and _"
        )
    maxfl(config.temperature, config.epsilon)  # checks both
    check_number("server_lr", config.server_lr, above=0)
    check_number("min_participants", config.min_participants, least=0, whole=True)
    check_number("min_replies", config.min_replies, least=1, whole=True)
    check_number("max_update_norm", config.max_update_norm, above=0)
    if config.decline_after is not None:
        check_number("decline_after", config.decline_after, least=0, whole=True)
    if config.observe_only and not config.is_plain_mean:
        raise InputError(
            "observe_only=True trains as FedAvg does: aggregator= has no effect, leave it out"
        )
    if config.privacy is not None:
        validate_privacy(config.privacy)
        _refuse_with_privacy(config, fraction_evaluate)


def _refuse_with_privacy(config: StrategyConfig, fraction_evaluate: float) -> None:
    """Refuse settings by which the server would learn more than sums."""
    revealing = {
        "collect_losses=True": config.collect_losses,
        "observe_only=True": config.observe_only,
        "aggregator=": not config.is_plain_mean,
        "fraction_evaluate above 0 (set fraction_evaluate=0)": fraction_evaluate > 0,
    }
    if chosen := [name for name, is_chosen in revealing.items() if is_chosen]:
        raise InputError(
            f"privacy can't be had together with {', '.join(chosen)}: the server would learn more "
            f"of single clients than the sums"
        )


def describe(
    config: StrategyConfig, rounds: int, fraction_train: float, examples_key: str
) -> dict[str, Any]:
    """Return the settings under the names that a simulation has for them."""
    algorithm, aggregator = config.algorithm, config.aggregator
    hparams = {} if config.observe_only else _floats(algorithm.hparams)
    return {
        "algorithm": {"name": algorithm.name, **hparams},
        "training": {"rounds": rounds, "server_lr": config.server_lr},
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
        },
        "privacy": None if config.privacy is None else config.privacy._asdict(),
        "flower": {
            "fraction_train": fraction_train,
            "collect_losses": config.collect_losses,
            # Accuracy goes without saying, so that older folders stay the same experiments.
            **({} if config.metric == ACCURACY else {"metric": config.metric._asdict()}),
        },
    }


def _floats(hparams: Any) -> dict[str, float]:
    return {name: float(value) for name, value in hparams._asdict().items()}
