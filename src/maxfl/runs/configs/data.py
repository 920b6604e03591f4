"""The table ``[data]``: where the samples come from, and how they are split among clients."""

from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BeforeValidator,
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

from maxfl.data.arrays import CLIENT, arrays_in
from maxfl.data.tables.roles import Encoding, Missing, TableOptions, Task
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


def _one_or_several(names: Any) -> Any:
    """Take the name of a column, or names of some; one sentence for whatever is neither."""
    several = isinstance(names, list | tuple) and names and all(isinstance(n, str) for n in names)
    if not (names is None or isinstance(names, str) or several):
        raise ValueError("expected the name of a column, or a list of names")
    return tuple(names) if several else names


Names = Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
OneOrSeveral = Annotated[str | tuple[str, ...] | None, BeforeValidator(_one_or_several)]


class DataConfig(Section):
    """Where the samples come from, and how they are split among clients."""

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
        "table",
        "arrays",
        "disk",
    ] = Field(
        "fashion-mnist-12k",
        description="the data set; see `maxfl data list`. leaf-...: LEAF's JSON files at `path`; "
        "text: your own text at `path`; table, arrays: your own `file`, whose suffix says which; "
        "disk: a `folder` written by `maxfl data write`, with one cohort in memory at a time",
    )
    options: OptionsConfig = Field(
        OptionsConfig(),
        description="for a source of your own (`module:function`): a table with the function's "
        "parameters; `seed` is filled in",
    )
    dir: Path | None = Field(
        None, strict=False, description="folder that is searched for data sets before `MAXFL_DATA`"
    )
    part: Literal["train", "test", "both"] = Field(
        "both", description="part of the publisher's split from which images are drawn"
    )
    vectors: str = Field(
        "glove.6B.200d", description="for tweets: name of a GloVe file without .txt; any dimension"
    )
    synthetic_alpha: NonNegativeFloat = Field(
        1.0, description="for synthetic: how much clients' models differ"
    )
    synthetic_beta: NonNegativeFloat = Field(
        1.0, description="for synthetic: how much clients' features differ"
    )
    synthetic_samples: Annotated[int, Field(ge=2)] | None = Field(
        None, description="for synthetic: samples per client; by default, sizes are log-normal"
    )
    path: Path | None = Field(
        None,
        strict=False,
        description="for leaf-...: a folder written by LEAF's preprocess.sh, or one of its files; "
        "for text: a UTF-8 file; relative to the current folder",
    )
    sequence_length: PositiveInt = Field(80, description="for text: characters per sample")
    role_pattern: str | None = Field(
        None,
        description="for text: a regular expression that matches where a role begins to speak; its "
        "one group is the role's name, as in `^([A-Z ]+):`. Clients are then roles; by default, "
        "they are `clients` + `unseen` equal stretches of the file",
    )
    vocabulary: Annotated[int, Field(ge=3)] = Field(
        10_000,
        description="for leaf-reddit: number of tokens (the most frequent), with `<PAD>`, `<UNK>`",
    )
    file: Path | None = Field(
        None,
        strict=False,
        description="your own data, relative to the current folder. Table: .csv (also compressed, "
        "as .csv.gz), .tsv, .parquet, .arrow, .feather, or a folder written by Hugging Face's "
        "save_to_disk. Arrays: a .npz with x [n, ...], y [n, ...] and optionally client and "
        "part [n]",
    )
    client_column: str | None = Field(
        None,
        description="for a table: the column with each row's client; by default, `partition` "
        "decides",
    )
    label_column: OneOrSeveral = Field(
        None,
        description="for a table: the column to predict. Text, whole numbers and booleans are "
        "classes, floats are numbers; a list of columns predicts several numbers",
    )
    feature_columns: Names | None = Field(
        None, description="for a table: columns of the model's input; by default, all others"
    )
    drop_columns: Names | None = Field(None, description="for a table: columns to ignore")
    split_column: str | None = Field(
        None,
        description="for a table by-owner: the column that says train, test or judging (rows by "
        "which clients judge the model); by default, rows are split by `train_fraction`",
    )
    task: Task | None = Field(
        None,
        description="for a table: classification or regression, if the labels' type does not tell",
    )
    encode: Encoding | None = Field(
        None,
        description="for a table: how text and categories become numbers. one-hot: a 0 or 1 for "
        "each value; ordinal: its number in sorted order; by default, they are refused",
    )
    missing: Missing | None = Field(
        None,
        description="for a table: what to do with missing values. drop-rows: leave the rows out; "
        "mean: fill in the feature's mean over the training rows of seen clients; zero: fill in 0; "
        "by default, they are refused",
    )
    standardize: bool = Field(
        True,
        description="for a table: scale columns of numbers to mean 0 and standard deviation 1 over "
        "the training rows of seen clients; booleans, one-hot codes and lists stay as they are",
    )
    folder: Path | None = Field(
        None,
        strict=False,
        description="for source = disk: the folder, relative to the current one; it fixes all "
        "other settings here except `eval_clients`",
    )
    eval_clients: PositiveInt = Field(
        1000, description="for disk: number of seen and of unseen clients that evaluate the model"
    )
    partition: Literal[
        "dirichlet", "dirichlet-unequal", "clusters", "shards", "iid", "by-owner"
    ] = Field(
        "dirichlet",
        description="how samples are split among clients. dirichlet-unequal uses all samples; "
        "by-owner keeps the data's own clients, and is the default for leaf-..., text, a table "
        "with `client_column`, and arrays with client",
    )
    clients: PositiveInt = Field(
        50,
        description="number of seen clients; with by-owner, the data decide, except for synthetic "
        "and for text without `role_pattern`",
    )
    unseen: NonNegativeInt = Field(
        50,
        description="number of unseen clients; 0 by default for a table with `client_column` and "
        "for arrays with client",
    )
    samples: Annotated[int, Field(ge=2)] = Field(
        100,
        description="samples per client, training and test together; not used by by-owner and "
        "dirichlet-unequal",
    )
    min_samples: Annotated[int, Field(ge=2)] = Field(
        2,
        description="minimum number of samples per client; by-owner leaves smaller clients out, "
        "dirichlet-unequal fills them up",
    )
    alpha: PositiveFloat = Field(
        0.5, description="for dirichlet: concentration α; the smaller, the more skewed"
    )
    clusters: PositiveInt = Field(5, description="for clusters: number of groups of labels")
    shards: PositiveInt = Field(
        2, description="for shards: pieces that each client gets of the data sorted by label"
    )
    train_fraction: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.6,
        description="fraction of a client's samples used for training; if leaf-... has train/ and "
        "test/, that split is kept",
    )
    flipped_fraction: Annotated[float, Field(ge=0, le=1)] = Field(
        0.0, description="fraction of clients with flipped labels"
    )
    flip: Literal["reverse", "shift", "permute"] = Field(
        "reverse",
        description="how labels are flipped. reverse: y → classes − 1 − y; shift: y → y + 1; "
        "permute: along a random cycle",
    )
    evaluate_on: Literal["test", "validation"] = Field(
        "test",
        description="data for evaluation; validation: leave test data unused and hold out 1/4 of "
        "the training data instead",
    )
    seed: NonNegativeInt | None = Field(
        None, description="seed of the partition; by default, the run's seed"
    )

    @field_validator("source", mode="wrap")
    @classmethod
    def _may_be_own(cls, value: Any, of_list: ValidatorFunctionWrapHandler) -> Any:
        return take_own("data", value, of_list)

    @model_validator(mode="before")
    @classmethod
    def _takes_owners(cls, given: Any) -> Any:
        """Choose the source of a file, and the partition of data that have their clients."""
        if not isinstance(given, dict):
            return given
        file = given.get("file")
        if isinstance(file, str | Path):
            kind = "arrays" if Path(file).suffix.lower() == ".npz" else "table"
            given = {"source": kind, **given}
        source = given.get("source")
        if source in AT_PATH or (isinstance(source, str) and is_own_source(source)):
            return {"partition": "by-owner", **given}
        if not _file_has_clients(given):
            return given
        # A file has few clients, as hospitals: none is held out unless that is asked for.
        return {"partition": "by-owner", "unseen": 0, **given}

    @property
    def arrays(self) -> frozenset[str]:
        """What the arrays of a file are called, where the data are such."""
        if self.source != "arrays" or self.file is None:
            return frozenset()
        return arrays_in(self.file)

    @property
    def table_options(self) -> TableOptions:
        """What to read of a table, and how."""
        return TableOptions(
            self.label_column or (),
            self.client_column,
            self.feature_columns,
            self.drop_columns or (),
            self.split_column if self.partition == "by-owner" else None,
            self.task, self.encode, self.missing, self.standardize,
        )  # fmt: skip

    @model_validator(mode="after")
    def _fits(self) -> "DataConfig":
        if (self.source == "disk") != (self.folder is not None):
            raise ValueError('`folder` and source = "disk" go together: give both or neither')
        if self.options.given and not is_own_source(self.source):
            raise ValueError("`options` are for a source of your own, as mymodule:mydata")
        if self.source == "disk":
            return self
        if (self.source in AT_PATH) != (self.path is not None):
            raise ValueError(
                f"`path` and source = {' or '.join(AT_PATH)} go together: give both or neither; "
                f'`file` is for source = "arrays" or "table" and `folder` for "disk"'
            )
        if self.file is not None and self.source not in ("arrays", "table"):
            raise ValueError(
                f'`file` is given, and source = "{self.source}": remove `source`, since the '
                f"file's suffix says what it is, or remove `file`"
            )
        if self.file is None and self.source in ("arrays", "table"):
            raise ValueError(f'source = "{self.source}" needs `file`, where your own data are')
        if self.source == "table":
            self._names_columns()
        if is_own_source(self.source):
            check_options(self.source, self.options.given)
            return self
        owned = ("arrays", "table", "sent140", "synthetic", *AT_PATH)
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

    def _names_columns(self) -> None:
        """Refuse a table of which not enough is said, or twice."""
        if self.label_column is None:
            raise ValueError("a table needs `label_column`, the column to be predicted")
        if self.partition == "by-owner" and self.client_column is None:
            raise ValueError(
                'partition = "by-owner" of a table needs `client_column`, which says whose each '
                "row is"
            )
        if self.feature_columns is not None and self.drop_columns is not None:
            raise ValueError(
                "`feature_columns` and `drop_columns` say the same thing twice: give one of them"
            )

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


def _file_has_clients(given: dict[str, Any]) -> bool:
    """Return whether the user's own file says whose each sample is; of settings as given."""
    if given.get("source") == "table":
        return given.get("client_column") is not None
    file = given.get("file")
    if given.get("source") != "arrays" or not isinstance(file, str | Path):
        return False
    return CLIENT in arrays_in(Path(file))


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
