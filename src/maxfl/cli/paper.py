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

from maxfl.cli.commands import ComputingCommand
from maxfl.cli.data import fetch_data
from maxfl.cli.options import check_folder, check_name
from maxfl.cli.terminal import announce, console, explain_interrupt, progress_bar
from maxfl.cli.theory import FIGURES, show_finding
from maxfl.engine.trainer import Progress
from maxfl.paper.catalogue import CLUSTERS_STUDY, EXHIBITS
from maxfl.paper.cluster_limit_study import (
    LIMIT_SUMMARY,
    limit_headings,
    limit_rows,
    read_limit,
    run_limit,
)
from maxfl.paper.compare import compare
from maxfl.paper.declare import Exhibit, Study, data_config, with_paper_data
from maxfl.paper.plot import draw
from maxfl.paper.results import StudyResults, read, reference_run
from maxfl.paper.study import SCALES, run_study
from maxfl.paper.troubles import not_run, trouble_lines
from maxfl.paper.words import Comparison, gm_appeal_note
from maxfl.utils.errors import InputError, check_choice
from maxfl.utils.paths import STUDY

app = typer.Typer(help="The paper's tables and figures, beside what it prints.")

Name = Annotated[str, typer.Argument(help="As `maxfl paper list` calls it, e.g. tab:testacc.")]

LIMIT = "limit"
LIMIT_TITLE = "ours: how many clients of the clusters one model can satisfy"
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
    """List every table and figure, and whether a full run of it comes with the package."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("name", "what", "reference run"):
        table.add_column(heading)
    for exhibit in EXHIBITS.values():
        table.add_row(exhibit.name, exhibit.title, _reference_parts(exhibit))
    limit = (reference_run(LIMIT) / LIMIT_SUMMARY).is_file()
    table.add_row(LIMIT, LIMIT_TITLE, "yes" if limit else "no")
    for name, figure in FIGURES.items():
        table.add_row(name, figure.title, "runs in seconds")
    console.print(table)
    console.print("Run one: maxfl paper run tab:testacc --scale quick", highlight=False)


@app.command("run", cls=ComputingCommand)
def run_command(
    name: Name,
    scale: Annotated[
        ScaleName,
        typer.Option(help="quick: minutes on two cores; full: the paper's protocol, for a GPU."),
    ] = ScaleName.QUICK,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Number of seeds; by default the scale's.")
    ] = None,
    part: Annotated[
        list[str] | None,
        typer.Option(help="Only this part or group of parts, e.g. FMNIST (repeatable)."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder; by default runs/paper/<study>-<parts>-<scale>.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted run.")] = False,
) -> None:
    """Run a table or figure and show it, ours beside the paper's.

    Example: maxfl paper run tab:testacc --scale quick
    """
    options = Options(scale, seeds, list(dict.fromkeys(part or [])), out, resume)
    _check_name(name)
    if name in FIGURES:
        _run_theory(name, options)
    elif name == LIMIT:
        _run_limit(options)
    else:
        _run_study(EXHIBITS[name], options)


@app.command("show")
def show_command(
    name: Name,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of a run; by default yours in runs/paper, else ours."),
    ] = None,
    reference: Annotated[
        bool, typer.Option("--reference", help="The full run that comes with the package.")
    ] = False,
    kept: Annotated[bool, typer.Option("--kept", hidden=True)] = False,
) -> None:
    """Show a table again, of your run or of the one that comes with the package."""
    if kept:
        raise InputError("--kept is called --reference now")
    _check_name(name)
    if name in FIGURES:
        raise InputError(f"{name} runs in seconds and has no reference run: maxfl paper run {name}")
    if name == LIMIT:
        _show_limit(reference_run(LIMIT) if reference else out or _find(LIMIT, LIMIT_SUMMARY))
        return
    exhibit = EXHIBITS[name]
    study = exhibit.study.name
    folder = reference_run(study) if reference else out or _find(study, STUDY)
    _show(exhibit, read(folder, study))


def _check_name(name: str) -> None:
    check_name(name, (*EXHIBITS, LIMIT, *FIGURES), "maxfl paper list")


def _reference_parts(exhibit: Exhibit) -> str:
    """Say which parts of an exhibit the reference run has."""
    folder = reference_run(exhibit.study.name)
    if not (folder / STUDY).is_file():
        return "no"
    shown = {column.part for column in exhibit.columns}
    parts = [part for part in read(folder, exhibit.study.name).parts if part in shown]
    if len(parts) < 4:
        return "; ".join(parts)
    return "yes" if len(parts) == len(shown) else f"{len(parts)} of {len(shown)} parts"


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
    seeds = options.seeds or len(SCALES[options.scale].final_seeds(CLUSTERS_STUDY))
    with _at_work(folder, CLUSTERS_STUDY._replace(parts=CLUSTERS_STUDY.parts[:1])):
        run_limit(options.scale, seeds, folder, _stage, resume=options.resume)
    _show_limit(folder)


def _run_study(exhibit: Exhibit, options: Options) -> None:
    scale = SCALES[options.scale]
    scale = scale if options.seeds is None else scale._replace(seeds=options.seeds)
    study = with_paper_data(_selected_parts(exhibit.study, options))
    name = re.sub(r"[^\w.]+", "-", "-".join([study.name, *options.parts, scale.name]))
    folder = options.out or RUNS / name
    console.print(
        f"[bold]{exhibit.name}[/]: {exhibit.title}. {scale.describe(study)}.", highlight=False
    )
    if left := [p.label for p in exhibit.study.parts if not p.quick and p not in study.parts]:
        console.print(f"Left out, as quick is: {', '.join(left)}.", highlight=False, markup=False)
    with _at_work(folder, study):
        run_study(study, scale, folder, _stage, resume=options.resume, announce=announce)
        results = read(folder, study.name)
        if exhibit.is_figure:
            figure = folder / f"{exhibit.name.replace(':', '-')}.png"
            draw(exhibit, results, figure)
    _show(exhibit, results)
    if exhibit.is_figure:
        console.print(f"Figure: {figure}", soft_wrap=True, highlight=False)


@contextmanager
def _at_work(folder: Path, study: Study) -> Iterator[None]:
    """See to folder and data first, and say how to go on if the work is cut off."""
    _make_folder(folder)
    fetch_data([data_config(part) for part in study.parts])
    with explain_interrupt(folder):
        yield


def _make_folder(folder: Path) -> None:
    """Make a folder before any work, so that a bad one is refused at once."""
    check_folder(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"can't use {folder} as a folder: {error.strerror}") from error


def _selected_parts(study: Study, options: Options) -> Study:
    """Return the study with the parts that were asked for, or that its scale runs."""
    known = dict.fromkeys(name for p in study.parts for name in (p.label, p.group))
    for name in options.parts:
        check_choice("--part", name, known)
    every = options.scale == ScaleName.FULL
    return study._replace(
        parts=tuple(
            part
            for part in study.parts
            if ({part.label, part.group} & set(options.parts))
            or (not options.parts and (every or part.quick))
        )
    )


def _find(study: str, last: str) -> Path:
    """Find the user's full or quick run, else the reference run."""
    users = [RUNS / f"{study}-{scale}" for scale in ("full", "quick")]
    for folder in (*users, reference_run(study)):
        if (folder / last).is_file():
            return folder
    raise InputError(
        f"no finished run of the study {study} is in {RUNS}, and none comes with the package: run "
        f"it, finish it with --resume, or name its folder with --out"
    )


