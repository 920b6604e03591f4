"""What a person sees in the terminal: progress while it runs, a table when it is done."""

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from maxfl.cli.signals import Interrupted, interruptible
from maxfl.runs.progress_bar import bar_columns
from maxfl.utils.errors import InputError, TrainingWarning

if TYPE_CHECKING:
    from maxfl.core.metrics import MetricInfo
    from maxfl.engine.trainer import Progress as Report
    from maxfl.report.measures import Measure

console = Console()
errors = Console(stderr=True)


MOST_COLUMNS = 2
"""Swept settings that have a column each; more would not fit beside the figures."""
QUIET = 15.0
"""Seconds between two lines of progress where there is no terminal to draw a bar in."""


class ProgressBar:
    """One bar for a run or all groups of a sweep; on a pipe, a line at times and a last one."""

    def __init__(self, progress: Progress, what: str) -> None:
        self._progress = progress
        self._task = progress.add_task(what, total=None)
        self._last_line, self._lines = time.monotonic(), 0
        self._done: dict[int, float] = {}

    def parts(self, number: int, parts: int) -> "Report":
        """Return the progress callback of group ``number`` (from 0) of ``parts``."""
        prefix = f"group {number + 1} of {parts}: " if parts > 1 else ""

        def report(stage: str, done: int, total: int) -> None:
            label = f"{prefix}{stage}"
            if stage == "resumed":
                errors.print(f"{prefix}resuming after round {done} of {total}", highlight=False)
            elif stage == "rounds":
                self._done[number] = done
                at, end = sum(self._done.values()), parts * total
                self._progress.update(self._task, description=label, completed=at, total=end)
                left = self._progress.tasks[0].time_remaining
                later = "" if left is None else f", about {left:.0f} s left"
                self._say(f"{label}, {done} of {total}{later if at < end else ''}", last=at == end)
            else:
                label += f", {done} of {total} models"
                self._progress.update(self._task, description=label)
                self._say(label)

        return report

    def _say(self, line: str, *, last: bool = False) -> None:
        """Print a line now and then where no bar can be drawn, and the last one if others were."""
        now = time.monotonic()
        is_due = self._lines > 0 if last else now - self._last_line >= QUIET
        if not errors.is_terminal and is_due:
            self._last_line, self._lines = now, self._lines + 1
            errors.print(line, highlight=False)


def set_quiet(quiet: bool = True) -> None:
    """Print nothing from here on, as in processes that only work with another; or print again."""
    console.quiet = errors.quiet = quiet


def print_error(error: Exception) -> None:
    """Print an error as one message, also where nothing else is printed."""
    set_quiet(False)
    errors.print(f"[bold red]Error:[/] {escape(str(error))}", highlight=False, soft_wrap=True)


@contextmanager
def print_warnings() -> Iterator[None]:
    """Print Python's warnings as notes, each once, without the line of code that gave them."""
    said: set[str] = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) in said:  # the groups of a sweep may have the same to say
            return
        said.add(str(message))
        errors.print(f"Note: {message}", style="yellow", markup=False, highlight=False)

    with warnings.catch_warnings():
        warnings.simplefilter("always", TrainingWarning)
        warnings.showwarning = show
        yield


def announce(line: str) -> None:
    """Say something about the work ahead."""
    errors.print(line, style="dim", highlight=False)


@contextmanager
def progress_bar(what: str) -> Iterator[ProgressBar]:
    """Show a progress bar with the time left."""
    with (
        interruptible(),  # or a bar that is cut off would leave the terminal without its cursor
        Progress(
            *bar_columns(), console=errors, transient=True, disable=not errors.is_terminal
        ) as progress,
    ):
        yield ProgressBar(progress, what)


