"""A run's Parquet files, or a clear word on what is wrong with them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from maxfl.errors import InputError


def read_table(path: Path, **options: Any) -> pa.Table:
    """Read a file; options are pyarrow's."""
    try:
        return pq.read_table(path, **options)
    except (OSError, KeyError, pa.ArrowException) as error:
        raise InputError(
            f"{path} can't be read ({str(error).splitlines()[0]}): the folder is damaged or was "
            f"made by an older version; run it again into another folder"
        ) from error
