"""The settings of a run: every key with its type, its default and its meaning."""

from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
)

from maxfl.core.local_optimizers import ADAMW_DECAY
from maxfl.core.portfolio import PATIENCE
from maxfl.runs.configs.algorithm import AlgorithmConfig
from maxfl.runs.configs.data import DataConfig
from maxfl.runs.configs.model import MlpConfig, ModelConfig
from maxfl.runs.configs.requirement import RequirementConfig
from maxfl.runs.configs.section import Fraction, Section


class TrainingConfig(Section):
    """Rounds, local steps and learning rates."""

    rounds: PositiveInt = Field(200, description="number of rounds R")
    cohort: PositiveInt = Field(5, description="clients sampled per round, m")
    local_steps: PositiveInt = Field(30, description="SGD steps of a client per round, τ")
    batch_size: PositiveInt = Field(32, description="samples per minibatch, b")
    local_lr: PositiveFloat = Field(0.05, description="learning rate of the clients, η_l")
    server_lr: PositiveFloat = Field(1.0, description="learning rate of the server, η_g")
    evaluate_every: PositiveInt = Field(5, description="rounds between two evaluations")
    checkpoint_every: PositiveInt = Field(
        20, description="approximate number of rounds between two checkpoints"
    )


class LocalConfig(Section):
    """The optimizer of the clients."""

    optimizer: Literal["sgd", "momentum", "adam", "adamw"] = Field(
        "sgd",
        description="optimizer of the local steps and of solo training; adam and adamw need a "
        "training.local_lr near 0.001",
    )
    beta1: Fraction = Field(0.9, description="for all but sgd: decay rate of the first moment")
    beta2: Fraction = Field(
        0.999, description="for adam and adamw: decay rate of the second moment"
    )
    eps: PositiveFloat = Field(1e-8, description="for adam and adamw: ε in the denominator")
    weight_decay: NonNegativeFloat | None = Field(
        None,
        description="weight decay λ: decoupled for adamw, part of the gradient otherwise; by "
        "default, 0.01 for adamw and 0 otherwise",
    )
    clip_norm: PositiveFloat | None = Field(None, description="norm to which gradients are clipped")

    @property
    def decay(self) -> float:
        """λ, as given or by default."""
        default = ADAMW_DECAY if self.optimizer == "adamw" else 0.0
        return default if self.weight_decay is None else self.weight_decay


Curve = Literal["constant", "linear", "cosine", "exponential"]


class ScheduleConfig(Section):
    """Schedules of the learning rates over the rounds."""

    local: Curve = Field("constant", description="how η_l falls over the rounds")
    local_end: PositiveFloat = Field(0.1, description="factor applied to η_l in the last round")
    local_warmup: NonNegativeInt = Field(
        0, description="warm-up: rounds over which η_l first rises"
    )
    local_rounds: PositiveInt | None = Field(
        None, description="rounds over which η_l falls; by default, all"
    )
    server: Curve = Field("constant", description="how η_g falls over the rounds")
    server_end: PositiveFloat = Field(0.1, description="factor applied to η_g in the last round")
    server_warmup: NonNegativeInt = Field(
        0, description="warm-up: rounds over which η_g first rises"
    )
    server_rounds: PositiveInt | None = Field(
        None, description="rounds over which η_g falls; by default, all"
    )


class ParticipationConfig(Section):
    """Which clients participate."""

    rule: Literal["everyone", "opt-out", "decline"] = Field(
        "everyone",
        description="what dissatisfied clients do. everyone: they train all the same; opt-out: "
        "they cannot be sampled; decline: they are sampled and refuse",
    )
    start_round: NonNegativeInt = Field(
        10, description="number of rounds after which clients may opt out or decline"
    )
    client_dropout: Fraction = Field(
        0.0, description="probability that a sampled client fails to reply"
    )
    max_candidates: PositiveInt | None = Field(
        None,
        description="for opt-out with data.source = disk: maximum number of clients that are shown "
        "the model per round, until enough are willing",
    )


