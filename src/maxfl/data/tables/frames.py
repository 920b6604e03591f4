"""A frame of pandas, polars, Arrow or Hugging Face as a federation."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from maxfl.core.federation import Federation
from maxfl.data import partition
from maxfl.data.assemble import assemble, split_by_owner
from maxfl.data.partition import Split, check_rows
from maxfl.data.tables.columns import Rows, read_dataset
from maxfl.data.tables.files import hugging_face_table
from maxfl.data.tables.roles import TableOptions
from maxfl.data.tables.table import from_arrow, listed
from maxfl.utils.errors import InputError, check_count, shorten

WHERE = "the frame"


def federation_from_frame(
    frame: Any,
    client: str | Split,
    options: TableOptions,
    *,
    unseen: int,
    min_samples: int,
    train_fraction: float,
    seed: int,
) -> Federation:
    """Make a federation of a frame's rows; see ``Federation.from_dataframe``."""
    if not isinstance(client, str | Split):
        raise InputError(
            f"client = {shorten(client)}: name the column that says whose each row is, as text, or "
            f"give a split of maxfl.partition"
        )
    check_count("unseen", unseen, least=0)
    check_count("min_samples", min_samples, least=2)
    check_count("seed", seed, least=0)
    table = from_arrow(_arrow_table(frame), "own data", WHERE)
    _check_index(frame, client, table.names)
    rng = partition.generator(seed)
    if isinstance(client, Split):
        read = read_dataset(table, options)
        split = _kept(client, read, table.rows)
    else:
        read = read_dataset(table, options._replace(client=client))
        split = split_by_owner(read.dataset, unseen, min_samples, rng)
    return assemble(read.dataset, split, rng, unseen=unseen, train_fraction=train_fraction)


def _arrow_table(frame: Any) -> pa.Table:
    """Convert a frame without copying, where its columns allow it."""
    if isinstance(frame, str | Path):
        raise InputError(
            f"frame = {shorten(frame)} names a file: give what is in it, as "
            f"pandas.read_csv({shorten(str(frame))}), or name it as data.file in a configuration"
        )
    packages = _packages(frame)
    try:
        if "pandas" in packages:  # whose own conversion would make a column of the index
            return pa.Table.from_pandas(frame, preserve_index=False)
        if "datasets" in packages:
            if isinstance(frame, dict):
                raise InputError(
                    f"frame is a {type(frame).__name__} with the splits {listed([*frame])}: give "
                    f"one of them, as frame[{next(iter(frame), 'train')!r}], or its folder of "
                    f"save_to_disk as data.file in a configuration, where train and test are kept"
                )
            return hugging_face_table(frame)
        if "polars" in packages:
            if not hasattr(frame, "to_arrow"):
                raise InputError(f"frame is a {type(frame).__name__}: give frame.collect()")
            return frame.to_arrow()  # the common interface would copy all columns
        return frame if isinstance(frame, pa.Table) else pa.table(frame)
    except InputError:
        raise
    except (pa.ArrowException, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"frame = {shorten(type(frame))} can't be read as a table of columns, each of one "
            f"type: {' '.join(str(error).split())}; give a frame of pandas, polars, Arrow or "
            f"Hugging Face"
        ) from error


def _packages(frame: Any) -> set[str]:
    """Return the packages that a frame's type is made of."""
    return {base.__module__.partition(".")[0] for base in type(frame).__mro__}


def _check_index(frame: Any, client: str | Split, columns: list[str]) -> None:
    """Say of clients in the index of pandas, which is not read, how they become a column."""
    if "pandas" not in _packages(frame) or not isinstance(client, str) or client in columns:
        return
    if client in frame.index.names:
        raise InputError(
            f"client = '{client}' is the index of {WHERE}, not a column: give frame.reset_index()"
        )


def _kept(split: Split, read: Rows, rows: int) -> Split:
    """Number the samples of a split anew, without rows that were left out."""
    check_rows(split, rows, f"rows of {WHERE}")
    if read.kept is None:
        return split
    number = np.cumsum(read.kept) - 1
    return split._replace(parts=[number[part[read.kept[part]]] for part in split.parts])
