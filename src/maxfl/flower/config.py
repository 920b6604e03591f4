"""What an operator chose for a federation: checked, and as plain data."""

import math
from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np

from maxfl.algorithms import fedavg
from maxfl.core.aggregators import AggregationRule, Aggregator
from maxfl.core.algorithm import Algorithm
from maxfl.core.metrics import ACCURACY, MetricInfo
from maxfl.core.portfolio import Portfolio, PortfolioHParams
from maxfl.core.schedules import Schedule, exponential
from maxfl.core.server_optimizers import OptimizerKind, ServerOptimizer
from maxfl.flower.privacy import Privacy, validate_privacy
from maxfl.flower.replies.sort import ReplyLimits
from maxfl.flower.server.methods import BY_WEIGHT, epsilon_of, fairness_of, weighs_by_samples
from maxfl.flower.server.offers import ALL, PICKED, Offers, check_offers
from maxfl.utils.errors import InputError, check_number, shorten

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


LEAST_PARTICIPANTS = 2
"""Where no min_participants is chosen; or all, where fewer are sampled."""
SHRINKING = exponential(end=0.18)
"""η_g over the rounds, where the temperature follows the gaps and no schedule is chosen."""


ADAPTIVE_RATE = 1.0
"""Adam and Yogi move each weight by about η_g: at so much, which is the default, nothing trains."""


