"""A study's figures, ours and the paper's, cell by cell."""

import csv
from collections.abc import Container
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from maxfl.paper.declare import Column, Experiment
from maxfl.paper.study import ABOUT, RESULTS
from maxfl.utils.errors import InputError
from maxfl.utils.files import read_json

PERCENT = ("test_accuracy", "preferred_accuracy", "solo_accuracy")


class Printed(NamedTuple):
    """A cell of the paper, as printed."""

    mean: str
    deviation: str


class Outcome(NamedTuple):
    """A finished study.

    Attributes:
        table: Its ``results.parquet``.
        about: Its ``study.json``.
        place: Where it was read from.
    """

    table: pa.Table
    about: dict[str, Any]
    place: str

    @property
    def parts(self) -> list[str]:
        """Labels of the parts that were run."""
        return list(self.about["chosen"])

    def series(self, method: str, column: Column) -> tuple[NDArray[Any], NDArray[Any]]:
        """Rounds int[E], and values float[seeds, E] as tables show them."""
        rows = (
            (pc.field("part") == column.part)
            & (pc.field("method") == method)
            & (pc.field("clients") == column.clients)
            & (pc.field("model") == column.model)
            & (pc.field("metric") == column.metric)
        )
        own = self.table.filter(rows).sort_by([("seed", "ascending"), ("round", "ascending")])
        rounds, seeds = np.unique(own["round"].to_numpy()), np.unique(own["seed"].to_numpy())
        # One value for each seed and round; anything else would be read side by side wrongly.
        values = own["value"].to_numpy().astype(float).reshape(len(seeds), max(1, len(rounds)))
        return rounds, values * (100 if column.metric in PERCENT else 1)

    def final(self, method: str, column: Column) -> NDArray[Any]:
        """The figures of the final models, float[seeds]; empty if the method was not run."""
        return self.series(method, column)[1][:, -1]

    def troubles(self, parts: Container[str]) -> list[str]:
        """What went wrong in runs of some parts, a line for each method and mishap."""
        seeds: dict[str, list[int]] = {}
        for own in self.about["troubles"]:
            if own["part"] in parts:
                where = f"{own['part']}, {own['method']}: {own['what']}"
                seeds.setdefault(where, []).append(own["seed"])
        return [
            f"{where} (seed{'s' if len(own) > 1 else ''} {', '.join(map(str, own))})"
            for where, own in seeds.items()
        ]


def read(folder: Path, study: str) -> Outcome:
    """A finished run of a study in a folder."""
    if not (folder / ABOUT).is_file():
        raise InputError(
            f"{folder} holds no finished study: run it with `maxfl paper run`, or finish it with "
            f"--resume"
        )
    try:
        table = pq.read_table(folder / RESULTS)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{folder / RESULTS} can't be read: {error}") from error
    about = read_json(folder / ABOUT)
    if about["study"] != study:
        raise InputError(f"{folder} holds the study {about['study']}, not {study}")
    return Outcome(table, about, str(folder))


def kept(study: str) -> Path:
    """The folder of a study's full run that comes with the package; it may not be there."""
    return Path(str(files("maxfl.paper").joinpath("reference_runs", study)))


def printed(experiment: Experiment) -> dict[tuple[str, Column], Printed]:
    """The paper's own figures of an experiment, by method and column."""
    with files("maxfl.paper").joinpath("paper_values.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["experiment"] == experiment.name]
    columns = {tuple(map(str, column)): column for column in experiment.columns}
    fields = Column._fields
    return {
        (row["method"], columns[key]): Printed(row["mean"], row["deviation"])
        for row in rows
        if (key := tuple(row[field] for field in fields)) in columns
    }
