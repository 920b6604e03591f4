"""The table ``[data]``: where the samples come from, and how they are split over clients."""

from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)

from maxfl.data.text import compiled
from maxfl.runs.configs.own import take_own
from maxfl.runs.configs.section import Section
from maxfl.runs.plugins.entry_points import load_named
from maxfl.runs.plugins.factories import SEED
from maxfl.runs.plugins.parameters import check_given, check_plain, own_parameters
from maxfl.utils.errors import InputError

LEAF = ("leaf-femnist", "leaf-shakespeare", "leaf-reddit")
AT_PATH = (*LEAF, "text")
"""Sources that are read where `path` says, and have their clients."""
TWEETS_OF_A_USER = 50
"""The paper's users have at least so many, and so have the made-up ones of the stand-in."""


class OptionsConfig(Section):
    """Parameters of the user's own data source."""

    model_config = ConfigDict(extra="allow")

    @property
    def given(self) -> dict[str, Any]:
        """Them, as the file gives them."""
        return dict(self.__pydantic_extra__ or {})


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
    options: OptionsConfig = Field(
        OptionsConfig(),
        description="for a source of your own, `module:function`: a table with the function's "
        "parameters; `seed` is filled in",
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

    @field_validator("source", mode="wrap")
    @classmethod
    def _may_be_own(cls, value: Any, of_list: ValidatorFunctionWrapHandler) -> Any:
        return take_own("data", value, of_list)

    @model_validator(mode="before")
    @classmethod
    def _takes_owners(cls, given: Any) -> Any:
        """Choose the partition of data that have their clients."""
        source = given.get("source") if isinstance(given, dict) else None
        owned = source in AT_PATH or (isinstance(source, str) and is_own_source(source))
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
        if is_own_source(self.source):
            check_options(self.source, self.options.given)
            return self
        if self.options.given:
            raise ValueError("`options` are for a source of your own, as mymodule:mydata")
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


def is_own_source(source: str) -> bool:
    """Return whether a source is the user's own code."""
    return source not in get_args(DataConfig.model_fields["source"].annotation)


def check_options(source: str, given: dict[str, Any]) -> None:
    """Refuse options that the user's own source does not have, or lacks."""
    if SEED in given:
        raise InputError("`options.seed`: the seed of the data is data.seed")
    known = own_parameters(load_named(source, "data"), filled=(SEED,))
    check_given(source, known, given, "option")
    check_plain(given)
