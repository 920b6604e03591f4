"""From a table to a data set: whose each row is, its label, its features, training or test."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyarrow import types

from maxfl.core.checks.samples import check_sample_count
from maxfl.data.dataset import Dataset
from maxfl.data.partition.own_parts import EXPECTED, OwnParts, own_parts
from maxfl.data.tables.categories import MISSING, categories, is_text
from maxfl.data.tables.features import Features, read_features
from maxfl.data.tables.labels import read_labels
from maxfl.data.tables.numbers import is_number
from maxfl.data.tables.roles import TableOptions, feature_columns
from maxfl.data.tables.table import Table, listed
from maxfl.utils.errors import InputError

DROP = 'missing = "drop-rows" ([data] in a file) leaves those rows out'
FILL = '"mean" and "zero" fill features in'


class Rows(NamedTuple):
    """What was read of a table.

    Attributes:
        dataset: The rows that are kept.
        kept: Whether each row of the table is among them, bool[rows]; None where all are.
    """

    dataset: Dataset
    kept: NDArray[np.bool_] | None


class _Owners(NamedTuple):
    """Whose each row is: numbers int32[n], −1 where it is missing, and their names, as text."""

    number: NDArray[np.int32]
    names: NDArray[np.str_]


def read_dataset(table: Table, options: TableOptions) -> Rows:
    """Read what the options name, and say what is wrong with it."""
    check_sample_count(table.rows, table.where)
    names = feature_columns(table, options)
    owners = None if options.client is None else _owners(table, options.client)
    labels = read_labels(table, options)
    own = table.own if options.split is None else _split(table, options.split)
    features = read_features(table, names, options)
    lacking = {f"label {listed(options.labels)}": labels.missing}
    if owners is not None:
        lacking[f"client '{options.client}'"] = owners.number == MISSING
    kept = _kept(table, features, lacking, options)
    taken: Any = slice(None) if kept is None else kept
    shown = table.rows if kept is None else int(kept.sum())
    notes = (f"{table.rows - shown} of {table.rows} rows with missing values are left out",)
    dataset = Dataset(
        table.title,
        features.x[taken],
        labels.y[taken],
        labels.names,
        owner=None if owners is None else owners.number[taken],
        owner_names=None if owners is None else owners.names,
        is_test=None if own is None else own.is_test[taken],
        notes=(*table.notes, *features.notes, *(notes if kept is not None else ())),
        features=features.names,
        standardized=features.standardized if options.standardize else None,
        fills_missing=options.missing == "mean" and bool(features.missing),
        is_judging=None if own is None or own.is_judging is None else own.is_judging[taken],
    )
    return Rows(dataset, kept)


def _owners(table: Table, name: str) -> _Owners:
    """Return whose each row is; names of numbers keep all their digits."""
    column = table.column(name)
    kind = column.type
    if not (is_text(kind) or is_number(kind) or types.is_date(kind) or types.is_timestamp(kind)):
        raise InputError(
            f"{table.where}: client column '{name}' is {kind}: expected text or numbers"
        )
    number, names = categories(column, in_order=False)
    return _Owners(number, np.array(names, np.str_))


def _split(table: Table, name: str) -> OwnParts:
    """Return what each row is for, as a column says."""
    if table.own is not None:
        raise InputError(f"{table.where} has its own splits: leave the split column '{name}' out")
    column = table.column(name)
    if not is_text(column.type):
        raise InputError(f"{table.where}: split column '{name}' is {column.type}: {EXPECTED}")
    number, names = categories(column)
    return own_parts(names, number, f"{table.where}: split column '{name}'", "rows")


def _kept(
    table: Table, features: Features, lacking: dict[str, NDArray[np.bool_]], options: TableOptions
) -> NDArray[np.bool_] | None:
    """Return which rows are kept, None for all; refuse missing values that nothing was said of."""
    rows = {what: int(is_missing.sum()) for what, is_missing in lacking.items()}
    found = {what: count for what, count in rows.items() if count}
    drops = options.missing == "drop-rows"
    columns = {f"'{name}'": count for name, count in features.missing.items()}
    refused = {} if drops else found if options.missing else found | columns
    if refused:
        counts = ", ".join(f"{what} ({count})" for what, count in list(refused.items())[:12])
        more = f" and {len(refused) - 12} more" if len(refused) > 12 else ""
        remedy = DROP if found else f"{DROP}, {FILL}"
        raise InputError(
            f"{table.where}: missing values in {counts}{more}, of {table.rows} rows. {remedy}"
        )
    if not drops or not (found or features.missing):
        return None
    kept = ~np.any(list(lacking.values()), axis=0)
    if features.missing:
        kept &= ~np.isnan(features.x).any(1)
    if not kept.any():
        raise InputError(
            f"{table.where}: every row has a missing value, in one of "
            f"{', '.join([*found, *columns])}: leave the emptiest columns out"
        )
    return kept
