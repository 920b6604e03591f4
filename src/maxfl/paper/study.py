"""Run a study: search every method's grid, then run its best point and show it on test data.

Points are chosen on validation data, or by the data that clients judge by.

<folder>/search/          the sweep over the grids (``full`` only)
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
from maxfl.engine.trainer import Progress
from maxfl.paper.declare import Method, Part, Settings, Study
from maxfl.paper.leads import leads_in
from maxfl.paper.results import STUDY_SEARCH, StudyResults
from maxfl.paper.troubles import describe_trouble
from maxfl.runs.configs.file import override, override_all, validate
from maxfl.runs.configs.run import RunConfig
from maxfl.runs.folder import RunFolder
from maxfl.runs.grid import Grid
from maxfl.runs.sweep import run_sweep
from maxfl.runs.tables import to_parquet
from maxfl.utils.errors import InputError
from maxfl.utils.files import read_json, write_whole
from maxfl.utils.paths import EXPERIMENT, METRICS, STUDY, STUDY_RESULTS, SUMMARY

STUDY_METRICS = ("gm_appeal", "gm_appeal_judging", "test_accuracy", "preferred_accuracy",
                 "judging_loss", "test_loss", "solo_accuracy")  # fmt: skip
"""Metrics that the study's tables have; those of all rounds and clients are in the sweeps."""
JUDGING_METRICS = ("gm_appeal_judging", "judging_loss")
"""Those of them that are no test figures."""

Stage = Callable[[str], AbstractContextManager[Callable[[int, int], Progress]]]
"""Shows the progress of a stage by name."""
Announce = Callable[[str], None] | None
"""Called with a line on how a sweep is cut and what memory it takes."""


class Scale(NamedTuple):
    """How much of the paper's protocol is run.

    Attributes:
        name: quick or full.
        seeds: How many; None for the study's.
        rounds: R; None for the paper's.
        search: Whether hyper-parameters are searched; else the part's typical ones are taken.
        evaluate_every: Rounds between two evaluations of the final runs.
    """

    name: str
    seeds: int | None
    rounds: int | None
    search: bool
    evaluate_every: int

    def final_seeds(self, study: Study) -> Sequence[int]:
        """Return the seeds that are shown."""
        return range(self.seeds or study.seeds)

    def search_seeds(self, study: Study) -> Sequence[int]:
        """Return the seeds that points are chosen with."""
        return study.search_seeds[: self.seeds] or self.final_seeds(study)

    def describe(self, study: Study) -> str:
        """Say what of the paper's protocol is run."""
        seeds = len(self.final_seeds(study))
        words = [f"{seeds} seed{'s' if seeds > 1 else ''}"]
        if self.rounds is not None:
            words.append(f"{self.rounds} rounds instead of 200")
        if not study.grid:
            words.append("no search")
        elif self.search and study.chooses_by_judging:
            others = f" of {len(self.search_seeds(study))} other seeds" * bool(study.search_seeds)
            words.append(f"hyper-parameters chosen by seen clients' judging data{others}")
        elif self.search:
            words.append("hyper-parameters chosen on validation data, never on test")
        else:
            words.append("one point of the grid for all methods, no search")
        return f"{self.name}: {', '.join(words)}"


SCALES = {
    "quick": Scale("quick", seeds=1, rounds=25, search=False, evaluate_every=5),
    "full": Scale("full", seeds=None, rounds=None, search=True, evaluate_every=10),
}


