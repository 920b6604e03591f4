"""``maxfl paper``: the paper's tables and figures, run and shown beside what it prints."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich import box
from rich.table import Table

from maxfl.cli.data import fetch_data
from maxfl.cli.terminal import announce, bars, console, resumable
from maxfl.cli.theory import FIGURES, show_finding
from maxfl.engine.simulation import Progress
from maxfl.paper.catalogue import CLUSTERS_STUDY, EXPERIMENTS
from maxfl.paper.cluster_limit_study import ABOUT as LIMIT_ABOUT
from maxfl.paper.cluster_limit_study import limit_headings, limit_rows, read_limit, run_limit
from maxfl.paper.compare import Comparison, compare
from maxfl.paper.declare import Experiment, Study, data_of, with_the_papers_data
from maxfl.paper.plot import draw
from maxfl.paper.results import Outcome, kept, read
from maxfl.paper.study import ABOUT, SCALES, run_study
from maxfl.utils.errors import InputError, check_choice

app = typer.Typer(help="The paper's tables and figures, run and shown beside what it prints.")

Name = Annotated[str, typer.Argument(help="As `maxfl paper list` calls it, e.g. tab:testacc.")]

LIMIT = "limit"
WHAT_LIMIT = "ours: how many clients of the clusters one model can satisfy"
RUNS = Path("runs/paper")


class ScaleName(StrEnum):
    """How much of the paper's protocol is run."""

    QUICK = "quick"
    FULL = "full"


class Options(NamedTuple):
    """What a user asked of a run."""

    scale: ScaleName
    seeds: int | None
    parts: list[str]
    out: Path | None
    resume: bool


@app.command("list")
def list_command() -> None:
    """Every table and figure, what it shows, and whether a full run comes with the package."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("name", "what", "full run kept"):
        table.add_column(heading)
    for experiment in EXPERIMENTS.values():
        table.add_row(experiment.name, experiment.what, _kept_parts(experiment))
    table.add_row(LIMIT, WHAT_LIMIT, "yes" if (kept(LIMIT) / LIMIT_ABOUT).is_file() else "no")
    for name, figure in FIGURES.items():
        table.add_row(name, figure.what, "runs in seconds")
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
        Path | None, typer.Option(help="Folder; by default runs/paper/<study>-<parts>-<scale>.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where it was cut off.")] = False,
) -> None:
    """Run an experiment and show its table, ours beside the paper's.

    Example: maxfl paper run tab:testacc --scale quick
    """
    options = Options(scale, seeds, list(dict.fromkeys(part or [])), out, resume)
    _check_name(name)
    if name in FIGURES:
        _run_theory(name, options)
    elif name == LIMIT:
        _run_limit(options)
    else:
        _run_study(EXPERIMENTS[name], options)


@app.command("show")
def show_command(
    name: Name,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of a run; by default yours in runs/paper, else ours."),
    ] = None,
    ours: Annotated[
        bool, typer.Option("--kept", help="The full run that comes with the package.")
    ] = False,
) -> None:
    """Show an experiment's table again, of your run or of the one that comes with the package."""
    _check_name(name)
    if name in FIGURES:
        raise InputError(f"{name} runs in seconds and is not kept: maxfl paper run {name}")
    if name == LIMIT:
        _show_limit(kept(LIMIT) if ours else out or _find(LIMIT, LIMIT_ABOUT))
        return
    experiment = EXPERIMENTS[name]
    study = experiment.study.name
    folder = kept(study) if ours else out or _find(study, ABOUT)
    _show(experiment, read(folder, study))


def _check_name(name: str) -> None:
    check_choice("experiment", name, (*EXPERIMENTS, LIMIT, *FIGURES))


def _kept_parts(experiment: Experiment) -> str:
    folder = kept(experiment.study.name)
    if not (folder / ABOUT).is_file():
        return "no"
    shown = {column.part for column in experiment.columns}
    parts = [part for part in read(folder, experiment.study.name).parts if part in shown]
    return "; ".join(parts) if len(parts) < 4 else "yes"


def _run_theory(name: str, options: Options) -> None:
    for option, given in (("--seeds", options.seeds), ("--part", options.parts)):
        if given:
            raise InputError(f"{option} does nothing for {name}, which is theory: leave it out")
    folder = options.out or Path("runs/theory")
    _make_folder(folder)
    for finding in FIGURES[name].make():
        show_finding(finding, folder)


