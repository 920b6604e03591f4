"""``maxfl report`` and ``maxfl watch``: look at what was done, and at what is going on."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from maxfl.cli.signals import interruptible
from maxfl.cli.terminal import console
from maxfl.utils.errors import InputError
from maxfl.utils.paths import EXPERIMENT

if TYPE_CHECKING:
    from maxfl.runs.watch import Status

app = typer.Typer()

BLOCKS = "▁▂▃▄▅▆▇█"
BAR_WIDTH = 60
MOST_ROWS, MOST_WARNINGS = 12, 5
PATIENCE = 30.0
"""Seconds that a live page waits for a run that has not begun yet."""

Folders = Annotated[
    list[Path], typer.Argument(metavar="DIR...", help="Folders of runs, sweeps or studies.")
]


@app.command("report")
def report_command(
    folders: Folders,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the report; by default DIR/report, or runs/report for many."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a report that is there.")] = False,
    figures: Annotated[bool, typer.Option(help="Whether to draw files with figures.")] = True,
    title: Annotated[
        str | None, typer.Option(help="Title of the page; by default the names of the folders.")
    ] = None,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="Write nothing: serve a page on this machine alone that follows work in progress.",
        ),
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Of the live page; by default any that is free."),
    ] = None,
) -> None:
    """Make tables, figures, model cards and one page to look at.

    Example: maxfl report runs/demo

    Example: maxfl report runs/demo --live
    """
    if live:
        _refuse_with_live(out, force, figures)
        _serve(folders, title, port)
        return
    if port is not None:
        raise InputError("--port is that of a live page: add --live, or leave it out")
    from maxfl.report.write import PAGE, write_report

    with console.status("Reading, drawing and writing"), interruptible():
        made = write_report(folders, out, force=force, figures=figures, title=title)
    for line in made.verdicts:
        console.print(line, markup=False, highlight=False)
    for line in [*made.falls, *made.missing]:
        console.print(line, style="yellow", markup=False, soft_wrap=True)
    console.print(f"Page: {made.folder / PAGE}", soft_wrap=True, highlight=False)
    what = "Tables, figures and model cards" if figures else "Tables and model cards"
    console.print(f"{what}: {made.folder}", soft_wrap=True, highlight=False)


def _refuse_with_live(out: Path | None, force: bool, figures: bool) -> None:
    """Refuse options of what is written, since a live page writes nothing."""
    given = {"--out": out is not None, "--force": force, "--no-figures": not figures}
    for name in (name for name, is_given in given.items() if is_given):
        raise InputError(f"{name} and --live: a live page writes nothing, leave one of them out")


def _serve(folders: list[Path], title: str | None, port: int | None) -> None:
    from maxfl.runs.live import LivePage

    _wait_for(folders)
    page = LivePage(folders, title)
    with page.served(port or 0) as address, interruptible():
        console.print(f"{address}  (Ctrl-C ends the page, not the run)", highlight=False)
        try:
            while True:
                time.sleep(3600)
        except KeyboardInterrupt:
            console.print("The page is no longer served.")


def _wait_for(folders: list[Path]) -> None:
    """Wait a little for runs that were started a moment ago."""
    deadline = time.monotonic() + PATIENCE
    with console.status("Waiting for the run to begin"), interruptible():
        while time.monotonic() < deadline and not all((f / EXPERIMENT).is_file() for f in folders):
            time.sleep(0.2)


@app.command("watch")
def watch_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that a run writes to.")],
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between updates.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Look once and leave.")] = False,
) -> None:
    """Follow a run, sweep or study in progress.

    Leaving (Ctrl-C) does not disturb it.

    Example: maxfl watch runs/demo
    """
    from maxfl.runs.watch import read_status

    status = read_status(folder)
    if once:
        console.print(_panel(folder, status))
        raise typer.Exit(int(status.alive is False and not status.finished))
    try:
        with (
            interruptible(),
            Live(_panel(folder, status), console=console, auto_refresh=False) as live,
        ):
            while not status.finished and status.alive is not False:
                time.sleep(every)
                status = read_status(folder)
                live.update(_panel(folder, status), refresh=True)
    except KeyboardInterrupt:
        console.print("No longer watching; the run goes on.")
        return
    if not status.finished:
        raise typer.Exit(1)
    console.print(f"Finished. Look at it: maxfl report {folder}", soft_wrap=True, highlight=False)


def _panel(folder: Path, status: "Status") -> Panel:
    parts: list[RenderableType] = [_headline(status)]
    if status.total:
        filled = round(BAR_WIDTH * status.done / status.total)
        parts.append("█" * filled + "░" * (BAR_WIDTH - filled))
    measures = status.measures
    width = max(10, *(len(measure.words) + 1 for measure in measures))
    for measure in measures:
        values = [v for v in status.trail.get(measure.key, []) if v is not None]
        if values:
            # Shares go from 0 to 1, and other metrics as far as they go.
            low, high = (min(values), max(values)) if measure.digits is None else (0.0, 1.0)
            line = f"{_spark(values, low, high)} {measure.printed(values[-1])}"
            parts.append(f"{measure.words:<{width}}{line}")
    if status.rows:
        parts.append(_rows(status))
    warnings = list(dict.fromkeys(status.warnings))
    parts += [f"[yellow]{escape(text)}[/]" for text in warnings[:MOST_WARNINGS]]
    if (left := len(warnings) - MOST_WARNINGS) > 0:
        parts.append(f"[yellow]and {left} more warnings[/]")
    return Panel(Group(*parts), title=escape(str(folder)), title_align="left", width=78)


def _headline(status: "Status") -> str:
    trouble = f", [red]{escape(status.trouble)}[/]" if status.trouble else ""
    return f"[bold]{escape(status.headline)}[/]{trouble}"


def _spark(values: list[float], low: float = 0.0, high: float = 1.0, width: int = 40) -> str:
    """Draw numbers as blocks, from the lowest that there may be to the highest."""
    step = max(1, -(-len(values) // width))
    picked = values[::-1][::step][::-1]
    top = len(BLOCKS) - 1
    span = (high - low) or 1.0
    return "".join(BLOCKS[round(min(1.0, max(0.0, (v - low) / span)) * top)] for v in picked)


def _rows(status: "Status") -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("latest, seen clients")
    measures = status.measures
    for measure in measures:
        table.add_column(measure.words, justify="right")
    for label, latest in status.rows[-MOST_ROWS:]:
        cells = (measure.printed(latest.get(measure.key)) for measure in measures)
        table.add_row(escape(label), *cells)
    if (left := len(status.rows) - MOST_ROWS) > 0:
        table.add_row(f"and {left} before these", "", "", "")
    return table