def run_study(
    study: Study,
    scale: Scale,
    folder: Path,
    stage: Stage,
    *,
    resume: bool = False,
    announce: Announce = None,
) -> Path:
    """Run a study in a folder, or take up an unfinished one."""
    description = {"study": study.name, **scale._asdict(), "declaration": _describe(study)}
    run_folder = RunFolder(folder, (STUDY_RESULTS,), last=STUDY)
    with run_folder.claim(description, resume=resume) as finished:
        if not finished:
            # The time of a study that was cut off before is not known.
            began = None if any(folder.glob("*/" + EXPERIMENT)) else time.monotonic()
            searches = scale.search and study.grid
            chosen = _search(study, scale, folder, stage, announce) if searches else _typical(study)
            grid = _final_grid(study, scale, chosen)
            with stage("final runs") as progress:
                run_sweep(grid, folder / "final", resume=True, progress=progress, announce=announce)
            table = _compact(folder / "final")
            seconds = None if began is None else time.monotonic() - began
            summary = _summarize(study, scale, chosen, folder, seconds)
            if study.baseline:
                summary["leads"] = leads_in(study, StudyResults(table, summary, folder))
            run_folder.write_results({STUDY_RESULTS: to_parquet(table)}, summary)
    return folder


def _describe(study: Study) -> dict[str, Any]:
    """Return the declaration as JSON knows it, with all hyper-parameters of the methods."""
    runs = [configure(study.parts[0], method, {}, {}, 0) for method in study.methods]
    return {
        "parts": {part.label: part.settings | {"typical": part.typical} for part in study.parts},
        "methods": {run.values["method"]: _hparams(run.config) for run in runs},
        "grid": {key: list(values) for key, values in study.grid.items()},
        "chosen_by": f"{study.chosen_by} of the {study.model} model",
        **({"search_seeds": list(study.search_seeds)} if study.search_seeds else {}),
    }


def _hparams(config: RunConfig) -> Settings:
    """Return an algorithm's name and hyper-parameters, those that it has by default too."""
    name = config.algorithm.name
    defaults = inspect.signature(ALGORITHMS[name]).parameters.items()
    return {"name": name, **{n: p.default for n, p in defaults}, **config.algorithm.hparams}


Chosen = dict[tuple[str, str], Settings]
"""The point of the grid taken for each (part, method)."""


def _typical(study: Study) -> Chosen:
    pairs = itertools.product(study.parts, study.methods)
    return {(part.label, method.label): part.typical for part, method in pairs}


def _search(study: Study, scale: Scale, folder: Path, stage: Stage, announce: Announce) -> Chosen:
    """Find the best point of every method's grid, by the mean over seeds; never on test data."""
    grid = search_grid(study, scale)
    with stage("search") as progress:
        run_sweep(grid, folder / "search", resume=True, progress=progress, announce=announce)
    metrics = JUDGING_METRICS if study.chooses_by_judging else STUDY_METRICS
    found = _compact(folder / "search", metrics, last=True)
    write_whole(folder / STUDY_SEARCH, to_parquet(found))
    return {
        (part.label, method.label): best_point(study, found, part.label, method.label)
        for part, method in itertools.product(study.parts, study.methods)
    }


def search_grid(study: Study, scale: Scale) -> Grid:
    """Return every point of the grid, for each method, part and seed of the search."""
    where = "test" if study.chooses_by_judging else "validation"
    settings: Settings = {"data.evaluate_on": where, **_quarterly(study, scale)}
    # Seeds outside: methods that meet the same data come one after another.
    return _grid([
        configure(part, method, point, settings, seed)
        for part, seed, method, point in itertools.product(
            study.parts, scale.search_seeds(study), study.methods, study.points
        )
    ])  # fmt: skip


def _final_grid(study: Study, scale: Scale, chosen: Chosen) -> Grid:
    settings: Settings = {
        "training.evaluate_every": study.evaluate_every or scale.evaluate_every,
        "training.checkpoint_every": 50,
    }
    if scale.rounds is not None:
        settings["training.rounds"] = scale.rounds
    return _grid([
        configure(part, method, chosen[part.label, method.label], settings, seed)
        for part, seed, method in itertools.product(
            study.parts, scale.final_seeds(study), study.methods
        )
    ])  # fmt: skip