class ServerConfig(Section):
    """How the server aggregates the updates, and its optimizer."""

    optimizer: Literal["sgd", "momentum", "adam", "yogi"] = Field(
        "sgd",
        description="optimizer of the server, which steps along the method's direction; adam and "
        "yogi need a training.server_lr near 0.01",
    )
    beta1: Fraction = Field(0.9, description="for momentum, adam, yogi: decay rate, first moment")
    beta2: Fraction = Field(0.99, description="for adam, yogi: decay rate, second moment")
    eps: PositiveFloat = Field(1e-3, description="for adam, yogi: ε in the denominator")
    aggregator: Literal["mean", "median", "trimmed-mean", "krum"] = Field(
        "mean", description="how updates are aggregated"
    )
    by_weight: bool = Field(
        False,
        description="for median, trimmed-mean, krum: whether updates count by their weights, which "
        "Byzantine clients can inflate; otherwise each client has one vote",
    )
    clip_norm: PositiveFloat | None = Field(None, description="norm to which updates are clipped")
    trim_fraction: Annotated[float, Field(ge=0, lt=0.5)] = Field(
        0.2, description="for trimmed-mean: fraction of clients trimmed at each end"
    )
    num_byzantine: NonNegativeInt = Field(
        1, description="for krum: number of clients in a cohort that may be Byzantine"
    )
    num_selected: PositiveInt = Field(
        1, description="for krum: number of updates selected; more than 1 is multi-Krum"
    )


class AttackConfig(Section):
    """Byzantine clients, and what they do."""

    fraction: Fraction = Field(0.0, description="fraction of the seen clients that are Byzantine")
    loss_inflation: float = Field(0.0, description="amount that they add to the losses they report")
    noise_std: NonNegativeFloat = Field(
        0.0, description="standard deviation of the noise they add to their updates"
    )
    update_scale: float = Field(
        1.0, description="factor by which they multiply their updates; -1 flips the sign"
    )
    flip_labels: bool = Field(False, description="whether they train on reversed labels")
    collude: bool = Field(False, description="whether all of them add the same noise")


class PersonalizationConfig(Section):
    """Personal models, by fine-tuning."""

    finetune_steps: NonNegativeInt = Field(
        0,
        description="SGD steps by which each client fine-tunes the global model. MaxFL's weights "
        "and the figures of personal models use the result; opting out is decided by the model "
        "as received",
    )


class PortfolioConfig(Section):
    """Several global models."""

    models: PositiveInt = Field(
        1, description="number of global models K; each client picks the one that suits it best"
    )
    patience: NonNegativeInt = Field(
        PATIENCE,
        description="for several models: a model starts anew if none of the last patience · models "
        "participants picked it; 0 for never",
    )


class RunConfig(Section):
    """A whole run."""

    seed: Annotated[int, Field(ge=0, lt=2**32)] = Field(0, description="seed of all random draws")
    data: DataConfig = DataConfig()
    model: ModelConfig = MlpConfig()
    training: TrainingConfig = TrainingConfig()
    local: LocalConfig = LocalConfig()
    schedule: ScheduleConfig = ScheduleConfig()
    algorithm: AlgorithmConfig = AlgorithmConfig()
    requirement: RequirementConfig = RequirementConfig()
    participation: ParticipationConfig = ParticipationConfig()
    server: ServerConfig = ServerConfig()
    attack: AttackConfig = AttackConfig()
    personalization: PersonalizationConfig = PersonalizationConfig()
    portfolio: PortfolioConfig = PortfolioConfig()

    def as_json(self) -> dict[str, Any]:
        """Return all settings as JSON can hold them; own code is no fault.

        One model is no portfolio: folders from before there were any are the same experiment.
        """
        left_out = {"portfolio"} if self.portfolio.models == 1 else None
        return self.model_dump(mode="json", warnings=False, exclude=left_out)
