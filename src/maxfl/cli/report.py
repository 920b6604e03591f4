"""``maxfl report`` and ``maxfl watch``: look at what was done, and at what is going on."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from maxfl.cli.terminal import console
from maxfl.report.table import Figure
from maxfl.report.write import PAGE, write_report
from maxfl.runs.watch import Look, look

BLOCKS = "▁▂▃▄▅▆▇█"
BAR = 60
MOST_ROWS = 12
QUIET = 90.0
"""Seconds without a sign of life after which one should look after a run."""

Folders = Annotated[
    list[Path], typer.Argument(metavar="DIR...", help="Folders of runs, sweeps or studies.")
]


def report_command(
    folders: Folders,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the report; by default DIR/report, or runs/report for many."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a report that is there.")] = False,
    figures: Annotated[bool, typer.Option(help="Whether to draw files with figures.")] = True,
) -> None:
    """Make tables, figures, model cards and one page to look at.

    Example: maxfl report runs/demo
    """
    with console.status("Reading, drawing and writing"):
        made = write_report(folders, out, force=force, figures=figures)
    for line in made.verdicts:
        console.print(line, markup=False, highlight=False)
    for line in made.missing:
        console.print(line, style="yellow", markup=False, soft_wrap=True)
    console.print(f"Page: {made.folder / PAGE}", soft_wrap=True, highlight=False)
    what = "Tables, figures and model cards" if figures else "Tables and model cards"
    console.print(f"{what}: {made.folder}", soft_wrap=True, highlight=False)


def watch_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that a run writes to.")],
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Look once and leave.")] = False,
) -> None:
    """Follow a run, sweep or study in progress; leaving (Ctrl-C) does not disturb it.

    Example: maxfl watch runs/demo
    """
    seen = look(folder)
    if once:
        console.print(_panel(folder, seen))
        raise typer.Exit(int(seen.alive is False and not seen.finished))
    try:
        with Live(_panel(folder, seen), console=console, auto_refresh=False) as shown:
            while not seen.finished and seen.alive is not False:
                time.sleep(every)
                seen = look(folder)
                shown.update(_panel(folder, seen), refresh=True)
    except KeyboardInterrupt:
        console.print("No longer watching; the run goes on.")
        return
    if not seen.finished:
        raise typer.Exit(1)
    console.print(f"Finished. Look at it: maxfl report {folder}", soft_wrap=True, highlight=False)


def _panel(folder: Path, seen: Look) -> Panel:
    parts: list[RenderableType] = [_headline(seen)]
    if seen.total:
        filled = round(BAR * seen.done / seen.total)
        parts.append("█" * filled + "░" * (BAR - filled))
    for name, metric in (("GM-Appeal", "gm_appeal"), ("accuracy", "test_accuracy"),
                         ("willing", "willing")):  # fmt: skip
        values = [v for v in seen.trail.get(metric, []) if v is not None]
        if values:
            parts.append(f"{name:<10}{_spark(values)} {_shown(metric, values[-1])}")
    if seen.rows:
        parts.append(_rows(seen))
    return Panel(Group(*parts), title=escape(str(folder)), title_align="left", width=78)


def _headline(seen: Look) -> str:
    words = [f"[bold]{escape(seen.stage)}[/]"]
    if seen.total and not seen.finished:
        words.append(f"{seen.done:.0f} of {seen.total:.0f} rounds")
    if seen.left is not None and not seen.finished:
        words.append(f"about {_duration(seen.left)} left")
    if seen.alive is False and not seen.finished:
        why = escape(seen.stopped or "no process is at work")
        words.append(f"[red]stopped ({why}): add --resume to go on[/]")
    elif seen.silent > QUIET:
        words.append(f"[yellow]no sign of life for {_duration(seen.silent)}[/]")
    return ", ".join(words)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _spark(values: list[float], width: int = 40) -> str:
    """Shares from 0 to 1 as blocks."""
    step = max(1, -(-len(values) // width))
    picked = values[::-1][::step][::-1]
    top = len(BLOCKS) - 1
    return "".join(BLOCKS[round(min(1.0, max(0.0, v)) * top)] for v in picked)


def _rows(seen: Look) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("latest, seen clients")
    for heading in ("GM-Appeal", "accuracy", "willing"):
        table.add_column(heading, justify="right")
    for label, own in seen.rows[-MOST_ROWS:]:
        cells = (_shown(m, own.get(m)) for m in ("gm_appeal", "test_accuracy", "willing"))
        table.add_row(escape(label), *cells)
    if (left := len(seen.rows) - MOST_ROWS) > 0:
        table.add_row(f"and {left} before these", "", "", "")
    return table


def _shown(metric: str, value: float | None) -> str:
    if value is None:
        return "n/a"
    return Figure(value, None, 2).printed[0] if metric == "gm_appeal" else f"{100 * value:.1f} %"
