"""Files of a table: CSV, Parquet, Arrow, and folders of Hugging Face's ``save_to_disk``."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv, ipc, types

from maxfl.data.partition.own_parts import own_parts
from maxfl.data.tables.table import Table, checked, from_arrow, listed
from maxfl.utils.errors import InputError

PACKED = (".gz", ".bz2", ".zst")
"""What a CSV file may be packed with, by the last suffix."""
SEPARATORS = (",", ";", "\t", "|")
HEAD = 1 << 16
"""Bytes at the beginning of a CSV file in which its separator is looked for."""
FIRST_ROWS = 1 << 22
"""Bytes of a CSV file by which the types of its columns are told."""
HUGGING_FACE = ("state.json", "dataset_dict.json")
"""One of them is in every folder of ``save_to_disk``: of one data set, or of several splits."""
ARROW_FILE = b"ARROW1"
"""How an Arrow file begins; one that does not is a stream."""


def is_table(path: Path) -> bool:
    """Return whether a path is read as a table, by its name."""
    return _suffix(path) in READERS


def read_table(path: Path, text: Sequence[str] = (), setting: str = "data.file") -> Table:
    """Open a table, and read what there is to read at once.

    Args:
        path: A file, known by its suffix, or a folder of Hugging Face's.
        text: Columns that are read as text where a file leaves it open, so that 007 stays 007.
        setting: What names the path, for messages.
    """
    where = f"{setting} = {path}"
    if path.is_dir():
        return checked(_hugging_face(path, where))
    if not path.exists():
        seen_from = "" if path.is_absolute() else f" in the current folder, {Path.cwd()}"
        raise InputError(f"{where}: there is no such file{seen_from}")
    if path.stat().st_size == 0:
        raise InputError(f"{where} is empty: write it again")
    if not is_table(path):
        raise InputError(
            f"{where} has the suffix '{_suffix(path)}'; tables end in {listed([*READERS])} (CSV "
            f"also packed, as .csv.gz), or are folders of Hugging Face's save_to_disk"
        )
    with _explained(where):
        return checked(READERS[_suffix(path)](path, where, text))


@contextmanager
def _explained(where: str) -> Iterator[None]:
    """Say of what can't be read which file it is, and what to do."""
    try:
        yield
    except InputError:
        raise
    except UnicodeDecodeError:
        raise InputError(_not_utf8(where)) from None
    except (pa.ArrowException, OSError, ValueError) as error:
        words = " ".join(str(error).split())
        if "invalid UTF8" in words:
            raise InputError(_not_utf8(where)) from None
        raise InputError(
            f"{where} can't be read, or was cut off: {words.rstrip('.')}; correct it, or write it "
            f"again"
        ) from error


def _not_utf8(where: str) -> str:
    return (
        f"{where} is not text in UTF-8: save it as such (Excel: 'CSV UTF-8'; pandas: "
        f"encoding='utf-8')"
    )


def _suffix(path: Path) -> str:
    """Return the suffix that says what a file is, without that of what it is packed with."""
    last = path.suffix.lower()
    return Path(path.stem).suffix.lower() if last in PACKED else last


def _csv(path: Path, where: str, text: Sequence[str]) -> Table:
    """Read a CSV file; the separator is the one that its first line has most of."""
    with pa.input_stream(str(path), compression="detect") as stream:
        head = stream.read(HEAD)
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in head:
        raise InputError(_not_utf8(where))
    first = head.split(b"\n", 1)[0].decode("utf-8-sig", "replace")
    separator = max(SEPARATORS, key=first.count)
    table = _parsed(path, separator, dict.fromkeys(text, pa.string()))
    if any(types.is_binary(kind) for kind in table.schema.types):
        raise InputError(_not_utf8(where))
    return from_arrow(table, path.name, where)


