"""A history as a table of Arrow, pandas or Polars: those that a run writes, without a folder."""

from importlib.util import find_spec
from typing import Any, get_args

import pyarrow as pa

from maxfl.engine.experiment import Origin
from maxfl.engine.history import History, TableName
from maxfl.runs.tables import Labels, make_tables
from maxfl.utils.dicts import flatten
from maxfl.utils.errors import InputError, check_choice


def to_arrow(history: History, table: TableName) -> pa.Table:
    """Return a table by the name of its file."""
    check_choice("table", table, get_args(TableName))
    origin = known_origin(history)
    tables = make_tables(history, origin.federation, swept_labels(origin), origin.seeds.tolist())
    return tables[f"{table}.parquet"]()


def to_pandas(history: History, table: TableName) -> Any:
    """Return the same as a DataFrame of pandas."""
    _need("pandas")
    return to_arrow(history, table).to_pandas()


def to_polars(history: History, table: TableName) -> Any:
    """Return the same as a DataFrame of Polars."""
    _need("polars")
    import polars

    return polars.from_arrow(to_arrow(history, table))


def known_origin(history: History) -> Origin:
    """Return what a history is of, or say that it does not tell."""
    if history.origin is None:
        raise InputError(
            "this history does not say of which clients and settings it is: take one that "
            "maxfl.simulate or maxfl.stream returned"
        )
    return history.origin


def swept_labels(origin: Origin) -> Labels:
    """Label configurations by the settings in which they differ, but for seeds."""
    count = len(origin.seeds)
    settings = flatten(origin.settings)
    swept = {
        key: value
        for key, value in settings.items()
        if isinstance(value, list) and len(value) == count and key != "seed"
        if len(set(map(repr, value))) > 1
    }
    values = [{key: value[c] for key, value in swept.items()} for c in range(count)]
    return Labels(values=values).of(count)


def _need(package: str) -> None:
    if find_spec(package) is None:
        raise InputError(f"{package} is not installed: pip install {package}, or take .to_arrow()")