def _quarterly(study: Study, scale: Scale) -> Settings:
    """Return settings that evaluate and checkpoint four times: a kill then loses little."""
    rounds = scale.rounds or study.parts[0].settings["training.rounds"]
    every = -(-rounds // 4)
    return {
        "training.rounds": rounds,
        "training.evaluate_every": every,
        "training.checkpoint_every": every,
    }


class StudyRun(NamedTuple):
    """One run of a study.

    Attributes:
        values: What is special about it: part, method, point of the grid, seed.
        config: All its settings.
    """

    values: Settings
    config: RunConfig


def configure(
    part: Part, method: Method, point: Settings, settings: Settings, seed: int
) -> StudyRun:
    """Return the run of a method on a part at a point of the grid, with some further settings."""
    labels = {"part": part.label, "method": method.label}
    settings = {**part.settings, **point, **settings, "seed": seed}
    # The method last: its name leaves behind the hyper-parameters that only the part's one knows.
    nested = override_all(override_all({}, settings), method.settings)
    if method.rounds_key:
        nested = override(nested, method.rounds_key, nested["training"]["rounds"])
    where = f"{part.label}, {method.label}"
    return StudyRun({**labels, **point, "seed": seed}, validate(nested, where))


def _grid(runs: Sequence[StudyRun]) -> Grid:
    return Grid([run.values for run in runs], [run.config for run in runs])


def _compact(
    sweep: Path, metrics: Sequence[str] = STUDY_METRICS, *, last: bool = False
) -> pa.Table:
    """Return some metrics of a sweep; with ``last``, of the last round and seen clients alone."""
    table = pq.read_table(sweep / METRICS)
    rows = pc.field("metric").isin(metrics)
    if last:
        rounds = pc.max(table["round"]).as_py()
        rows = rows & (pc.field("round") == rounds) & (pc.field("clients") == "seen")
    return table.filter(rows).drop_columns(["configuration"])


def _summarize(
    study: Study, scale: Scale, chosen: Chosen, folder: Path, seconds: float | None
) -> dict[str, Any]:
    """Return what people want to know of a finished study."""
    runs = read_json(folder / "final" / SUMMARY)["configurations"]
    return {
        "study": study.name,
        "scale": scale.describe(study),
        "seconds": None if seconds is None else round(seconds, 1),
        "data": {run["values"]["part"]: run["data"] for run in runs},
        "data_notes": {part.label: part.note for part in study.parts},
        "chosen": {
            part.label: {m.label: chosen[part.label, m.label] for m in study.methods}
            for part in study.parts
        },
        "troubles": [
            {
                **{key: run["values"][key] for key in ("part", "method", "seed")},
                "what": describe_trouble(None if run["diverged"] else run["stalled_from_round"]),
            }
            for run in runs
            if run["diverged"] or run["stalled_from_round"]
        ],
        "declaration": _describe(study),
    }


def best_point(study: Study, found: pa.Table, part: str, method: str) -> Settings:
    """Return the point with the largest mean of the study's metric.

    Ties are broken by preferred accuracy; by judging loss where judging data choose.
    """
    rows = found.filter(
        (pc.field("part") == part)
        & (pc.field("method") == method)
        & (pc.field("model") == study.model)
        & (pc.field("clients") == "seen")
    )
    seeds: dict[tuple[Any, ...], list[Any]] = {}
    keys = zip(*(rows[name].to_pylist() for name in (*study.grid, "metric")), strict=True)
    for key, value in zip(keys, rows["value"].to_numpy(), strict=True):
        seeds.setdefault(key, []).append(value)

    def mean(point: Settings, metric: str) -> float:
        values = seeds.get((*point.values(), metric))
        return float(np.mean(values)) if values else np.nan

    def score(point: Settings) -> tuple[float, float]:
        # A model that diverged still has accuracy and appeal, but no loss: it is not taken.
        if not np.isfinite(mean(point, "judging_loss")):
            return -np.inf, -np.inf
        if study.chooses_by_judging:
            return mean(point, study.chosen_by), -mean(point, "judging_loss")
        return mean(point, study.chosen_by), mean(point, "preferred_accuracy")

    points = study.points
    scores = [score(point) for point in points]
    if max(scores)[0] == -np.inf:
        raise InputError(f"{study.name}: every configuration of {method} on {part} diverged")
    return points[scores.index(max(scores))]