def _parsed(path: Path, separator: str, known: dict[str, pa.DataType]) -> pa.Table:
    """Parse with the types that the first rows have; where that fails, with those of all rows.

    To find types of all rows the parser holds them all as text, three times the table. And lines
    that go on within quotes take a pass of their own.
    """
    quick, slow = (
        csv.ParseOptions(delimiter=separator, newlines_in_values=lines) for lines in (False, True)
    )

    def options(column_types: dict[str, pa.DataType]) -> csv.ConvertOptions:
        return csv.ConvertOptions(
            column_types=column_types, strings_can_be_null=True, quoted_strings_can_be_null=False
        )

    begin = csv.ReadOptions(block_size=FIRST_ROWS)
    with csv.open_csv(str(path), begin, slow, options(known)) as reader:
        found = {field.name: field.type for field in reader.schema if field.type != pa.null()}
    try:
        return csv.read_csv(str(path), None, quick, options(found))
    except pa.ArrowInvalid:
        return csv.read_csv(str(path), None, slow, options(known))


def _parquet(path: Path, where: str, text: Sequence[str]) -> Table:  # noqa: ARG001
    """Open a Parquet file; each column is read when it is asked for."""
    file = pq.ParquetFile(path)

    def column(name: str) -> pa.ChunkedArray:
        with _explained(where):
            return file.read([name]).column(name)

    return Table(path.name, where, file.schema_arrow, file.metadata.num_rows, column)


def _arrow(path: Path, where: str, text: Sequence[str]) -> Table:  # noqa: ARG001
    """Map an Arrow file, or stream in a file, into memory."""
    with path.open("rb") as file:
        is_file = file.read(len(ARROW_FILE)) == ARROW_FILE
    source = pa.memory_map(str(path))
    table = (ipc.open_file if is_file else ipc.open_stream)(source).read_all()
    return from_arrow(table, path.name, where)


READERS: dict[str, Callable[[Path, str, Sequence[str]], Table]] = {
    ".csv": _csv,
    ".tsv": _csv,
    ".parquet": _parquet,
    ".arrow": _arrow,
    ".feather": _arrow,
}
"""What reads a file, by its suffix."""


def _hugging_face(path: Path, where: str) -> Table:
    """Read a folder of ``datasets.Dataset.save_to_disk``, or of a DatasetDict with its splits.

    The library reads it, which knows about versions of its format.
    """
    if not any((path / name).is_file() for name in HUGGING_FACE):
        raise InputError(
            f"{where} is a folder, but none of Hugging Face's save_to_disk ({HUGGING_FACE[0]} is "
            f"not there): name a file, or write it again"
        )
    if find_spec("datasets") is None:
        raise InputError(
            f"{where} is a folder of Hugging Face's save_to_disk, which the package datasets "
            f'reads: pip install "maxfl[hf]"'
        )
    import datasets

    with _explained(where):
        loaded = datasets.load_from_disk(str(path))
        if not isinstance(loaded, datasets.DatasetDict):
            return from_arrow(hugging_face_table(loaded), path.name, where)
        return _splits(loaded, path, where)


def _splits(loaded: Any, path: Path, where: str) -> Table:
    """Put train, judging and test of several splits together."""
    if "train" not in loaded:
        raise InputError(
            f"{where} has the splits {listed([*loaded])}, but no 'train': save it with one"
        )
    found = [name for name in ("train", "judging", "test") if name in loaded]
    whole = pa.concat_tables([hugging_face_table(loaded[name]) for name in found])
    others = [name for name in loaded if name not in found]
    notes = (f"the splits {listed(others)} are not read",) if others else ()
    number = np.repeat(np.arange(len(found)), [len(loaded[name]) for name in found])
    table = from_arrow(whole, path.name, where)._replace(notes=notes)
    return table if len(found) == 1 else table._replace(own=own_parts(found, number, where, "rows"))


def hugging_face_table(dataset: Any) -> pa.Table:
    """Return the rows of Hugging Face's data set, in its order."""
    return dataset.with_format("arrow")[:]
