"""What is compiled in: two equal specs share one program."""

from typing import NamedTuple

from maxfl.core.aggregators import AggregationRule
from maxfl.core.algorithm import Algorithm
from maxfl.core.criterion import Criterion
from maxfl.core.local_optimizers import LocalOptimizer
from maxfl.core.model import Model
from maxfl.core.participation import ParticipationRule
from maxfl.core.schedules import Schedule
from maxfl.core.server_optimizers import OptimizerKind
from maxfl.engine.layout import Layout


class Spec(NamedTuple):
    """Everything that shapes the program of the rounds.

    Attributes:
        model: The model.
        algorithm: The method, without its hyper-parameters.
        criterion: What clients judge the model by.
        participation: The participation rule.
        server_optimizer: The server's optimizer.
        local_optimizer: The clients' optimizer, without its hyper-parameters.
        local_schedule: η_l over the rounds, without its hyper-parameters.
        server_schedule: η_g over the rounds, likewise.
        aggregator: How updates are aggregated.
        clips: Whether updates are clipped.
        attacked: Whether some clients are Byzantine.
        flip_labels: Whether these train on reversed labels.
        collude: Whether these add the same noise.
        finetunes: Whether clients fine-tune the model before they evaluate it.
        classes: Number of classes; None where labels are something else.
        seen: M, the clients that can be sampled.
        cohort: m, clients sampled in a round.
        local_steps: τ, where it is compiled in; None where every configuration has its own.
        batch_size: The largest b of the sweep.
        masks_batches: Whether some configurations take smaller minibatches.
        models: The largest K of the sweep, the number of global models.
        period: Most rounds between two evaluations.
        layout: Devices.
    """

    model: Model
    algorithm: Algorithm
    criterion: Criterion
    participation: ParticipationRule
    server_optimizer: OptimizerKind
    local_optimizer: LocalOptimizer
    local_schedule: Schedule
    server_schedule: Schedule
    aggregator: AggregationRule
    clips: bool
    attacked: bool
    flip_labels: bool
    collude: bool
    finetunes: bool
    classes: int | None
    seen: int
    cohort: int
    local_steps: int | None
    batch_size: int
    masks_batches: bool
    models: int
    period: int
    layout: Layout

    @property
    def measures_everyone(self) -> bool:
        """Whether every client measures the model in every round, to know who is willing."""
        return self.participation is ParticipationRule.OPT_OUT

    @property
    def has_portfolio(self) -> bool:
        """Whether there are several global models: leaves of parameters have an axis [models]."""
        return self.models > 1

    @property
    def has_personal_models(self) -> bool:
        """Whether clients use another model than the global one."""
        return self.finetunes or self.algorithm.personalize is not None

    @property
    def gathers_updates(self) -> bool:
        """Whether the aggregator is no sum, and must see all updates at once."""
        return self.aggregator is not AggregationRule.MEAN


class SoloSpec(NamedTuple):
    """What shapes the program in which clients train alone: no method and no rule.

    Attributes:
        model: The model.
        batch_size: The largest b of the sweep.
        masks_batches: Whether some configurations take smaller minibatches.
        steps: Local steps, where they are compiled in; None where they are an argument.
        local_optimizer: What takes them, without its hyper-parameters.
        layout: Devices.
        criterion: What clients judge a model by.
    """

    model: Model
    batch_size: int
    masks_batches: bool
    steps: int | None
    local_optimizer: LocalOptimizer
    layout: Layout
    criterion: Criterion
