"""The results of a study, ours and the paper's, cell by cell."""

import csv
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from maxfl.paper.declare import Column, Exhibit
from maxfl.paper.legacy import rename_summary, rename_table
from maxfl.utils.errors import InputError
from maxfl.utils.files import read_json
from maxfl.utils.paths import STUDY, STUDY_RESULTS

STUDY_SEARCH = "search.parquet"
PERCENT = ("test_accuracy", "preferred_accuracy", "solo_accuracy")


class PaperValue(NamedTuple):
    """A cell of the paper, as printed."""

    mean: str
    std: str


class StudyResults(NamedTuple):
    """A finished study.

    Attributes:
        table: Its ``results.parquet``.
        summary: Its ``study.json``.
        folder: Where it was read from.
    """

    table: pa.Table
    summary: dict[str, Any]
    folder: Path

    @property
    def parts(self) -> list[str]:
        """Labels of the parts that were run."""
        return list(self.summary["chosen"])

    def only(self, columns: Sequence[Column]) -> "StudyResults":
        """Keep what some columns show, where many cells are read of it."""
        parts, metrics = ({getattr(c, name) for c in columns} for name in ("part", "metric"))
        rows = pc.field("part").isin(list(parts)) & pc.field("metric").isin(list(metrics))
        return self._replace(table=self.table.filter(rows))

    def series(self, method: str, column: Column) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return rounds int[E], and values float[seeds, E] as tables show them."""
        rows = (
            (pc.field("part") == column.part)
            & (pc.field("method") == method)
            & (pc.field("clients") == column.clients)
            & (pc.field("model") == column.model)
            & (pc.field("metric") == column.metric)
        )
        found = self.table.filter(rows).sort_by([("seed", "ascending"), ("round", "ascending")])
        rounds, seeds = np.unique(found["round"].to_numpy()), np.unique(found["seed"].to_numpy())
        # One value for each seed and round; anything else would be read side by side wrongly.
        values = found["value"].to_numpy().astype(float).reshape(len(seeds), max(1, len(rounds)))
        return rounds, values * (100 if column.metric in PERCENT else 1)

    def final(self, method: str, column: Column) -> NDArray[Any]:
        """Return the final models' values, float[seeds]; empty if the method was not run."""
        return self.series(method, column)[1][:, -1]


def read(folder: Path, study: str) -> StudyResults:
    """Read a finished run of a study from a folder."""
    if not (folder / STUDY).is_file():
        raise InputError(
            f"{folder} holds no finished study: run it with `maxfl paper run`, or finish it with "
            f"--resume"
        )
    table = _read_table(folder / STUDY_RESULTS)
    summary = rename_summary(read_json(folder / STUDY))
    if summary["study"] != study:
        raise InputError(f"{folder} holds the study {summary['study']}, not {study}")
    return StudyResults(table, summary, folder)


def read_search(folder: Path) -> pa.Table:
    """Read what a finished run of a study searched."""
    return _read_table(folder / STUDY_SEARCH)


def _read_table(path: Path) -> pa.Table:
    try:
        return rename_table(pq.read_table(path))
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path} can't be read: {error}") from error


def reference_run(study: str) -> Path:
    """Return the folder of a study's full run in the package; there may be none."""
    return Path(str(files("maxfl.paper").joinpath("reference_runs", study)))


def paper_values(exhibit: Exhibit) -> dict[tuple[str, Column], PaperValue]:
    """Return what the paper prints in an exhibit, by method and column."""
    with files("maxfl.paper").joinpath("paper_values.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["exhibit"] == exhibit.name]
    columns = {tuple(map(str, column)): column for column in exhibit.columns}
    fields = Column._fields
    return {
        (row["method"], columns[key]): PaperValue(row["mean"], row["std"])
        for row in rows
        if (key := tuple(row[field] for field in fields)) in columns
    }
