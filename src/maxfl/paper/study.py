"""Run a study: search every method's grid on validation data, then run its best point on test data.

<folder>/search/          the sweep over the grids (``full`` only), on validation data
<folder>/final/           the chosen points, on test data
<folder>/search.parquet   the search's final figures, seen clients
<folder>/results.parquet  the final runs' figures: part, method, seed, round, clients, metric, value
<folder>/study.json       what was chosen, on which machine, in what time; written last
"""

import inspect
import itertools
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from maxfl.algorithms import ALGORITHMS
from maxfl.engine.simulation import Progress
from maxfl.paper.declare import Method, Part, Settings, Study
from maxfl.runs.config import RunConfig
from maxfl.runs.config_file import override, override_all, validate
from maxfl.runs.run import claimed, machine
from maxfl.runs.sweep import Grid, run_sweep
from maxfl.runs.tables import to_parquet
from maxfl.utils.errors import InputError
from maxfl.utils.files import read_json, write_json, write_whole
from maxfl.utils.paths import EXPERIMENT, METRICS, STUDY, STUDY_RESULTS, SUMMARY

RESULTS, SEARCH, ABOUT = STUDY_RESULTS, "search.parquet", STUDY
KEPT = ("gm_appeal", "gm_appeal_training", "test_accuracy", "preferred_accuracy", "train_loss",
        "test_loss", "solo_accuracy")  # fmt: skip
"""Metrics that the compact files have; those of all rounds and clients are in the sweeps."""

Stage = Callable[[str], AbstractContextManager[Callable[[int, int], Progress]]]
"""Shows the progress of a stage by name."""


class Scale(NamedTuple):
    """How much of the paper's protocol is run.

    Attributes:
        name: quick or full.
        seeds: How many.
        rounds: T; None for the paper's.
        search: Whether hyper-parameters are searched; else the part's typical ones are taken.
        every: Rounds between two evaluations.
    """

    name: str
    seeds: int
    rounds: int | None
    search: bool
    every: int

    def words(self, study: Study) -> str:
        """For people: what of the paper's protocol is run."""
        words = [f"{self.seeds} seed{'s' if self.seeds > 1 else ''}"]
        if self.rounds is not None:
            words.append(f"{self.rounds} rounds instead of 200")
        if not study.grid:
            words.append("one setting changed at a time, no search")
        elif self.search:
            words.append("hyper-parameters chosen on validation data, never on test")
        else:
            words.append("one point of the grid for all methods, no search")
        return f"{self.name}: {', '.join(words)}"


SCALES = {
    "quick": Scale("quick", seeds=1, rounds=25, search=False, every=5),
    "full": Scale("full", seeds=3, rounds=None, search=True, every=10),
}


def run_study(
    study: Study,
    scale: Scale,
    folder: Path,
    stage: Stage,
    *,
    resume: bool = False,
    announce: Callable[[str], None] | None = None,
) -> Path:
    """Run a study in a folder, or take it up there; see ``run_sweep`` for ``announce``."""
    description = {"study": study.name, **scale._asdict(), "plan": _plain(study)}
    with claimed(folder, description, resume=resume, results=(RESULTS,), last=ABOUT) as finished:
        if not finished:
            # The time of a study that was cut off before is not known.
            began = None if any(folder.glob("*/" + EXPERIMENT)) else time.monotonic()
            searches = scale.search and study.grid
            chosen = _search(study, scale, folder, stage, announce) if searches else _typical(study)
            grid = _final_grid(study, scale, chosen)
            with stage("final runs") as progress:
                run_sweep(grid, folder / "final", resume=True, progress=progress, announce=announce)
            _write(folder / RESULTS, _compact(folder / "final"))
            seconds = None if began is None else time.monotonic() - began
            write_json(folder / ABOUT, _about(study, scale, chosen, folder, seconds))
    return folder


def _plain(study: Study) -> Any:
    """The declaration as JSON knows it, with all numbers of the methods."""
    first = study.parts[0]
    return {
        "parts": {part.label: part.settings | {"typical": part.typical} for part in study.parts},
        "methods": {m.label: _numbers(case(first, m, {}, {}, 0).config) for m in study.methods},
        "grid": {key: list(values) for key, values in study.grid.items()},
        "chosen_by": f"{study.chosen_by} of the {study.model} model",
    }


def _numbers(config: RunConfig) -> Settings:
    """A method's name and numbers, those that it has by default too."""
    name = config.algorithm.name
    defaults = inspect.signature(ALGORITHMS[name]).parameters.items()
    return {"name": name, **{n: p.default for n, p in defaults}, **config.algorithm.numbers}


Chosen = dict[tuple[str, str], Settings]
"""The point of the grid taken for each (part, method)."""


def _typical(study: Study) -> Chosen:
    pairs = itertools.product(study.parts, study.methods)
    return {(part.label, method.label): part.typical for part, method in pairs}