@contextmanager
def _stage(name: str) -> Iterator[Callable[[int, int], Progress]]:
    """Show a progress bar for a stage."""
    with progress_bar(name) as bar:
        yield bar.parts


def _show(exhibit: Exhibit, results: StudyResults) -> None:
    """Print tables, remarks, and how they were made."""
    for comparison in compare(exhibit, results):
        _print_table(comparison)
    for line in trouble_lines(exhibit, results):
        console.print(f"{line}.", style="dim", highlight=False)
    if missing := not_run(exhibit, results):
        console.print(f"Not in this run: {', '.join(missing)}.", highlight=False, markup=False)
    summary = results.summary
    if not summary["scale"].startswith("full"):
        console.print(
            f"These are figures of a {summary['scale']}: don't compare them with the paper's; "
            f"`maxfl paper show {exhibit.name} --reference` has a full run, where there is one.",
            style="yellow", highlight=False,
        )  # fmt: skip
    seconds = summary["seconds"]
    time = "in several sittings" if seconds is None else f"in {seconds:.0f} s"
    console.print(
        f"Ours: {summary['scale']}; {time} on {summary['device']}; from {results.folder}.\n"
        f"{_footnote(exhibit)}.",
        style="dim", highlight=False,
    )  # fmt: skip


def _footnote(exhibit: Exhibit) -> str:
    """Say what figures, spreads and leads of a table are."""
    notes = []
    if appeal := gm_appeal_note(exhibit):
        notes.append(f"GM-Appeal: {appeal}")
    if exhibit.layout != "phases":
        notes.append("± is the standard deviation over seeds")
    if baseline := exhibit.study.baseline:
        over = "" if exhibit.layout == "sizes" else f"over {baseline}, "
        notes.append(f"leads are {over}seed by seed, with 95 % intervals (bootstrap over seeds)")
    return "; ".join(notes)


def _show_limit(folder: Path) -> None:
    """Print a row for each η_l, means over seeds."""
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