def _run_limit(options: Options) -> None:
    if options.parts:
        raise InputError("--part does nothing for limit: leave it out")
    folder = options.out or RUNS / f"{LIMIT}-{options.scale}"
    seeds = options.seeds or SCALES[options.scale].seeds
    with _at_work(folder, CLUSTERS_STUDY._replace(parts=CLUSTERS_STUDY.parts[:1])):
        run_limit(options.scale, seeds, folder, _stage, resume=options.resume)
    _show_limit(folder)


def _run_study(experiment: Experiment, options: Options) -> None:
    scale = SCALES[options.scale]
    scale = scale if options.seeds is None else scale._replace(seeds=options.seeds)
    study = with_the_papers_data(_narrowed(experiment.study, options))
    name = re.sub(r"[^\w.]+", "-", "-".join([study.name, *options.parts, scale.name]))
    folder = options.out or RUNS / name
    console.print(
        f"[bold]{experiment.name}[/]: {experiment.what}. {scale.words(study)}.", highlight=False
    )
    if left := [p.label for p in experiment.study.parts if not p.quick and p not in study.parts]:
        console.print(f"Left out, as quick is: {', '.join(left)}.", highlight=False, markup=False)
    with _at_work(folder, study):
        run_study(study, scale, folder, _stage, resume=options.resume, announce=announce)
        outcome = read(folder, study.name)
        if experiment.drawn:
            figure = folder / f"{experiment.name.replace(':', '-')}.png"
            draw(experiment, outcome, figure)
    _show(experiment, outcome)
    if experiment.drawn:
        console.print(f"Figure: {figure}", soft_wrap=True, highlight=False)


@contextmanager
def _at_work(folder: Path, study: Study) -> Iterator[None]:
    """See to folder and data first, and tell how to go on if the work is cut off."""
    _make_folder(folder)
    fetch_data([data_of(part) for part in study.parts])
    with resumable(folder):
        yield


def _make_folder(folder: Path) -> None:
    """Make it before any work, so that a bad one is told at once."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"can't use {folder} as a folder: {error.strerror}") from error


def _narrowed(study: Study, options: Options) -> Study:
    """The study with the parts that were asked for, or that its scale runs."""
    known = {part.label: part for part in study.parts}
    for label in options.parts:
        check_choice("--part", label, known)
    every = options.scale == ScaleName.FULL
    wanted = options.parts or [label for label, part in known.items() if every or part.quick]
    return study._replace(parts=tuple(known[label] for label in wanted))


def _find(study: str, last: str) -> Path:
    """The user's own full or quick run, else the kept one."""
    for folder in (*(RUNS / f"{study}-{scale}" for scale in ("full", "quick")), kept(study)):
        if (folder / last).is_file():
            return folder
    raise InputError(
        f"no finished run of the study {study} is in {RUNS}, and none comes with the package: run "
        f"it, finish it with --resume, or name its folder with --out"
    )


@contextmanager
def _stage(name: str) -> Iterator[Callable[[int, int], Progress]]:
    """A progress bar for a stage."""
    with bars(name) as shown:
        yield shown.parts


def _show(experiment: Experiment, outcome: Outcome) -> None:
    """Tables, remarks, and how they were made."""
    for comparison in compare(experiment, outcome):
        _print_table(comparison)
    for line in outcome.troubles({column.part for column in experiment.columns}):
        console.print(f"  {line}", style="dim", highlight=False)
    about = outcome.about
    if not about["scale"].startswith("full"):
        console.print(
            f"These are figures of a {about['scale']}: don't compare them with the paper's; "
            f"`maxfl paper show {experiment.name} --kept` has a full run, where there is one.",
            style="yellow", highlight=False,
        )  # fmt: skip
    time = "in several sittings" if about["seconds"] is None else f"in {about['seconds']:.0f} s"
    console.print(
        f"Ours: {about['scale']}; {time} on {about['device']}; from {outcome.place}.\nGM-Appeal: "
        f"share of clients whose held-out loss with the global model is below that of a model "
        f"trained alone; ± is the standard deviation over seeds.",
        style="dim", highlight=False,
    )  # fmt: skip


def _show_limit(folder: Path) -> None:
    """One row for each η_l, means over seeds."""
    table = Table(title="Clusters: the limit", title_justify="left", box=box.SIMPLE_HEAD)
    for heading in limit_headings():
        table.add_column(heading, justify="right")
    for row in limit_rows(read_limit(folder)):
        table.add_row(*row)
    console.print(table)
    console.print(
        "GM-Appeal of the best of the 31 models that are trained centrally, one on each union of "
        "clusters. Small η_l make poor solo models, and so easy requirements.",
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