class StrategyConfig(NamedTuple):
    """The settings of ``maxfl.flower.MaxFL``, which says what each of them is."""

    algorithm: Algorithm
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
    trained_arrays: tuple[str, ...] | None = None
    server_optimizer: ServerOptimizer = ServerOptimizer()
    local_lr: float | None = None
    portfolio: Portfolio = Portfolio()
    offers: Offers = Offers()

    @property
    def models(self) -> int:
        """K, the number of global models."""
        return self.portfolio.most_models

    @property
    def has_portfolio(self) -> bool:
        """Whether there are several global models: arrays have a leading axis [models]."""
        return self.models > 1

    @property
    def portfolio_hparams(self) -> PortfolioHParams:
        """Hyper-parameters of the portfolio, by the rules of the method."""
        return self.portfolio.hparams_for(self.algorithm)

    def is_state(self, name: str) -> bool:
        """Return whether an array is state, which no gradient trains and the server averages."""
        patterns = OUR_STATE if self.state_arrays is None else self.state_arrays
        return any(fnmatchcase(name, pattern) for pattern in patterns)

    @property
    def follows_gaps(self) -> bool:
        """Whether the temperature follows the clients' gaps."""
        return self.algorithm.name == "maxfl-auto" and not self.observe_only

    @property
    def quantile(self) -> float | None:
        """p, which clients in a tie answer with; None where the temperature is fixed."""
        return float(self.algorithm.hparams.quantile) if self.follows_gaps else None

    @property
    def stepping(self) -> Algorithm:
        """The algorithm whose step the server takes; one who only observes trains by FedAvg."""
        return fedavg(by_size=1.0) if self.observe_only else self.algorithm

    @property
    def step_epsilon(self) -> float:
        """ε of the server's step; FedAvg has none."""
        return epsilon_of(self.stepping)

    @property
    def by_examples(self) -> bool:
        """Whether clients weigh by their samples."""
        return bool(weighs_by_samples(self.stepping))

    @property
    def local_rate(self) -> float:
        """η_l of the clients, where q-FFL's step needs it; checked to be there."""
        return math.nan if self.local_lr is None else float(self.local_lr)

    @property
    def corrects_drift(self) -> bool:
        """Whether control variates travel beside the model, as in SCAFFOLD."""
        return self.stepping.name == "scaffold"

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

    def reply_limits(
        self,
        examples_key: str,
        *,
        needs_gap: bool,
        offered: Mapping[int, Collection[int]] | None = None,
    ) -> ReplyLimits:
        """Return what replies must keep to, in a round that asks for gaps or does not.

        ``offered`` are the models of a portfolio that each node may train.
        """
        # What is clipped need not be rejected; and who is, noise could not hide.
        private = self.privacy is not None
        return ReplyLimits(
            math.inf if private else self.max_update_norm, examples_key,
            needs_examples=self.by_examples, quantile=self.quantile,
            clips=private or self.aggregator.clips, needs_gap=needs_gap,
            fairness=fairness_of(self.stepping), offered=offered,
            needs_unmet_gap=self.has_portfolio and bool(self.portfolio_hparams.patience > 0),
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
    check_number("server_lr", config.server_lr, above=0)
    if isinstance(config.server_lr, Iterable):
        raise InputError(
            f"server_lr = {config.server_lr!r:.60}: expected one number; on Flower there is one "
            f"configuration"
        )
    _check_step(config)
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
    _refuse_with_algorithm(config)
    _check_portfolio(config)


def _check_portfolio(config: StrategyConfig) -> None:
    """Refuse several models where they have no meaning, and what is for them where there is one."""
    if not isinstance(config.portfolio, Portfolio):
        raise InputError(
            f"portfolio = {shorten(config.portfolio)}: expected maxfl.portfolio(models=3), say"
        )
    if any(np.ndim(number) for number in config.portfolio.hparams):
        raise InputError(
            f"portfolio = {shorten(config.portfolio)} has arrays, which are of a sweep: on Flower "
            f"there is one configuration"
        )
    check_offers(config.offers)
    picked_alone = config.offers.message == PICKED
    if not config.has_portfolio:
        if picked_alone:
            raise InputError(
                f'portfolio_message = "{PICKED}" is for several models: give '
                f"portfolio=maxfl.portfolio(models=3), say, or leave it out"
            )
        return
    if config.corrects_drift:
        raise InputError(
            "scaffold keeps something at the server that is made of the updates of one model, and "
            "a portfolio has several: leave portfolio= out, or take a method such as maxfl-auto, "
            "fedavg or ifca"
        )
    if config.observe_only:
        raise InputError(
            "observe_only=True trains one model as FedAvg does: leave portfolio= out, or take "
            'algorithm="ifca", which is FedAvg with several models'
        )
    if config.private:
        raise InputError(
            "noise hides what a client adds to the sums of one model: with several (portfolio=), "
            "the gaps by which one starts anew can be of any size. Take privacy=Privacy(clip=..., "
            "secure=True) without noise_multiplier, or leave portfolio= out"
        )
    if config.privacy is not None and picked_alone:
        raise InputError(
            f'portfolio_message = "{PICKED}" needs to know which model a client picked, and secure '
            f'sums hide it: take "{ALL}", or leave privacy= out'
        )


def _refuse_with_algorithm(config: StrategyConfig) -> None:
    """Refuse settings that a method's step has no use for, and those that it lacks."""
    name = config.algorithm.name
    if config.observe_only and name not in BY_WEIGHT:
        raise InputError(
            f"observe_only=True trains as FedAvg does: algorithm = {name} has no effect, leave "
            f"one of them out"
        )
    if (name == "qffl") != (config.local_lr is not None):
        raise InputError(
            "q-FFL's step needs local_lr=, the learning rate of the clients"
            if name == "qffl"
            else f"local_lr = {config.local_lr}: only the step of q-FFL needs the clients' rate"
        )
    if config.local_lr is not None:
        rate: Any = config.local_lr
        if isinstance(rate, str) or np.ndim(rate):
            raise InputError(f"local_lr = {shorten(rate)}: expected one number")
        check_number("local_lr", rate, above=0)
    if name in ("qffl", "scaffold") and not config.is_plain_mean:
        raise InputError(
            f"aggregator= together with algorithm = {name}: what travels beside its updates can't "
            f"be aggregated robustly; take maxfl, fedavg or fedprox, or leave aggregator= out"
        )


def _check_step(config: StrategyConfig) -> None:
    """Refuse an optimizer, a schedule or patterns that can't be meant."""
    if not isinstance(config.server_optimizer, ServerOptimizer):
        raise InputError(
            f"server_optimizer = {shorten(config.server_optimizer)}: expected one of "
            f"maxfl.server_optimizers, such as maxfl.server_optimizers.adam()"
        )
    if config.trained_arrays is not None and not config.trained_arrays:
        raise InputError("trained_arrays = []: nothing would travel; leave it out for all arrays")
    adaptive = config.server_optimizer.kind in (OptimizerKind.ADAM, OptimizerKind.YOGI)
    if adaptive and config.server_lr >= ADAPTIVE_RATE:
        raise InputError(
            f"server_lr = {config.server_lr} with {config.server_optimizer.kind}: every weight "
            f"would move by about that in each round; the usual values are near 0.01"
        )
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
        f"algorithm = {config.algorithm.name}": config.algorithm.name in ("qffl", "scaffold"),
        f"{config.algorithm.name}, which weighs by samples": config.by_examples
        and not config.observe_only,
        "fraction_evaluate above 0 (set fraction_evaluate=0)": fraction_evaluate > 0,
    }
    if chosen := [name for name, is_chosen in revealing.items() if is_chosen]:
        raise InputError(
            f"privacy can't be had together with {', '.join(chosen)}: the server would learn more "
            f"of single clients than the sums"
        )
    if config.private and config.follows_gaps and config.algorithm.hparams.scale == 0:
        raise InputError(
            'temperature="auto" begins at the mean gap between losses and requirements in the '
            "first round, which can be of any size, so that no noise hides what a client adds to "
            "it: say scale=0.5, or whatever gap you expect; from there on clients are counted"
        )
