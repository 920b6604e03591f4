"""The settings of a run: every key with its type, its default and its meaning."""

import inspect
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from maxfl.algorithms import ALGORITHMS
from maxfl.core.local_optimizers import ADAMW_DECAY
from maxfl.data.text import compiled
from maxfl.runs.model_config import MlpConfig, ModelConfig
from maxfl.runs.section import Fraction, Section
from maxfl.utils.errors import did_you_mean

LEAF = ("leaf-femnist", "leaf-shakespeare", "leaf-reddit")
AT_PATH = (*LEAF, "text")
"""Sources that are read where `path` says, and have their clients."""
TWEETS_OF_A_USER = 50
"""The paper's users have at least so many, and so have the made-up ones of the stand-in."""


class DataConfig(Section):
    """Where the samples come from, and how they are split over clients."""

    source: Literal[
        "fashion-mnist-12k",
        "fashion-mnist",
        "emnist-byclass",
        "emnist-bymerge",
        "emnist-balanced",
        "emnist-letters",
        "emnist-digits",
        "emnist-mnist",
        "sent140",
        "sent140-stand-in",
        "digits",
        "synthetic",
        "leaf-femnist",
        "leaf-shakespeare",
        "leaf-reddit",
        "text",
        "arrays",
        "disk",
    ] = Field(
        "fashion-mnist-12k",
        description="see `maxfl data list`; leaf-...: LEAF's JSON files, and text: your own text, "
        "at `path`; arrays: your own `file`; disk: a `folder` of `maxfl data write`, of which a "
        "cohort at a time is in memory",
    )
    dir: Path | None = Field(
        None, strict=False, description="folder to look for data sets in, before `MAXFL_DATA`"
    )
    part: Literal["train", "test", "both"] = Field(
        "both", description="the publisher's split of images that samples are drawn from"
    )
    vectors: str = Field(
        "glove.6B.200d", description="for tweets: GloVe file without .txt, of any dimension"
    )
    synthetic_alpha: NonNegativeFloat = Field(
        1.0, description="for synthetic: how much clients' models differ"
    )
    synthetic_beta: NonNegativeFloat = Field(
        1.0, description="for synthetic: how much clients' features differ"
    )
    synthetic_samples: Annotated[int, Field(ge=2)] | None = Field(
        None, description="for synthetic: samples of every client; by default sizes are log-normal"
    )
    path: Path | None = Field(
        None,
        strict=False,
        description="for leaf-..., a folder that LEAF's preprocess.sh has written, or one file of "
        "it; for text, a file in UTF-8; seen from the current folder",
    )
    sequence_length: PositiveInt = Field(80, description="for text: characters of a sample")
    role_pattern: str | None = Field(
        None,
        description="for text: a regular expression with one group, the role's name, that says "
        "where a role begins to speak, as `^([A-Z ]+):`; roles are the clients. By default they "
        "are `clients` + `unseen` equal stretches of the file",
    )
    vocabulary: Annotated[int, Field(ge=3)] = Field(
        10_000, description="for leaf-reddit: most frequent tokens, with `<PAD>` and `<UNK>`"
    )
    file: Path | None = Field(
        None,
        strict=False,
        description="for source = arrays, a .npz seen from the current folder: x [n, ...], "
        "y [n, ...] and, if there, client [n]",
    )
    folder: Path | None = Field(
        None,
        strict=False,
        description="for source = disk, seen from the current folder; the other settings here, but "
        "`eval_clients`, are as they were when it was written",
    )
    eval_clients: PositiveInt = Field(
        1000, description="for disk: seen clients, and unseen ones, that evaluate the model"
    )
    partition: Literal[
        "dirichlet", "dirichlet-unequal", "clusters", "shards", "iid", "by-owner"
    ] = Field(
        "dirichlet",
        description="dirichlet-unequal uses all samples; by-owner takes the data's own clients, "
        "and is the default of leaf-... and text",
    )
    clients: PositiveInt = Field(
        50,
        description="seen clients; by-owner: as many as the data have, but for synthetic and for "
        "text without `role_pattern`",
    )
    unseen: NonNegativeInt = Field(50, description="unseen clients")
    samples: Annotated[int, Field(ge=2)] = Field(
        100,
        description="samples per client, training and test together; not for by-owner and "
        "dirichlet-unequal",
    )
    min_samples: Annotated[int, Field(ge=2)] = Field(
        2,
        description="by-owner leaves smaller clients out; dirichlet-unequal fills them up",
    )
    alpha: PositiveFloat = Field(0.5, description="for dirichlet: small is skewed")
    clusters: PositiveInt = Field(5, description="for clusters: groups of labels")
    shards: PositiveInt = Field(
        2, description="for shards: pieces of the data sorted by label that a client has"
    )
    train_fraction: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.6,
        description="fraction of a client's samples for training; where leaf-... has train/ and "
        "test/, that split is kept",
    )
    flipped_fraction: Annotated[float, Field(ge=0, le=1)] = Field(
        0.0, description="fraction of clients with flipped labels"
    )
    flip: Literal["reverse", "shift", "permute"] = Field(
        "reverse", description="y → classes − 1 − y, y → y + 1, or along a random cycle"
    )
    evaluate_on: Literal["test", "validation"] = Field(
        "test", description="validation: leave test data out, hold out 1/4 of the training data"
    )
    seed: NonNegativeInt | None = Field(
        None, description="seed of the partition; by default the run's seed"
    )

    @model_validator(mode="before")
    @classmethod
    def _takes_owners(cls, given: Any) -> Any:
        """Choose the partition of data that have their clients."""
        owned = isinstance(given, dict) and given.get("source") in AT_PATH
        return {"partition": "by-owner", **given} if owned else given

    @model_validator(mode="after")
    def _fits(self) -> "DataConfig":
        if (self.source in AT_PATH) != (self.path is not None):
            raise ValueError(
                f"`path` and source = {' or '.join(AT_PATH)} go together: give both or neither; "
                f'`file` is for source = "arrays" and `folder` for "disk"'
            )
        if (self.source == "arrays") != (self.file is not None):
            raise ValueError('`file` and source = "arrays" go together: give both or neither')
        if (self.source == "disk") != (self.folder is not None):
            raise ValueError('`folder` and source = "disk" go together: give both or neither')
        if self.source == "disk":
            return self
        owned = ("arrays", "sent140", "synthetic", *AT_PATH)
        if self.partition == "by-owner" and self.source not in owned:
            raise ValueError(f'partition = "by-owner" needs source = {" or ".join(owned)}')
        if self.partition != "by-owner" and self.source == "synthetic":
            raise ValueError('source = "synthetic" draws its clients: partition = "by-owner"')
        if self.partition != "by-owner" and self.source == "leaf-shakespeare":
            raise ValueError(
                'source = "leaf-shakespeare" has samples that overlap within a role: partition = '
                '"by-owner", or clients would share them'
            )
        if self.role_pattern is not None:
            compiled(self.role_pattern)
        if self.source == "sent140-stand-in":
            self._makes_up_users()
        return self

    def _makes_up_users(self) -> None:
        """Refuse users other than groups of tweets with skewed labels, as large as the paper's."""
        sizes = {"dirichlet": "samples", "dirichlet-unequal": "min_samples"}
        setting = sizes.get(self.partition)
        if setting is None:
            raise ValueError(
                f'source = "sent140-stand-in" makes up users with skewed labels: partition = '
                f"{' or '.join(sizes)}"
            )
        if getattr(self, setting) < TWEETS_OF_A_USER:
            raise ValueError(
                f'source = "sent140-stand-in" makes up users of at least {TWEETS_OF_A_USER} '
                f"tweets: raise `{setting}`"
            )


