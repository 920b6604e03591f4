"""``maxfl paper``: the paper's tables and figures, run and shown beside what it prints."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from maxfl.data_command import fetch_data
from maxfl.errors import InputError, check_choice
from maxfl.paper.catalogue import CLUSTERS_STUDY, EXPERIMENTS
from maxfl.paper.compare import Comparison, compare
from maxfl.paper.declare import Experiment, Study
from maxfl.paper.draw import draw
from maxfl.paper.limit_study import limit_headings, limit_rows, read_limit, run_limit
from maxfl.paper.results import Outcome, kept, read
from maxfl.paper.study import ABOUT, SCALES, Scale, data_of, run_study
from maxfl.simulation import Progress
from maxfl.terminal import announce, bars, console, resumable
from maxfl.theory_command import FIGURES, show_finding

app = typer.Typer(help="The paper's tables and figures, run and shown beside what it prints.")

Name = Annotated[str, typer.Argument(help="As `maxfl paper list` calls it, e.g. tab:testacc.")]

LIMIT = "limit"
WHAT_LIMIT = "ours: how many clients of the clusters any one model can satisfy"


class ScaleName(StrEnum):
    """How much of the paper's protocol is run."""

    QUICK = "quick"
    FULL = "full"


@app.command("list")
def list_command() -> None:
    """Every table and figure, what it shows, and whether a full run comes with the package."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("name", "what", "full run kept"):
        table.add_column(heading)
    for experiment in EXPERIMENTS.values():
        there = (kept(experiment.study.name) / ABOUT).is_file()
        parts = read(kept(experiment.study.name)).parts if there else []
        table.add_row(experiment.name, experiment.what, ", ".join(parts) or "-")
    table.add_row(LIMIT, WHAT_LIMIT, "FMNIST" if kept(LIMIT).is_dir() else "-")
    for name, figure in FIGURES.items():
        table.add_row(name, figure.what, "seconds to run")
    console.print(table)
    console.print("Run one: maxfl paper run tab:testacc --scale quick", highlight=False)


@app.command("run")
def run_command(
    name: Name,
    scale: Annotated[
        ScaleName,
        typer.Option(help="quick: minutes on two cores; full: the paper's protocol, for a GPU."),
    ] = ScaleName.QUICK,
    seeds: Annotated[int | None, typer.Option(min=1, help="Instead of the scale's own.")] = None,
    part: Annotated[
        list[str] | None, typer.Option(help="Only this part, e.g. FMNIST (repeatable).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder; by default runs/paper/<study>-<scale>.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where it was cut off.")] = False,
) -> None:
    """Run an experiment and show its table, ours beside the paper's.

    Example: maxfl paper run tab:testacc --scale quick
    """
    if name in FIGURES:
        for finding in FIGURES[name].make():
            show_finding(finding, out or Path("runs/theory"))
        return
    if name == LIMIT:
        folder = out or Path("runs/paper") / f"{LIMIT}-{scale}"
        fetch_data([data_of(CLUSTERS_STUDY.parts[0])])
        with resumable(folder):
            run_limit(scale, seeds or SCALES[scale].seeds, folder, _stage, resume=resume)
        _show_limit(folder)
        return
    experiment = _experiment(name)
    chosen = SCALES[scale] if seeds is None else SCALES[scale]._replace(seeds=seeds)
    study = _narrowed(experiment.study, part or [])
    folder = out or _default_folder(study, chosen)
    console.print(f"[bold]{name}[/]: {experiment.what}. {chosen.words(study)}.", highlight=False)
    fetch_data([data_of(part) for part in study.parts])
    with resumable(folder):
        run_study(study, chosen, folder, _stage, resume=resume, announce=announce)
    _show(experiment, read(folder), folder)


@app.command("show")
def show_command(
    name: Name,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of a run; by default your last full or quick run, else ours."),
    ] = None,
) -> None:
    """Show an experiment's table again, of your run or of the one that comes with the package."""
    if name == LIMIT:
        _show_limit(kept(LIMIT) if out is None else out)
        return
    experiment = _experiment(name)
    outcome = _find(experiment.study) if out is None else read(out)
    _show(experiment, outcome, out)


def _experiment(name: str) -> Experiment:
    return EXPERIMENTS[check_choice("experiment", name, (*EXPERIMENTS, LIMIT, *FIGURES))]


def _narrowed(study: Study, labels: list[str]) -> Study:
    """The study with some of its parts only."""
    known = {part.label: part for part in study.parts}
    for label in labels:
        check_choice("--part", label, known)
    return study._replace(parts=tuple(known[label] for label in labels)) if labels else study


def _default_folder(study: Study, scale: Scale) -> Path:
    return Path("runs/paper") / f"{study.name}-{scale.name}"


def _find(study: Study) -> Outcome:
    """The user's last run, else the kept one."""
    for scale in (SCALES["full"], SCALES["quick"]):
        folder = _default_folder(study, scale)
        if (folder / ABOUT).is_file():
            return read(folder)
    if (kept(study.name) / ABOUT).is_file():
        return read(kept(study.name), "the full run that comes with the package")
    raise InputError(
        f"no run of the study {study.name} is here, and none comes with the package: run it"
    )


@contextmanager
def _stage(name: str) -> Iterator[Callable[[int, int], Progress]]:
    """A progress bar for a stage."""
    with bars(name) as shown:
        yield shown.parts


def _show(experiment: Experiment, outcome: Outcome, folder: Path | None) -> None:
    """Tables, remarks, and the figure where there is a folder for it."""
    for comparison in compare(experiment, outcome):
        _print_table(comparison)
    for note in outcome.about["notes"]:
        console.print(f"  {note}", style="dim", highlight=False)
    console.print(
        f"Ours: {outcome.about['scale']}; {outcome.about['seconds']:.0f} s on "
        f"{outcome.about['device']}; from {outcome.place}.\nGM-Appeal: held-out loss of the global "
        f"model below that of a model trained alone. Mean ± standard deviation over seeds.",
        style="dim", highlight=False,
    )  # fmt: skip
    if experiment.drawn and folder is not None:
        path = folder / f"{experiment.name.replace(':', '-')}.png"
        draw(experiment, outcome, path)
        console.print(f"Figure: {path}", soft_wrap=True, highlight=False)


def _show_limit(folder: Path) -> None:
    """One row for each η_l, means over seeds."""
    rows = read_limit(folder)
    table = Table(title="Clusters: the limit", title_justify="left", box=box.SIMPLE_HEAD)
    for heading in limit_headings():
        table.add_column(heading, justify="right")
    for row in limit_rows(rows):
        table.add_row(*row)
    console.print(table)
    console.print(
        "A model trained centrally on the data of some clusters satisfies the clients of some; the "
        "union of clusters that satisfies most is the limit. Small η_l make poor solo models, and "
        "so easy requirements.",
        style="dim",
    )


def _print_table(comparison: Comparison) -> None:
    table = Table(
        title=comparison.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD
    )
    for i, heading in enumerate(comparison.headings):
        table.add_column(heading, justify="right" if i else "left")
    for row in comparison.rows:
        table.add_row(*row, style="dim" if row[0].startswith(" ") else "")
    console.print(table)
    for remark in comparison.remarks:
        loud = "DIFFERS" in remark or "STAND-IN" in remark
        console.print(remark, style="yellow" if loud else "", highlight=False)
