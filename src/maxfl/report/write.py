"""Write a report: a page, tables, figures and model cards, in a folder of its own.

report.html       everything on one page, which works offline
tables/           summary, comparison and clients, as .md, .tex and .csv
figures/          .png, .pdf and .svg
model-cards.md    what each model is, and for whom it does not work
report.json       what the report was made from; a report is known by it
"""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from maxfl.data.statistics import Portrait
from maxfl.report.comparison import comparison_table, kept_and_lost_table, pairs
from maxfl.report.configurations import leaving_from, temperature
from maxfl.report.figures import draw_curves, draw_gaps, draw_states, draw_weights, save
from maxfl.report.model_card import cards
from maxfl.report.page import page
from maxfl.report.partition_plot import partition_figure
from maxfl.report.series import Key, Series, all_series, final_appeal, shown_methods
from maxfl.report.source import Source, read
from maxfl.report.summary_tables import clients_table, summary_table
from maxfl.report.table import Table, to_csv, to_latex, to_markdown
from maxfl.report.traces import Partition, Trace, read_partition, read_trace
from maxfl.report.verdict import verdicts
from maxfl.utils.errors import InputError
from maxfl.utils.files import write_json, write_whole

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
    _check_room(out, force)
    series = all_series(source)
    traces = _traces(source, series)
    compared = pairs(source, series)
    comparison = comparison_table(source, series, compared, traces)
    tables = [summary_table(source, series), *([comparison] if comparison else [])]
    # Beside the old report, so that it stands until the new one is whole.
    partial = out.with_name(f".{out.name}.partial")
    try:
        _make_empty(partial)
        long = [clients_table(traces), kept_and_lost_table(compared, traces)] if traces else []
        _write_tables(partial / "tables", tables, long, _label(folders))
        if figures:
            _draw(partial / "figures", source, series, traces)
        write_whole(partial / CARDS, cards(source).encode())
        text = page(source, series, tables, compared, traces)
        write_whole(partial / PAGE, text.encode())
        about = {"folders": [str(f) for f in folders], "missing": source.missing}
        write_json(partial / ABOUT, about)
        if out.exists():
            shutil.rmtree(out)
        partial.rename(out)
    except OSError as error:
        raise InputError(f"can't write a report to {out}: {error.strerror or error}") from error
    return Report(out, verdicts(source, series), source.missing)


def _check_room(out: Path, force: bool) -> None:
    """Refuse to touch anything but a report, and that only if it is wanted."""
    if not out.exists():
        return
    if not out.is_dir():
        raise InputError(f"{out} is a file: choose another folder with --out")
    there = {path.name for path in out.iterdir()}
    if there and (ABOUT not in there or not there <= set(OWN)):
        foreign = ", ".join(sorted(there - set(OWN) or there)[:3])
        raise InputError(
            f"{out} holds other things than a report ({foreign}): choose another folder with --out"
        )
    if there and not force:
        raise InputError(f"{out} already holds a report: add --force to replace it, or --out")


def _make_empty(folder: Path) -> None:
    if folder.exists():  # of a report that was cut off
        shutil.rmtree(folder)
    (folder / "tables").mkdir(parents=True)


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


def _write_tables(folder: Path, tables: Sequence[Table], long: Sequence[Table], label: str) -> None:
    """Every form of the tables; of long ones, which are for machines, CSV alone."""
    for table in [*tables, *long]:
        write_whole(folder / f"{table.name}.csv", to_csv(table).encode())
    for table in tables:
        write_whole(folder / f"{table.name}.md", to_markdown(table).encode())
        write_whole(folder / f"{table.name}.tex", to_latex(table, label).encode())


def _label(folders: Sequence[Path]) -> str:
    """For LaTeX, so that the tables of two reports can stand in one document."""
    return re.sub(r"\W+", "-", "-".join(folder.resolve().name for folder in folders))


def _draw(folder: Path, source: Source, series: dict[Key, Series], traces: Traces) -> None:
    folder.mkdir()
    for number, case in enumerate(source.cases):
        ending = f"-{number + 1}" if len(source.cases) > 1 else ""
        methods = shown_methods(source, series, case)
        first = {m: source.of(case, m)[0] for m in methods}
        start = leaving_from(list(first.values()))
        save(draw_curves(series, case, methods, start=start), folder, f"curves{ending}")
        own = {m: traces[case, m, c.seed] for m, c in first.items() if (case, m, c.seed) in traces}
        if not own:
            continue
        titled = {f"{m}, seed {first[m].seed}": trace for m, trace in own.items()}
        save(draw_states(titled), folder, f"clients{ending}")
        save(draw_gaps(titled), folder, f"gaps{ending}")
        method = max(own, key=lambda m: final_appeal(series, case, m))
        last = temperature(first[method].settings, int(own[method].rounds[-1]))
        save(
            draw_weights(own[method], f"{method}, seed {first[method].seed}", last),
            folder,
            f"weights{ending}",
        )
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