class TrainingConfig(Section):
    """Rounds and steps."""

    rounds: PositiveInt = Field(200, description="number of rounds R")
    cohort: PositiveInt = Field(5, description="clients sampled in a round, m")
    local_steps: PositiveInt = Field(30, description="SGD steps of a client in a round, τ")
    batch_size: PositiveInt = Field(32, description="samples of a minibatch, b")
    local_lr: PositiveFloat = Field(0.05, description="learning rate of the clients, η_l")
    server_lr: PositiveFloat = Field(1.0, description="learning rate of the server, η_g")
    evaluate_every: PositiveInt = Field(5, description="rounds between two evaluations")
    checkpoint_every: PositiveInt = Field(
        20, description="about so many rounds between two checkpoints"
    )


class LocalConfig(Section):
    """What clients do with their gradients."""

    optimizer: Literal["sgd", "momentum", "adam", "adamw"] = Field(
        "sgd",
        description="what takes local steps, also of models trained alone; adam and adamw want a "
        "training.local_lr near 0.001",
    )
    beta1: Fraction = Field(0.9, description="for all but sgd: decay of the first moment")
    beta2: Fraction = Field(0.999, description="for adam and adamw: decay of the second moment")
    eps: PositiveFloat = Field(1e-8, description="for adam and adamw: ε below the fraction")
    weight_decay: NonNegativeFloat | None = Field(
        None,
        description="λ; decoupled for adamw, else part of the gradient; by default 0.01 for adamw, "
        "else 0",
    )
    clip_norm: PositiveFloat | None = Field(None, description="largest norm of a gradient")

    @property
    def decay(self) -> float:
        """λ, as given or by default."""
        default = ADAMW_DECAY if self.optimizer == "adamw" else 0.0
        return default if self.weight_decay is None else self.weight_decay


Curve = Literal["constant", "linear", "cosine", "exponential"]


