"""What an operator chose for a federation: checked, and as plain data."""

import math
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple

from maxfl.algorithms import fedavg, maxfl, maxfl_auto
from maxfl.core.aggregators import AggregationRule, Aggregator
from maxfl.core.algorithm import Algorithm
from maxfl.core.metrics import ACCURACY, MetricInfo
from maxfl.core.schedules import Schedule, ScheduleKind, exponential
from maxfl.flower.privacy import Privacy, validate_privacy
from maxfl.flower.replies.sort import ReplyLimits
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


AUTO: Literal["auto"] = "auto"
"""In place of a temperature: one that follows the clients' gaps."""
LEAST_PARTICIPANTS = 2
"""Where no min_participants is chosen; or all, where fewer are sampled."""
SHRINKING = exponential(end=0.18)
"""η_g over the rounds, where the temperature follows the gaps and no schedule is chosen."""


class StrategyConfig(NamedTuple):
    """The settings of ``maxfl.flower.MaxFL``, which says what each of them is."""

    temperature: float | Literal["auto"]
    scale: float | None
    epsilon: float | None
    server_lr: float
    server_schedule: Schedule | None
    decline_after: int | None
    min_participants: int | None
    min_replies: int
    max_update_norm: float | None
    aggregator: Aggregator
    observe_only: bool
    collect_losses: bool
    privacy: Privacy | None
    metric: MetricInfo = ACCURACY
    state_arrays: tuple[str, ...] | None = None

    def is_state(self, name: str) -> bool:
        """Return whether an array is state, which no gradient trains and the server averages."""
        patterns = OUR_STATE if self.state_arrays is None else self.state_arrays
        return any(fnmatchcase(name, pattern) for pattern in patterns)

    @property
    def follows_gaps(self) -> bool:
        """Whether the temperature follows the clients' gaps."""
        return self.temperature == AUTO and not self.observe_only

    @property
    def quantile(self) -> float | None:
        """p, which clients in a tie answer with; None where the temperature is fixed."""
        return float(self.algorithm.hparams.quantile) if self.follows_gaps else None

    @property
    def fixed_temperature(self) -> float:
        """T where it does not; one who only observes sees weights at the paper's."""
        return 1.0 if self.temperature == AUTO else float(self.temperature)

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm whose step the server takes."""
        if self.observe_only:
            return fedavg()
        epsilon = {} if self.epsilon is None else {"epsilon": self.epsilon}
        if self.temperature == AUTO:
            return maxfl_auto(scale=0.0 if self.scale is None else self.scale, **epsilon)
        return maxfl(self.temperature, **epsilon)

    @property
    def step_epsilon(self) -> float:
        """ε of the server's step; FedAvg has none."""
        return 0.0 if self.observe_only else float(self.algorithm.hparams.epsilon)

    @property
    def chosen_schedule(self) -> Schedule:
        """η_g over the rounds: where none is given, it shrinks beside the temperature."""
        if self.server_schedule is not None:
            return self.server_schedule
        return SHRINKING if self.follows_gaps else Schedule()

    @property
    def may_decline(self) -> bool:
        """Whether clients may stay away at all."""
        return self.decline_after is not None and not self.observe_only

    def least_participants(self, sampled: int) -> int:
        """Return with how many participants, of so many sampled clients, others may stay away.

        By default two: with none the model stays as it was, so nobody would ever come back, and
        with one it becomes that client's alone.
        """
        if self.min_participants is None:
            return min(LEAST_PARTICIPANTS, sampled)
        return self.min_participants

    def reply_limits(self, examples_key: str, *, needs_gap: bool) -> ReplyLimits:
        """Return what replies must keep to, in a round that asks for gaps or does not."""
        # What is clipped need not be rejected; and who is, noise could not hide.
        private = self.privacy is not None
        return ReplyLimits(
            math.inf if private else self.max_update_norm, examples_key,
            needs_examples=self.observe_only, quantile=self.quantile,
            clips=private or self.aggregator.clips, needs_gap=needs_gap,
        )  # fmt: skip

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


def check_rounds(config: StrategyConfig, rounds: int) -> None:
    """Refuse so few rounds that nobody could ever decline."""
    if config.decline_after is not None and config.decline_after >= rounds:
        raise InputError(
            f"decline_after = {config.decline_after}, but there are only {rounds} rounds: nobody "
            f"could ever decline. Lower it, or leave it out"
        )


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
    _check_solver(config)
    check_number("server_lr", config.server_lr, above=0)
    if isinstance(config.server_lr, Iterable):
        raise InputError(
            f"server_lr = {config.server_lr!r:.60}: expected one number; on Flower there is one "
            f"configuration"
        )
    if config.min_participants is not None:
        check_number("min_participants", config.min_participants, least=0, whole=True)
    check_number("min_replies", config.min_replies, least=1, whole=True)
    if config.max_update_norm is not None:
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


def _check_solver(config: StrategyConfig) -> None:
    """Refuse a temperature, an ε or a schedule that is none."""
    if isinstance(config.temperature, str) and config.temperature != AUTO:
        raise InputError(
            f'temperature = {config.temperature!r}: expected "auto", by which it follows the '
            f"clients' gaps, or a number"
        )
    if config.scale is not None:
        check_number("scale", config.scale, above=0)
        if config.temperature != AUTO:
            raise InputError(
                f"scale = {config.scale} is where a temperature begins that follows the clients' "
                f"gaps, and temperature = {config.temperature} does not: leave one of them out"
            )
    _ = config._replace(observe_only=False).algorithm  # checks the other numbers
    if config.server_schedule is not None and not isinstance(config.server_schedule, Schedule):
        raise InputError(
            f"server_schedule = {config.server_schedule!r:.60}: expected one of maxfl.schedules, "
            f"such as maxfl.schedules.cosine()"
        )


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
    if config.private and config.follows_gaps and config.scale is None:
        raise InputError(
            'temperature="auto" begins at the mean gap between losses and requirements in the '
            "first round, which can be of any size, so that no noise hides what a client adds to "
            "it: say scale=0.5, or whatever gap you expect; from there on clients are counted"
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
        },
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


def _floats(hparams: Any) -> dict[str, float]:
    return {name: float(value) for name, value in hparams._asdict().items()}