@contextmanager
def explain_interrupt(folder: Path) -> Iterator[None]:
    """Say how to go on after Ctrl-C, SIGTERM, a full disk, and whatever the system refuses."""
    try:
        with interruptible():
            yield
    except OSError as error:
        raise InputError(
            f"{error}. {folder} keeps what is done: make room or remove the cause, then add "
            f"--resume to go on"
        ) from error
    except Interrupted as end:
        hint = f" {folder} keeps what is done: add --resume to go on." if folder.exists() else ""
        errors.print(f"{end}.{hint}", soft_wrap=True, markup=False, highlight=False)
        raise typer.Exit(end.exit_code) from None


@contextmanager
def download_bar() -> "Iterator[Report]":
    """Show a bar for every file that is downloaded; on a pipe, a line at times."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with (
        interruptible(),
        Progress(*columns, console=errors, disable=not errors.is_terminal) as progress,
    ):
        tasks: dict[str, TaskID] = {}
        last_line = time.monotonic()

        def report(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = progress.add_task(name, total=total or None)
            progress.update(tasks[name], completed=done)
            nonlocal last_line
            if not errors.is_terminal and time.monotonic() - last_line >= QUIET:
                last_line = time.monotonic()
                errors.print(f"{name}: {done / 1e6:.0f} of {total / 1e6:.0f} MB", highlight=False)

        yield report


def show_summary(configurations: Sequence[dict[str, Any]], title: str) -> None:
    """Print the final figures: a table for each first metric that models have."""
    from maxfl.report.measures import first_metric

    by_metric: dict[MetricInfo, list[dict[str, Any]]] = {}
    for entry in configurations:
        by_metric.setdefault(first_metric(entry), []).append(entry)
    for metric, entries in by_metric.items():
        _show_table(entries, title, metric)


def _show_table(configurations: Sequence[dict[str, Any]], title: str, metric: "MetricInfo") -> None:
    """Print the final figures; configurations that differ in the seed only are one row."""
    from maxfl.report.measures import (
        APPEAL,
        appeal_words,
        deciding_metric,
        direction,
        measure_of,
    )  # fmt: skip

    measure, preferred = measure_of(metric), measure_of(metric, "preferred")
    shown = measure.digits, measure.percent
    rows: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    names = list(dict.fromkeys(n for e in configurations for n in e["values"] if n != "seed"))
    for entry in configurations:
        rows.setdefault(tuple(str(entry["values"].get(n, "")) for n in names), []).append(entry)
    data = " and ".join(dict.fromkeys(e["data"] for e in configurations))
    table = Table(
        title=escape(f"{title}; {data}"),
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
    )
    headings = _headings(names)
    for heading in headings:
        table.add_column(heading, min_width=min(len(heading), 16), overflow="fold")
    table.add_column("clients", min_width=7)
    for heading in (APPEAL.words, measure.words, "preferred model"):
        table.add_column(heading, justify="right")
    for key, entries in rows.items():
        groups = _groups(entries)
        chosen_by = "judging" if entries[0].get("judge") == "held-out" else "test"
        labels = key if len(headings) == len(key) else (_in_one_cell(names, key),)
        for i, (group, figures) in enumerate(groups.items()):
            table.add_row(
                *((escape(label) for label in labels) if i == 0 else [""] * len(labels)),
                group,
                "diverged"
                if all(e["diverged"] for e in entries)
                else spread([f[APPEAL.key]["test"] for f in figures], APPEAL.digits),
                spread([f[measure.key] for f in figures], *shown),
                spread([f[preferred.key][chosen_by] for f in figures], *shown),
                end_section=i == len(groups) - 1,
            )
    console.print(table)
    for key, entries in rows.items():
        for note in _notes(entries):
            label = ", ".join(key) + (": " if key else "")
            console.print(f"{label}{note}", style="yellow", markup=False)
    for note in dict.fromkeys(note for e in configurations for note in e["notes"]):
        console.print(f"Data: {note}.", style="yellow", markup=False, highlight=False)
    console.print(
        f"{appeal_words(deciding_metric(configurations[0]))}\nPreferred model: "
        f"{measure.words}{direction(metric)} if each client uses the global model or its own, as "
        f"it would choose. If all seen clients used their own: {_solo(configurations, measure)}."
        f"{_on_personal(configurations)}",
        style="dim",
    )


def _on_personal(configurations: Sequence[dict[str, Any]]) -> str:
    """Say what personal models are, where there are some."""
    if all(entry["personal"] is None for entry in configurations):
        return ""
    return "\nPersonal: with the model that each client has of its own, which it would use."


def _headings(names: Sequence[str]) -> list[str]:
    """Return short names of swept settings; one for all where they would be too many columns."""
    if len(names) > MOST_COLUMNS:
        return ["settings"]
    last = [name.rpartition(".")[2] for name in names]
    return [s if last.count(s) == 1 else n for n, s in zip(names, last, strict=True)]


def _in_one_cell(names: Sequence[str], key: Sequence[str]) -> str:
    """Write the values of swept settings into one cell, without those that are missing."""
    short = [name.rpartition(".")[2] for name in names]
    return ", ".join(f"{n} {v}" for n, v in zip(short, key, strict=True) if v)


def _groups(entries: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the figures of each group of clients, and of their personal models, if any."""
    present = [g for g in ("seen", "unseen") if entries[0][g] is not None]
    groups = {group: [e[group] for e in entries] for group in present}
    if all(entry["personal"] is not None for entry in entries):
        groups |= {f"{g}, personal": [e["personal"][g] for e in entries] for g in present}
    return groups