class ScheduleConfig(Section):
    """Learning rates over the rounds."""

    local: Curve = Field("constant", description="how η_l falls over the rounds")
    local_end: PositiveFloat = Field(0.1, description="factor of η_l in the last round")
    local_warmup: NonNegativeInt = Field(0, description="rounds over which η_l first rises")
    local_rounds: PositiveInt | None = Field(
        None, description="rounds over which η_l falls; by default all"
    )
    server: Curve = Field("constant", description="how η_g falls over the rounds")
    server_end: PositiveFloat = Field(0.1, description="factor of η_g in the last round")
    server_warmup: NonNegativeInt = Field(0, description="rounds over which η_g first rises")
    server_rounds: PositiveInt | None = Field(
        None, description="rounds over which η_g falls; by default all"
    )


class RequirementConfig(Section):
    """What the model must beat for a client to want it."""

    kind: Literal["solo", "fixed"] = Field(
        "solo", description="a multiple of the loss of a model trained alone, or one fixed loss"
    )
    steps: NonNegativeInt = Field(100, description="SGD steps of the solo models")
    multiple: PositiveFloat = Field(1.0, description="for solo: what the loss is multiplied by")
    loss: NonNegativeFloat | None = Field(
        None, description="for fixed: the loss that all clients require"
    )

    @model_validator(mode="after")
    def _fits(self) -> "RequirementConfig":
        if (self.kind == "fixed") != (self.loss is not None):
            raise ValueError('`loss` and kind = "fixed" go together: give both or neither')
        return self


class ParticipationConfig(Section):
    """Who participates."""

    rule: Literal["everyone", "opt-out", "decline"] = Field(
        "everyone", description="opt-out: before sampling; decline: when sampled"
    )
    start_round: NonNegativeInt = Field(10, description="rounds before appeal decides")
    client_dropout: Fraction = Field(
        0.0, description="probability that a sampled client fails to reply"
    )
    max_candidates: PositiveInt | None = Field(
        None,
        description="for opt-out with data.source = disk: most clients that are shown the model in "
        "a round, until enough are willing",
    )


class ServerConfig(Section):
    """What the server does with the updates."""

    optimizer: Literal["sgd", "momentum", "adam", "yogi"] = Field(
        "sgd",
        description="what takes the step along a method's direction; adam and yogi want a "
        "training.server_lr near 0.01",
    )
    beta1: Fraction = Field(0.9, description="for momentum, adam, yogi: decay of the first moment")
    beta2: Fraction = Field(0.99, description="for adam, yogi: decay of the second moment")
    eps: PositiveFloat = Field(1e-3, description="for adam, yogi: ε below the fraction")
    aggregator: Literal["mean", "median", "trimmed-mean", "krum"] = Field(
        "mean", description="how updates are aggregated, by their weights"
    )
    clip_norm: PositiveFloat | None = Field(None, description="largest norm of an update")
    trim_fraction: Annotated[float, Field(ge=0, lt=0.5)] = Field(
        0.2, description="for trimmed-mean: fraction of the weight cut off at each end"
    )
    num_byzantine: NonNegativeInt = Field(
        1, description="for krum: clients of a cohort that may be Byzantine"
    )
    num_selected: PositiveInt = Field(
        1, description="for krum: updates selected; several are multi-Krum"
    )


class AttackConfig(Section):
    """Byzantine clients among the seen ones."""

    fraction: Fraction = Field(0.0, description="fraction of the seen clients")
    loss_inflation: float = Field(0.0, description="what they add to the loss they report")
    noise_std: NonNegativeFloat = Field(
        0.0, description="standard deviation of the noise they add to their updates"
    )
    update_scale: float = Field(
        1.0, description="by what they multiply their updates; -1 flips the sign"
    )
    flip_labels: bool = Field(False, description="whether they train on reversed labels")
    collude: bool = Field(False, description="whether all of them add the same noise")


class PersonalizationConfig(Section):
    """Personal models of clients."""

    finetune_steps: NonNegativeInt = Field(
        0,
        description="SGD steps by which clients fine-tune a model, in MaxFL's weights and in what "
        "is measured as personal models; opting out is still decided by the model as received",
    )


class AlgorithmConfig(BaseModel):
    """The method by name, and its hyper-parameters."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)

    name: Literal[tuple(ALGORITHMS)] = Field("maxfl", description="the method")  # type: ignore[valid-type]

    @model_validator(mode="after")
    def _known(self) -> "AlgorithmConfig":
        allowed = list(inspect.signature(ALGORITHMS[self.name]).parameters)
        for key, value in self.hparams.items():
            if key not in allowed:
                raise ValueError(
                    f"{self.name} has no hyper-parameter `{key}`; it has {', '.join(allowed)}"
                    f"{did_you_mean(key, allowed)}"
                )
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"`{key}` = {value!r} is not a number")
        return self

    @property
    def hparams(self) -> dict[str, Any]:
        """The method's hyper-parameters that the file gives."""
        return dict(self.__pydantic_extra__ or {})


class RunConfig(Section):
    """A whole run."""

    seed: Annotated[int, Field(ge=0, lt=2**32)] = Field(0, description="seed of every draw")
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
