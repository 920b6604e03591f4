"""``maxfl compare``: two methods, paired by seed and client, with intervals and a test."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from maxfl.cli.signals import interruptible
from maxfl.cli.terminal import console
from maxfl.utils.errors import InputError

if TYPE_CHECKING:
    from maxfl.report.source import Source
    from maxfl.report.statistics.compare import Difference, Results
    from maxfl.report.statistics.pairing import Pair
    from maxfl.report.statistics.two_methods import TwoMethods

app = typer.Typer()

SIDE = "Folder of a run or a sweep, a pattern of such in quotes, or DIR:METHOD of a sweep."
MOST_CONFIGURATIONS = 1000
"""Of a sweep whose methods are compared as soon as it is done; a report takes its time for more."""


@app.command("compare")
def compare_command(
    first: Annotated[str, typer.Argument(metavar="A", help=SIDE)],
    second: Annotated[str, typer.Argument(metavar="B", help="The same of the other method.")],
    measure: Annotated[
        list[str] | None,
        typer.Option(
            "--measure",
            metavar="NAME",
            help="What is compared (repeatable), as metrics.parquet names it: gm_appeal, "
            "test_accuracy, …; by default GM-Appeal and the first metric.",
        ),
    ] = None,
    clients: Annotated[
        str, typer.Option("--clients", help="Whose: seen, unseen or both.")
    ] = "both",
    only_global: Annotated[
        bool, typer.Option("--global", help="Global models, also where clients have personal ones.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,
) -> None:
    """Compare two methods seed by seed and client by client.

    Differences have a 95 % interval; whom one method alone satisfies is tested (McNemar).

    Example: maxfl compare runs/two:maxfl runs/two:fedavg
    """  # fmt: skip
    from maxfl.report.statistics import two_methods
    from maxfl.report.statistics.sides import parse_side, read_sides
    from maxfl.utils.errors import check_choice

    groups = {"both": two_methods.GROUPS} | {g: (g,) for g in two_methods.GROUPS}
    group = groups[check_choice("--clients", clients, groups)]
    with interruptible():
        sides = read_sides(parse_side(first), parse_side(second))
        compared = two_methods.compare_two(sides, measure or (), group, only_global=only_global)
    if not any(one.differences for one in compared):
        raise InputError(f"{first} and {second} have no {clients} clients: try --clients both")
    if as_json:
        text = json.dumps(two_methods.as_json(compared, sides.notes), ensure_ascii=False, indent=2)
        typer.echo(text)
        return
    for one in compared:
        _show(one)
    for note in sides.notes:
        console.print(f"{note}.", style="yellow", markup=False, highlight=False, soft_wrap=True)


def _show(one: "TwoMethods") -> None:
    """Print the table of two methods, and what it tells."""
    from maxfl.report.statistics.compare import few_seeds

    case, seeds = one.pair.case, len(one.pair.seeds)
    title = f"A: {one.a}\nB: {one.b}\n{seeds} seed{'s' if seeds > 1 else ''}"
    table = _table(f"{title}{f'; {case}' if case else ''}")
    table.add_column("measure", min_width=15)
    table.add_column("clients")
    for heading in ("A", "B", "A − B (95 % interval)"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("A is", min_width=8)
    for found in one.differences:
        table.add_row(found.measure.heading, found.clients, *_cells(found))
    console.print(table)
    for group, satisfied in one.satisfied.items():
        only_a, only_b, p = satisfied.all_seeds
        whose = " of all seeds" if seeds > 1 and not satisfied.same_clients else ""
        how = "in more seeds" if satisfied.same_clients else "alone"
        console.print(
            f"Of the {group} clients{whose}, {only_a} are satisfied by A {how} and {only_b} by B "
            f"{how}: McNemar's p {_p(p)}.",
            highlight=False,
        )
    refused = [d.refused for d in one.differences if d.refused]
    drawn = dict.fromkeys(d.resampled for d in one.differences if d.resampled)
    lines = [*refused, *(f"The interval is by a bootstrap over {what}" for what in drawn)]
    for line in dict.fromkeys(lines):
        words = f"{line[0].upper()}{line[1:]}."
        style = "yellow" if line in refused else "dim"
        console.print(words, style=style, markup=False, highlight=False)
    if little := few_seeds(seeds):
        console.print(f"{little}.", style="yellow", markup=False, highlight=False)


def show_standing(folder: Path) -> None:
    """Print below a sweep's table how its methods stand, and the first against the others."""
    from maxfl.report.source import read

    try:
        source = read([folder])
    except InputError as error:  # the sweep itself is fine, whatever can't be compared
        console.print(f"Not compared: {error}.", style="yellow", markup=False, highlight=False)
        return
    if len(source.configurations) > MOST_CONFIGURATIONS:
        console.print(f"Methods are compared by maxfl report {folder}", style="dim", markup=False)
    elif any(len(source.methods(case)) > 1 for case in source.cases):
        _show_methods(source)


def _show_methods(source: "Source") -> None:
    from maxfl.report.series import all_series, final_appeal, shown_name
    from maxfl.report.statistics.compare import Results, read_traces
    from maxfl.report.statistics.pairing import pairs
    from maxfl.report.verdict import verdicts

    series = all_series(source)
    results = Results(source, series, read_traces(source, series))
    for case in source.cases:
        first = max(source.methods(case), key=lambda m: final_appeal(series, case, m))
        compared = [p for p in pairs(source, series) if (p.case, p.first) == (case, first)]
        led = [pair for pair in compared if len(pair.seeds) > 1]
        if led:
            name = shown_name(series, case, first)
            _show_led(results, led, f"{case}: {name}" if case else name)
    for line in verdicts(results):
        console.print(line, markup=False, highlight=False)


def _show_led(results: "Results", led: "Sequence[Pair]", name: str) -> None:
    """Print the method with the most satisfied clients against the others, seen clients."""
    from maxfl.report.measures import APPEAL, measure_of
    from maxfl.report.series import shown_name
    from maxfl.report.statistics.compare import difference, satisfied_by_one

    measured = measure_of(results.source.metric)
    table = _table(f"A: {name}; seen clients, A − B (95 % interval), McNemar's p")
    table.add_column("B", min_width=10)
    for heading in ("GM-Appeal", measured.heading, "p"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("A is", min_width=8)
    for pair in led:
        found = [difference(results, pair, "seen", m) for m in (APPEAL, measured)]
        satisfied = satisfied_by_one(results, pair, "seen")
        table.add_row(
            escape(shown_name(results.series, pair.case, pair.second)),
            *("n/a" if d is None else _estimate(d) for d in found),
            _p(satisfied.all_seeds.p).removeprefix("= ") if satisfied else "n/a",
            (found[0].word if found[0] else "") or "n/a",
        )
    console.print(table)


def _table(title: str) -> Table:
    return Table(
        title=escape(title), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD,
        pad_edge=False,
    )  # fmt: skip


def _cells(found: "Difference") -> tuple[str, ...]:
    """Return A, B, their difference and the word for it."""
    means = (found.measure.printed(float(np.mean(side))) for side in (found.a, found.b))
    return (*means, _estimate(found), found.word or "n/a")


def _estimate(found: "Difference") -> str:
    from maxfl.report.table import plain

    return plain(found.measure.estimate(found.interval))


def _p(value: float) -> str:
    from maxfl.report.table import Probability

    (text,) = Probability(value).texts
    return text if text.startswith("<") else f"= {text}"
