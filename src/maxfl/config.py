"""A run as a TOML file: validated as a whole before anything is computed."""

import inspect
import tomllib
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
    ValidationError,
    model_validator,
)

from maxfl.algorithms import ALGORITHMS
from maxfl.errors import InputError

Share = Annotated[float, Field(ge=0, lt=1)]


class Section(BaseModel):
    """A table of the file: unknown keys and wrong types are errors, never ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)


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
        "arrays",
    ] = Field("fashion-mnist-12k", description="see `maxfl data list`; arrays: your own `file`")
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
    file: Path | None = Field(
        None,
        strict=False,
        description="for source = arrays, a .npz seen from the current folder: x [n, ...], y [n] "
        "and, if there, client [n]",
    )
    partition: Literal[
        "dirichlet", "dirichlet-unequal", "clusters", "shards", "iid", "by-owner"
    ] = Field(
        "dirichlet",
        description="dirichlet-unequal uses all samples; by-owner takes the data's own clients",
    )
    clients: PositiveInt = Field(
        50, description="seen clients; by-owner: as many as the data have, but for synthetic"
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
    train_share: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.6, description="share of a client's samples for training"
    )
    flipped: Annotated[float, Field(ge=0, le=1)] = Field(
        0.0, description="share of clients with flipped labels"
    )
    flip: Literal["reverse", "shift", "permute"] = Field(
        "reverse", description="y → classes − 1 − y, y → y + 1, or along a random cycle"
    )
    evaluate_on: Literal["test", "validation"] = Field(
        "test", description="validation: leave test data out, hold out 1/4 of the training data"
    )
    seed: NonNegativeInt | None = Field(
        None, description="of the partition; by default the run's seed"
    )

    @model_validator(mode="after")
    def _fits(self) -> "DataConfig":
        if (self.source == "arrays") != (self.file is not None):
            raise ValueError('`file` and source = "arrays" go together: give both or neither')
        owned = ("arrays", "sent140", "synthetic")
        if self.partition == "by-owner" and self.source not in owned:
            raise ValueError(f'partition = "by-owner" needs source = {" or ".join(owned)}')
        if self.partition != "by-owner" and self.source == "synthetic":
            raise ValueError('source = "synthetic" draws its clients: partition = "by-owner"')
        if self.source == "sent140-stand-in":
            self._makes_up_users()
        return self

    def _makes_up_users(self) -> None:
        """Users are groups of tweets with skewed labels, as large as the paper's."""
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


class ModelConfig(Section):
    """A multi-layer perceptron."""

    hidden: Annotated[tuple[PositiveInt, ...], Field(strict=False)] = Field(
        (64, 30), description="units of the hidden layers"
    )
    dropout: Share = Field(0.5, description="after the first hidden layer, in training")


class TrainingConfig(Section):
    """Rounds and steps."""

    rounds: PositiveInt = Field(200, description="T")
    cohort: PositiveInt = Field(5, description="m, clients asked in a round")
    local_steps: PositiveInt = Field(30, description="τ, SGD steps of a client in a round")
    batch_size: PositiveInt = Field(32, description="b")
    local_lr: PositiveFloat = Field(0.05, description="η_l")
    server_lr: PositiveFloat = Field(1.0, description="η_g")
    evaluate_every: PositiveInt = Field(5, description="rounds between two evaluations")
    block: PositiveInt = Field(20, description="about so many rounds between two checkpoints")


class RequirementConfig(Section):
    """What the model must beat for a client to want it."""

    kind: Literal["solo", "fixed"] = Field(
        "solo", description="a multiple of the loss of a model trained alone, or one fixed loss"
    )
    steps: NonNegativeInt = Field(100, description="SGD steps of the solo models")
    multiple: PositiveFloat = Field(1.0, description="for solo")
    loss: NonNegativeFloat | None = Field(None, description="for fixed")

    @model_validator(mode="after")
    def _fits(self) -> "RequirementConfig":
        if (self.kind == "fixed") != (self.loss is not None):
            raise ValueError('`loss` and kind = "fixed" go together: give both or neither')
        return self


class ParticipationConfig(Section):
    """Who takes part."""

    rule: Literal["everyone", "opt-out", "decline"] = Field(
        "everyone", description="opt-out: before sampling; decline: when asked"
    )
    start: NonNegativeInt = Field(10, description="rounds before appeal decides")
    dropout: Share = Field(0.0, description="probability that an asked client fails to answer")


class AlgorithmConfig(BaseModel):
    """The method by name, and its own numbers."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)

    name: Literal[tuple(ALGORITHMS)] = Field("maxfl", description="the method")  # type: ignore[valid-type]

    @model_validator(mode="after")
    def _known(self) -> "AlgorithmConfig":
        allowed = list(inspect.signature(ALGORITHMS[self.name]).parameters)
        for key, value in self.numbers.items():
            if key not in allowed:
                raise ValueError(f"{self.name} has no number `{key}`; it has {', '.join(allowed)}")
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"`{key}` = {value!r} is not a number")
        return self

    @property
    def numbers(self) -> dict[str, Any]:
        """The method's numbers that the file gives."""
        return dict(self.__pydantic_extra__ or {})


