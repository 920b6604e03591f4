"""A table: columns by name, read whole or one at a time."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa

from maxfl.data.partition.own_parts import OwnParts
from maxfl.utils.errors import InputError

ROLES_OF_HUGGING_FACE = b"huggingface"
"""The key of a schema's metadata under which Hugging Face keeps what columns mean."""


class Table(NamedTuple):
    """Rows of named columns.

    Attributes:
        title: What it is, for people.
        where: How errors begin: the setting and the file, or the frame.
        schema: Names and types of its columns.
        rows: Their length.
        column: Returns a column by its name; of a file, it may be read only then.
        own: What each row is for, where the file says so.
        notes: What people should know of it.
    """

    title: str
    where: str
    schema: pa.Schema
    rows: int
    column: Callable[[str], pa.ChunkedArray]
    own: OwnParts | None = None
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Names of all columns."""
        return self.schema.names


def from_arrow(table: pa.Table, title: str, where: str) -> Table:
    """Return a table that is in memory."""
    return checked(Table(title, where, table.schema, table.num_rows, table.column))


def checked(table: Table) -> Table:
    """Refuse a table without rows or columns, or with two columns of one name."""
    names = table.names
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(
            f"{table.where} has several columns named {listed(twice)}: give each its own name"
        )
    if table.rows == 0:
        raise InputError(
            f"{table.where} has no rows, only the columns {listed(names)}: give one with rows"
            if names
            else f"{table.where} is empty: give one with rows and columns"
        )
    return table


def class_names(schema: pa.Schema, name: str) -> tuple[str, ...]:
    """Return what Hugging Face calls the classes of a column; () where it does not say."""
    try:
        said: Any = json.loads((schema.metadata or {}).get(ROLES_OF_HUGGING_FACE, b"{}"))
        feature = said["info"]["features"][name]
        return tuple(map(str, feature["names"])) if feature["_type"] == "ClassLabel" else ()
    except (KeyError, TypeError, ValueError):
        return ()


def listed(names: list[str] | tuple[str, ...], most: int = 12) -> str:
    """Write names of columns or values in quotes, the first of them if there are many."""
    shown = ", ".join(f"'{name}'" for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
