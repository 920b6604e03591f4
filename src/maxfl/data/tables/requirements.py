"""What each client requires, from a table: a row per client."""

from collections import Counter
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from maxfl.core.requirements.requirement import Options, Requirement, per_client
from maxfl.data.tables.files import read_table
from maxfl.utils.errors import InputError

COLUMNS = ("client", "value", "test")


def requirement_file(
    path: Path | str,
    *,
    metric: str | None = None,
    otherwise: Requirement | None = None,
    steps: ArrayLike | None = None,
    **options: Unpack[Options],
) -> Requirement:
    """Require of each client what a CSV or Parquet file says.

    Args:
        path: A file with the columns ``client``, a client's name in the federation, ``value`` and,
            where test data have another one, ``test``. An empty cell is no value.
        metric: The metric that they are values of; by default they are losses.
        otherwise: What clients require that the file has no value for.
        steps: SGD steps of the solo models; by default those of ``otherwise``.
        options: As for ``maxfl.solo``.
    """
    table = read_table(Path(path), text=("client",), setting="requirement.file")
    columns = table.schema.names
    if {"client", "value"} - {*columns} or {*columns} - {*COLUMNS}:
        raise InputError(
            f"{table.where} has the columns {', '.join(columns)}; expected client, value and, if "
            f"test data have another one, test"
        )
    names = _names(table.column("client"), table.where)
    sides = [
        dict(zip(names, _numbers(table.column(column), column, table.where), strict=True))
        for column in COLUMNS[1:]
        if column in columns
    ]
    return per_client(*sides, metric=metric, otherwise=otherwise, steps=steps, **options)


def _names(column: pa.ChunkedArray, where: str) -> list[str]:
    """Return clients' names, each once."""
    if column.null_count:
        raise InputError(f"{where}: {column.null_count} rows have no client: name it, or leave out")
    names = [str(name) for name in column.to_pylist()]
    name, rows = Counter(names).most_common(1)[0]
    if rows > 1:
        raise InputError(f"{where}: client {name} has {rows} rows; expected one for each")
    return names


def _numbers(column: pa.ChunkedArray, name: str, where: str) -> Any:
    """Return a column's numbers, NaN where it has none."""
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise InputError(f"{where}: the column {name} is {column.type}; expected numbers")
    return column.cast(pa.float64()).to_numpy(zero_copy_only=False).astype(np.float64)