class RunConfig(Section):
    """A whole run."""

    seed: Annotated[int, Field(ge=0, lt=2**32)] = Field(0, description="of every draw")
    data: DataConfig = DataConfig()
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    algorithm: AlgorithmConfig = AlgorithmConfig()
    requirement: RequirementConfig = RequirementConfig()
    participation: ParticipationConfig = ParticipationConfig()


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} can't be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not valid TOML: {error}") from error


def parse_setting(text: str, option: str = "--set") -> tuple[str, Any]:
    """``key=value`` with a TOML value; a bare word is a string."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise InputError(f"{option} {text}: want key=value, for instance training.rounds=50")
    try:
        return key.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return key.strip(), value.strip()


def override(raw: dict[str, Any], key: str, value: Any, above: str = "") -> dict[str, Any]:
    """A copy of nested tables with one dotted key set."""
    first, _, rest = key.partition(".")
    if not rest:
        return {**raw, first: value}
    table = raw.get(first, {})
    if not isinstance(table, dict):
        raise InputError(f"{above}{key}: {above}{first} is a value, not a table")
    return {**raw, first: override(table, rest, value, f"{above}{first}.")}


def override_all(raw: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """A copy of nested tables with some dotted keys set.

    Another ``algorithm.name`` leaves the numbers behind that only the method before it knows.
    """
    if new := settings.get("algorithm.name"):
        raw = {**raw, "algorithm": _without_others(raw.get("algorithm", {}), new)}
    for key, value in settings.items():
        raw = override(raw, key, value)
    return raw


def _without_others(table: Any, new: str) -> Any:
    """A method's table without the numbers that are its own and not the new method's."""
    old = table.get("name", AlgorithmConfig().name) if isinstance(table, dict) else None
    if old not in ALGORITHMS or new not in ALGORITHMS:
        return table  # left for the validation to explain
    own, others = (inspect.signature(ALGORITHMS[name]).parameters for name in (old, new))
    return {key: value for key, value in table.items() if key not in own or key in others}


def unused(config: RunConfig) -> list[str]:
    """Settings that were given but do nothing beside the others, in words."""
    source, partition = config.data.source, config.data.partition
    by_owner = partition == "by-owner"
    owned_sizes = partition in ("by-owner", "dirichlet-unequal")
    images = source == "fashion-mnist" or source.startswith("emnist")
    everyone = config.participation.rule == "everyone"
    fixed = config.requirement.kind == "fixed"
    checks = (
        ("data", "clients", by_owner and source != "synthetic", "the data have their clients"),
        ("data", "samples", owned_sizes, "sizes come with the partition"),
        ("data", "min_samples", not owned_sizes, "all clients have data.samples"),
        ("data", "alpha", "dirichlet" not in partition, "the partition is not dirichlet"),
        ("data", "clusters", partition != "clusters", "the partition is not clusters"),
        ("data", "shards", partition != "shards", "the partition is not shards"),
        ("data", "flip", config.data.flipped == 0, "data.flipped is 0"),
        ("data", "part", not images, "only image data sets have parts"),
        ("data", "vectors", "sent140" not in source, "there are no texts"),
        ("data", "synthetic_alpha", source != "synthetic", "the data are not synthetic"),
        ("data", "synthetic_beta", source != "synthetic", "the data are not synthetic"),
        ("requirement", "multiple", fixed, "the requirement is fixed"),
        ("participation", "start", everyone, "everyone takes part"),
    )
    return [
        f"{section}.{key} does nothing here: {why}"
        for section, key, idle, why in checks
        if idle and key in getattr(config, section).model_fields_set
    ]


def validate(raw: dict[str, Any], where: str) -> RunConfig:
    """Check a whole configuration; the error lists every mistake with its key."""
    try:
        return RunConfig.model_validate(raw)
    except ValidationError as error:
        lines = [f"  {_explain(e)}" for e in error.errors()]
        raise InputError(f"{where} has {len(lines)} mistake(s):\n" + "\n".join(lines)) from None


def _explain(error: Any) -> str:
    key = ".".join(map(str, error["loc"]))
    if error["type"] == "extra_forbidden":
        section: Any = RunConfig
        for part in error["loc"][:-1]:
            section = section.model_fields[part].annotation
        return f"{key}: unknown key; known here are {', '.join(section.model_fields)}"
    message = error["msg"].removeprefix("Value error, ")
    given = error["input"]
    shown = "" if isinstance(given, dict | BaseModel) else f" (given: {given!r})"
    return f"{key}: {message}{shown}"