def _solo(configurations: Sequence[dict[str, Any]], measure: "Measure") -> str:
    """Return the range of the solo models' mean over clients."""
    found = [e["seen"][f"solo_{measure.key}"] for e in configurations]
    values = [value for value in found if value is not None]  # a solo model may have diverged
    if not values:
        return "n/a"
    low, high = measure.printed(min(values)), measure.printed(max(values))
    return high if low == high else f"{low.removesuffix(' %')} to {high}"


def spread(values: Sequence[float | None], digits: int | None, percent: bool = False) -> str:
    """Write the mean ± sample standard deviation over seeds, or the value if there is one."""
    from maxfl.report.table import Statistic

    mean, std = Statistic.of(values, digits, percent).printed
    # Spaces that do not break, so that a narrow terminal wraps the headings and not the figures.
    unit = "\N{NO-BREAK SPACE}%" if percent and mean != "n/a" else ""
    more = f"\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{std}" if std else ""
    return f"{mean}{more}{unit}"


def _notes(entries: Sequence[dict[str, Any]]) -> list[str]:
    """Say what went wrong in some of the runs, if anything."""
    count = f"of {len(entries)} run{'s' if len(entries) > 1 else ''}"
    stalled = [e["stalled_from_round"] for e in entries if e["stalled_from_round"] is not None]
    found: dict[str, list[str]] = {}
    for entry in entries:
        for warning in entry.get("warnings", []):  # runs of 0.1 have none
            found.setdefault(warning["kind"], []).append(warning["text"])
    notes = [f"{len(texts)} {count}: {texts[0]}" for texts in found.values()]
    if stalled and "everybody-left" not in found:  # older runs say no more
        notes.append(
            f"{len(stalled)} {count} stopped learning: no honest client was willing from round "
            f"{min(stalled)} on"
        )
    diverged = sum(e["diverged"] for e in entries)
    if diverged and "diverged" not in found:
        notes.append(f"{diverged} {count} diverged: losses are not finite; lower the learning rate")
    if byzantine := max(e["byzantine_clients"] for e in entries):
        notes.append(f"{byzantine} seen clients are Byzantine, and count in no figure")
    if lost := max(e["clients_without_requirement"] for e in entries):
        notes.append(f"up to {lost} clients have no requirement: their solo training diverged")
    return notes
