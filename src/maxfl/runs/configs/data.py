"""The table ``[data]``: where the samples come from, and how they are split over clients."""

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
        "table",
        "arrays",
        "disk",
    ] = Field(
        "fashion-mnist-12k",
        description="see `maxfl data list`; leaf-...: LEAF's JSON files, and text: your own text, "
        "at `path`; table, arrays: your own `file`, whose suffix says which; disk: a `folder` of "
        "`maxfl data write`, of which a cohort at a time is in memory",
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
        description="your own data, seen from the current folder. A table: .csv (also packed, as "
        ".csv.gz), .tsv, .parquet, .arrow, .feather, or a folder of Hugging Face's save_to_disk; "
        "arrays: a .npz of x [n, ...], y [n, ...] and, if there, client and part [n]",
    )
    client_column: str | None = Field(
        None, description="for a table: says whose each row is; without it, `partition` decides"
    )
    label_column: OneOrSeveral = Field(
        None,
        description="for a table: what is predicted. Text, whole numbers, yes and no: classes; "
        "floats: numbers; a list of columns: several numbers",
    )
    feature_columns: Names | None = Field(
        None, description="for a table: the model's input; by default all other columns"
    )
    drop_columns: Names | None = Field(None, description="for a table: columns that are not read")
    split_column: str | None = Field(
        None,
        description="for a table by-owner: says train or test or, of rows that clients judge by, "
        "judging; by default rows are split by `train_fraction`",
    )
    task: Task | None = Field(
        None, description="for a table: what labels are, where their type does not tell"
    )
    encode: Encoding | None = Field(
        None,
        description="for a table: how text and categories become numbers, a 0 or 1 for each value "
        "or its number in sorted order; by default they are refused",
    )
    missing: Missing | None = Field(
        None,
        description="for a table: rows with missing values are left out, or features are filled "
        "with their mean over the training rows of seen clients, or with 0; by default refused",
    )
    standardize: bool = Field(
        True,
        description="for a table: bring columns of numbers to mean 0 and standard deviation 1 of "
        "the training rows of seen clients; yes and no, one-hot codes and lists stay",
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
        "and is the default of leaf-... and text, of a table with `client_column` and of arrays "
        "with client",
    )
    clients: PositiveInt = Field(
        50,
        description="seen clients; by-owner: as many as the data have, but for synthetic and for "
        "text without `role_pattern`",
    )
    unseen: NonNegativeInt = Field(
        50,
        description="unseen clients; by default 0 of a table with `client_column`, and of arrays "
        "with client",
    )
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
