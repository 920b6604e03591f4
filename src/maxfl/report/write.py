"""Write a report: a page, tables, figures and model cards, in a folder of its own.

report.html       everything on one page, which works offline
tables/           summary, comparison and clients, as .md, .tex and .csv
figures/          .png, .pdf and .svg
model-cards.md    what each model is, and for whom it does not work
report.json       what the report was made from; written last, so a folder is known by it
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from maxfl.errors import InputError
from maxfl.files import write_json, write_whole
from maxfl.partition_figure import partition_figure
from maxfl.portrait import Portrait
from maxfl.report.card import cards
from maxfl.report.content import (
    Key,
    Series,
    all_series,
    clients_table,
    comparison_table,
    final_appeal,
    summary_table,
)
from maxfl.report.page import page, shown_methods, temperature, verdicts
from maxfl.report.pictures import draw_curves, draw_gaps, draw_states, draw_weights, save
from maxfl.report.source import Partition, Source, read, read_partition
from maxfl.report.table import Table, to_csv, to_latex, to_markdown
from maxfl.report.traces import Trace, read_trace

PAGE, CARDS, ABOUT = "report.html", "model-cards.md", "report.json"
OWN = (PAGE, CARDS, ABOUT, "tables", "figures")
Traces = dict[tuple[str, str, int], Trace]


class Report(NamedTuple):
    """Where a report is, and what it says first."""

    folder: Path
    verdicts: list[str]
    missing: list[str]


def write_report(
    folders: Sequence[Path],
    out: Path | None = None,
    *,
    force: bool = False,
    figures: bool = True,
) -> Report:
    """Make a report on one or more folders of results.

    Args:
        folders: Of runs, sweeps or studies.
        out: Folder of the report; by default ``report`` inside the one folder, or runs/report.
        force: Whether a report that is there is replaced.
        figures: Whether files with figures are drawn; the page has its own.
    """
    source = read(folders)
    out = out or (folders[0] / "report" if len(folders) == 1 else Path("runs/report"))
    _make_room(out, force)
    series = all_series(source)
    traces = _traces(source, series)
    compared = comparison_table(source, series, traces)
    tables = [summary_table(source, series), *([compared] if compared else [])]
    _write_tables(out / "tables", [*tables, *([clients_table(traces)] if traces else [])])
    if figures:
        _draw(out / "figures", source, series, traces)
    write_whole(out / CARDS, cards(source).encode())
    write_whole(out / PAGE, page(source, series, tables, traces).encode())
    write_json(out / ABOUT, {"folders": [str(f) for f in folders], "missing": source.missing})
    return Report(out, verdicts(source, series), source.missing)


def _make_room(out: Path, force: bool) -> None:
    """An empty folder for the report; what is there stays unless it is an old report."""
    try:
        there = {path.name for path in out.iterdir()} if out.exists() else set()
        if there and not there <= set(OWN):
            raise InputError(
                f"{out} holds other things than a report ({', '.join(sorted(there - set(OWN))[:3])}"
                f"): choose another folder with --out"
            )
        if there and not force:
            raise InputError(f"{out} already holds a report: add --force to replace it, or --out")
        for name in there:
            path = out / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for name in ("tables", "figures"):
            (out / name).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"can't write a report to {out}: {error.strerror}") from error


def _traces(source: Source, series: dict[Key, Series]) -> Traces:
    """Single clients of all methods that are drawn."""
    found: Traces = {}
    for case in source.cases:
        for method in shown_methods(source, series, case):
            for own in source.of(case, method):
                trace = read_trace(own)
                if trace is not None:
                    found[case, method, own.seed] = trace
    return found


def _write_tables(folder: Path, tables: Sequence[Table]) -> None:
    forms = {"md": to_markdown, "tex": to_latex, "csv": to_csv}
    for table in tables:
        for ending, form in forms.items():
            if table.name == "clients" and ending != "csv":
                continue  # thousands of rows are for machines
            write_whole(folder / f"{table.name}.{ending}", form(table).encode())


def _draw(folder: Path, source: Source, series: dict[Key, Series], traces: Traces) -> None:
    for number, case in enumerate(source.cases):
        ending = f"-{number + 1}" if len(source.cases) > 1 else ""
        methods = shown_methods(source, series, case)
        save(draw_curves(series, case, methods), folder, f"curves{ending}")
        first = {m: source.of(case, m)[0] for m in methods}
        own = {m: traces[case, m, c.seed] for m, c in first.items() if (case, m, c.seed) in traces}
        if not own:
            continue
        save(draw_states(own), folder, f"clients{ending}")
        save(draw_gaps(own), folder, f"gaps{ending}")
        method = max(own, key=lambda m: final_appeal(series, case, m))
        last = temperature(first[method].settings, int(own[method].rounds[-1]))
        save(draw_weights(own[method], method, last), folder, f"weights{ending}")
        partition = read_partition(first[method].place)
        if partition is not None:
            portrait = _portrait(first[method].data, partition, own[method])
            save(partition_figure(portrait), folder, f"partition{ending}")


def _portrait(title: str, partition: Partition, own: Trace) -> Portrait:
    return Portrait(
        title,
        partition.labels,
        own.name,
        partition.counts,
        own.train_samples,
        own.test_samples,
        own.seen,
        partition.flipped,
        own.byzantine,
        (),
    )
