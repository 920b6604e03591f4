"""The settings of a model: the table ``[model]``, whose ``name`` says which others there are."""

from typing import Annotated, Any, Literal

from pydantic import (
    ConfigDict,
    Discriminator,
    Field,
    PositiveFloat,
    PositiveInt,
    Tag,
    model_validator,
)

from maxfl.core.model import Precision
from maxfl.models.convolution import Padding
from maxfl.runs.configs.own import own_or
from maxfl.runs.configs.section import Fraction, Section
from maxfl.runs.plugins.entry_points import find_target, load_named
from maxfl.runs.plugins.factories import FROM_DATA
from maxfl.runs.plugins.parameters import Parameters, check_given, check_plain, own_parameters
from maxfl.utils.errors import InputError

Widths = Annotated[tuple[PositiveInt, ...], Field(strict=False)]
SomeWidths = Annotated[tuple[PositiveInt, ...], Field(strict=False, min_length=1)]
LossName = Literal[
    "auto",
    "cross-entropy",
    "multi-label",
    "squared-error",
    "absolute-error",
    "huber",
    "next-token",
]


class ModelSettings(Section):
    """What all models have."""

    name: str
    loss: Annotated[LossName, own_or("loss")] = Field(
        "auto",
        description="the loss to minimise; auto: cross-entropy for classes, next-token for "
        "sequences of integers, squared-error for floats; your own as `module:function`, a "
        "function of (outputs, y) that returns one number per sample",
    )
    huber_delta: PositiveFloat = Field(
        1.0, description="for huber: the error above which the loss is linear"
    )
    padding: int = Field(0, description="for next-token: the padding token, which the loss ignores")
    precision: Precision = Field(
        "platform",
        description="precision of matrix multiplications; platform: JAX's default (TF32 on GPUs)",
    )


class MlpConfig(ModelSettings):
    """A multi-layer perceptron."""

    name: Literal["mlp"] = "mlp"
    hidden: Widths = Field((64, 30), description="units of the hidden layers")
    dropout: Fraction = Field(0.5, description="dropout after the first hidden layer, in training")


class LogisticConfig(ModelSettings):
    """One dense layer."""

    name: Literal["logistic"] = "logistic"


class CnnConfig(ModelSettings):
    """LEAF's convolutional network for FEMNIST."""

    name: Literal["cnn"] = "cnn"
    channels: SomeWidths = Field(
        (32, 64), description="channels of the convolutions, each followed by 2 × 2 pooling"
    )
    kernel: PositiveInt = Field(5, description="side length of the convolution kernels")
    conv_padding: Padding = Field(
        "same", description="same: convolutions pad with zeros and keep the size; valid: no padding"
    )
    hidden: Widths = Field((2048,), description="units of the dense hidden layers")
    dropout: Fraction = Field(0.0, description="dropout after the first dense layer, in training")


class ResnetConfig(ModelSettings):
    """A residual network with group normalisation."""

    name: Literal["resnet"] = "resnet"
    blocks: PositiveInt = Field(
        3, description="blocks in each of the three stages; 6 · blocks + 2 layers"
    )
    width: PositiveInt = Field(
        16, description="channels of the first stage; the others have twice and four times as many"
    )
    groups: PositiveInt = Field(
        8, description="groups of channels in group normalisation, a divisor of the width"
    )


class LstmConfig(ModelSettings):
    """LEAF's recurrent network for Shakespeare."""

    name: Literal["lstm"] = "lstm"
    vocabulary: PositiveInt | None = Field(
        None, description="number of tokens; by default, the largest token in the data plus one"
    )
    embedding: PositiveInt = Field(8, description="dimension of the token embedding")
    hidden: SomeWidths = Field((256, 256), description="units of the recurrent layers")
    dropout: Fraction = Field(0.0, description="dropout after each recurrent layer, in training")


class TransformerConfig(ModelSettings):
    """A small causal transformer."""

    name: Literal["transformer"] = "transformer"
    vocabulary: PositiveInt | None = Field(
        None, description="number of tokens; by default, the largest token in the data plus one"
    )
    width: PositiveInt = Field(128, description="dimension of the token embedding")
    depth: PositiveInt = Field(2, description="number of blocks")
    heads: PositiveInt = Field(4, description="number of attention heads, a divisor of the width")
    dropout: Fraction = Field(
        0.1, description="dropout of the embedding and of each residual branch, in training"
    )


class OwnModelConfig(ModelSettings):
    """A model of one's own, ``module:function``; its settings are the function's parameters."""

    model_config = ConfigDict(extra="allow")

    @model_validator(mode="after")
    def _known(self) -> "OwnModelConfig":
        check_given(self.name, own_settings(self.name), self.settings, "setting")
        check_plain(self.settings)
        return self

    @property
    def settings(self) -> dict[str, Any]:
        """Those that only this model has, as the file gives them."""
        return dict(self.__pydantic_extra__ or {})


def own_settings(name: str) -> Parameters:
    """Return the settings that only a model of one's own has."""
    known = own_parameters(load_named(name, "model"), filled=FROM_DATA)
    for parameter in known:
        if parameter.name in ModelSettings.model_fields:
            raise InputError(
                f"`{parameter.name}` of {name} has the name of a setting that all models have: "
                f"rename it"
            )
    return known


DEFAULT_MODEL = "mlp"
OWN = "own"
"""The tag of models that are not of the zoo."""
MODEL_CONFIGS: dict[str, type[ModelSettings]] = {
    "mlp": MlpConfig,
    "logistic": LogisticConfig,
    "cnn": CnnConfig,
    "resnet": ResnetConfig,
    "lstm": LstmConfig,
    "transformer": TransformerConfig,
}


def _name_of(table: Any) -> str:
    """Return the name in a table, or the default; one tag for all that are own code."""
    given = table.get("name", DEFAULT_MODEL) if isinstance(table, dict) else DEFAULT_MODEL
    name = str(getattr(table, "name", given))
    is_own = name not in MODEL_CONFIGS and find_target(name, "model") is not None
    return OWN if is_own else name[:60]


ModelConfig = Annotated[
    Annotated[MlpConfig, Tag("mlp")]
    | Annotated[LogisticConfig, Tag("logistic")]
    | Annotated[CnnConfig, Tag("cnn")]
    | Annotated[ResnetConfig, Tag("resnet")]
    | Annotated[LstmConfig, Tag("lstm")]
    | Annotated[TransformerConfig, Tag("transformer")]
    | Annotated[OwnModelConfig, Tag(OWN)],
    Discriminator(_name_of),
]
"""The table ``[model]``; which one it is, its name says."""


def model_settings(config: ModelSettings) -> dict[str, Any]:
    """Return the settings that only this model has, by its factory's names."""
    if isinstance(config, OwnModelConfig):
        return config.settings
    names = type(config).model_fields.keys() - ModelSettings.model_fields.keys()
    return {key: getattr(config, key) for key in names}
