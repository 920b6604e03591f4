"""What the columns of a table are for."""

from typing import Literal, NamedTuple, get_args

from maxfl.data.tables.table import Table, listed
from maxfl.utils.errors import InputError, check_choice, did_you_mean

Task = Literal["classification", "regression"]
Encoding = Literal["one-hot", "ordinal"]
Missing = Literal["drop-rows", "mean", "zero"]


class TableOptions(NamedTuple):
    """What to read of a table, and how.

    Attributes:
        label: The column to be predicted, or several of numbers.
        client: The column that says whose each row is; None if clients are formed otherwise.
        features: Columns of the model's input; None for all that are nothing else.
        drop: Columns that are not read.
        split: The column that says what each row is for: train, judging or test.
        task: What labels are; None to tell by their type.
        encode: How text and categories become numbers; None to refuse them.
        missing: What becomes of missing values; None to refuse them.
        standardize: Whether columns of numbers are brought to mean 0 and standard deviation 1.
    """

    label: str | tuple[str, ...]
    client: str | None = None
    features: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    split: str | None = None
    task: Task | None = None
    encode: Encoding | None = None
    missing: Missing | None = None
    standardize: bool = True

    @property
    def labels(self) -> tuple[str, ...]:
        """The columns to be predicted."""
        return (self.label,) if isinstance(self.label, str) else self.label


def feature_columns(table: Table, options: TableOptions) -> list[str]:
    """Check the columns that are named, and return those of the features."""
    _check_words(options)
    roles = _roles(options)
    for role, name in roles:
        if name not in table.names:
            raise InputError(
                f"{table.where} has no column '{name}', given for the {role}; its columns are "
                f"{listed(table.names, 40)}{did_you_mean(name, table.names)}"
            )
    used: dict[str, str] = {}
    for role, name in roles:
        if name in used:
            both = f"both {used[name]} and {role}" if used[name] != role else f"{role} twice"
            raise InputError(f"{table.where}: column '{name}' can't be {both}: name each once")
        used[name] = role
    if options.features is not None:
        names = list(options.features)
    else:
        names = [name for name in table.names if name not in used]
    if not names:
        raise InputError(
            f"{table.where} has no column left for features beside {listed([*used])}: give some"
        )
    if "" in names:
        raise InputError(
            f"column {table.names.index('') + 1} of {table.where} has no name, as the index that "
            f"pandas writes (save without: index=False): name it, or drop the column ''"
        )
    return names


def _roles(options: TableOptions) -> list[tuple[str, str]]:
    """Return every column that is named, with what it was named for."""
    single = [("client", options.client), ("split", options.split)]
    return [
        *[(role, name) for role, name in single if name is not None],
        *[("label", name) for name in options.labels],
        *[("features", name) for name in options.features or ()],
        *[("dropped columns", name) for name in options.drop],
    ]


def _check_words(options: TableOptions) -> None:
    """Refuse options that do not exist, from Python; settings of a file are checked before."""
    words = {"task": Task, "encode": Encoding, "missing": Missing}
    for name, choices in words.items():
        value = getattr(options, name)
        if value is not None:
            check_choice(name, value, get_args(choices))
    if not options.labels:
        raise InputError("label names no column: give the one to be predicted")