def _search(
    study: Study,
    scale: Scale,
    folder: Path,
    stage: Stage,
    announce: Callable[[str], None] | None,
) -> Chosen:
    """The best point of every method's grid, by the mean over seeds on validation data."""
    at_end: Settings = {"data.evaluate_on": "validation", **_seldom(scale, study)}
    cases = [
        case(part, method, point, at_end, seed)
        for part, method, point, seed in itertools.product(
            study.parts, study.methods, study.points, range(scale.seeds)
        )
    ]
    with stage("search") as progress:
        run_sweep(
            _grid(cases), folder / "search", resume=True, progress=progress, announce=announce
        )
    found = _compact(folder / "search", last=True)
    _write(folder / SEARCH, found)
    return {
        (part.label, method.label): best(study, found, part.label, method.label)
        for part, method in itertools.product(study.parts, study.methods)
    }


def _final_grid(study: Study, scale: Scale, chosen: Chosen) -> Grid:
    more: Settings = {"training.evaluate_every": scale.every, "training.block": 50}
    if scale.rounds is not None:
        more["training.rounds"] = scale.rounds
    return _grid([
        case(part, method, chosen[part.label, method.label], more, seed)
        for part, method, seed in itertools.product(
            study.parts, study.methods, range(scale.seeds)
        )
    ])  # fmt: skip


def _seldom(scale: Scale, study: Study) -> Settings:
    """Evaluate a few times only."""
    rounds = scale.rounds or study.parts[0].settings["training.rounds"]
    every = -(-rounds // 4)  # in four blocks, so that progress shows and a kill loses little
    return {
        "training.rounds": rounds, "training.evaluate_every": every, "training.block": every,
    }  # fmt: skip


class Case(NamedTuple):
    """One run: what is special about it, and its configuration."""

    values: Settings
    config: RunConfig


def case(part: Part, method: Method, point: Settings, more: Settings, seed: int) -> Case:
    """A method on a part, at a point of its grid."""
    labels = {"part": part.label, "method": method.label}
    settings = {**part.settings, **point, **more, "seed": seed}
    # The method last: another name leaves behind the numbers that only the part's own one knows.
    nested = override_all(override_all({}, settings), method.settings)
    if method.paced:
        nested = override(nested, method.paced, nested["training"]["rounds"])
    where = f"{part.label}, {method.label}"
    return Case({**labels, **point, "seed": seed}, validate(nested, where))


def _grid(cases: Sequence[Case]) -> Grid:
    return Grid([case.values for case in cases], [case.config for case in cases])


def _compact(folder: Path, *, last: bool = False) -> pa.Table:
    """The figures of a sweep that tables and drawings need."""
    table = pq.read_table(folder / METRICS)
    wanted = pc.field("metric").isin(KEPT)
    if last:
        rounds = pc.max(table["round"]).as_py()
        wanted = wanted & (pc.field("round") == rounds) & (pc.field("clients") == "seen")
    return table.filter(wanted).drop_columns(["configuration"])


def _about(
    study: Study, scale: Scale, chosen: Chosen, folder: Path, seconds: float | None
) -> dict[str, Any]:
    """What people want to know of a finished study."""
    summary = read_json(folder / "final" / SUMMARY)["configurations"]
    data = {entry["values"]["part"]: entry["data"] for entry in summary}
    troubles = [
        {
            **{key: entry["values"][key] for key in ("part", "method", "seed")},
            "what": "diverged"
            if entry["diverged"]
            else f"nobody willing from round {entry['stalled_from_round']} on",
        }
        for entry in summary
        if entry["diverged"] or entry["stalled_from_round"]
    ]
    return {
        "study": study.name,
        **machine(),
        "scale": scale.words(study),
        "seconds": None if seconds is None else round(seconds, 1),
        "data": data,
        "data_notes": {part.label: part.note for part in study.parts},
        "chosen": {
            part.label: {m.label: chosen[part.label, m.label] for m in study.methods}
            for part in study.parts
        },
        "troubles": troubles,
        "plan": _plain(study),
    }


def _write(path: Path, table: pa.Table) -> None:
    write_whole(path, to_parquet(table))


def best(study: Study, found: pa.Table, part: str, method: str) -> Settings:
    """The point with the largest mean of the study's metric; ties by the preferred model's."""
    own = found.filter((pc.field("part") == part) & (pc.field("method") == method))

    def mean(point: Settings, metric: str) -> float:
        rows = (pc.field("metric") == metric) & (pc.field("model") == study.model)
        for key, value in point.items():
            rows = rows & (pc.field(key) == value)
        values = own.filter(rows & (pc.field("clients") == "seen"))["value"].to_numpy()
        return float(values.mean()) if len(values) else np.nan

    def score(point: Settings) -> tuple[float, float]:
        # A model that diverged still has accuracy and appeal, but no loss: it is not taken.
        if not np.isfinite(mean(point, "train_loss")):
            return -np.inf, -np.inf
        return mean(point, study.chosen_by), mean(point, "preferred_accuracy")

    points = study.points
    scores = [score(point) for point in points]
    if max(scores)[0] == -np.inf:
        raise InputError(f"{study.name}: every configuration of {method} on {part} diverged")
    return points[scores.index(max(scores))]
