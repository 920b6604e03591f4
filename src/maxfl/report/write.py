"""Write a report: a page, tables, figures and model cards, in one folder.

report.html       everything on one page, which works offline
tables/           summary, comparison, portfolios and clients, as .md, .tex and .csv
figures/          .png, .pdf and .svg
model-cards.md    what each model is, and for whom it does not work
report.json       what the report was made from; a report is known by it
"""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from maxfl.data.statistics import FederationStats
from maxfl.report.comparison import comparison_table, satisfied_by_one_table
from maxfl.report.configurations import start_round, temperature
from maxfl.report.figures import draw_curves, draw_gaps, draw_states, draw_weights, save
from maxfl.report.model_card.card import cards
from maxfl.report.page import page
from maxfl.report.partition_plot import partition_figure
from maxfl.report.portfolio.plot import draw_groups, draw_sizes
from maxfl.report.portfolio.section import PortfolioSection, portfolio_section
from maxfl.report.series import (
    Key,
    Series,
    all_series,
    drawn_methods,
    final_appeal,
    shown_name,
)
from maxfl.report.source import Source, read
from maxfl.report.statistics.compare import Results, read_traces
from maxfl.report.statistics.pairing import pairs
from maxfl.report.summary_tables import clients_table, summary_table
from maxfl.report.table import Table, to_csv, to_latex, to_markdown
from maxfl.report.traces import Partition, Trace, TraceKey, read_partition
from maxfl.report.verdict import falls, verdicts
from maxfl.utils.errors import InputError
from maxfl.utils.files import write_json, write_whole

PAGE, CARDS, ORIGIN = "report.html", "model-cards.md", "report.json"
CONTENT = (PAGE, CARDS, ORIGIN, "tables", "figures")
Traces = dict[TraceKey, Trace]


class Report(NamedTuple):
    """Where a report is, and what it says first.

    Attributes:
        folder: Of the report.
        verdicts: How methods stand, for each data set.
        missing: What could not be shown.
        falls: Methods that satisfied clearly more clients before the last round.
    """

    folder: Path
    verdicts: list[str]
    missing: list[str]
    falls: list[str]


def write_report(
    folders: str | Path | Sequence[str | Path],
    out: str | Path | None = None,
    *,
    force: bool = False,
    figures: bool = True,
    title: str | None = None,
) -> Report:
    """Make a report on one or more folders of results.

    Args:
        folders: Of runs, sweeps or studies; one or several.
        out: Folder of the report; by default ``report`` inside the one folder, or runs/report.
        force: Whether to replace a report that is there already.
        figures: Whether to write files with figures; the page draws them anyway.
        title: Of the page; by default the names of the folders.
    """
    named = [folders] if isinstance(folders, str | Path) else folders
    if not named:
        raise InputError("there is no folder to report on: name at least one")
    place = None if out is None else Path(out)
    return _write([Path(f) for f in named], place, force, figures, title)


def _write(
    folders: Sequence[Path], out: Path | None, force: bool, figures: bool, title: str | None
) -> Report:
    source = read(folders)
    out = out or (folders[0] / "report" if len(folders) == 1 else Path("runs/report"))
    _check_free(out, force)
    series = all_series(source)
    traces = read_traces(source, series)
    results = Results(source, series, traces)
    compared = pairs(source, series)
    comparison = comparison_table(results, compared)
    portfolio = portfolio_section(results)
    said, fell = verdicts(results), falls(results)
    tables = [summary_table(source, series), *([comparison] if comparison else [])]
    # Beside the old report, so that it stands until the new one is whole.
    partial = out.with_name(f".{out.name}.partial")
    try:
        _make_empty(partial)
        everybody = clients_table(traces, source.metric)
        long = [everybody, satisfied_by_one_table(compared, traces, series)] if traces else []
        _write_tables(partial / "tables", [*tables, *portfolio.tables], long, _label(folders))
        if figures:
            _draw(partial / "figures", source, series, traces)
            _draw_portfolios(partial / "figures", results, portfolio)
        write_whole(partial / CARDS, cards(source).encode())
        text = page(results, said, fell, tables, compared, portfolio, title)
        write_whole(partial / PAGE, text.encode())
        origin = {"folders": [str(f) for f in folders], "missing": source.missing}
        write_json(partial / ORIGIN, origin)
        if out.exists():
            shutil.rmtree(out)
        partial.rename(out)
    except OSError as error:
        raise InputError(f"can't write a report to {out}: {error.strerror or error}") from error
    return Report(out, said, source.missing, fell)


def _check_free(out: Path, force: bool) -> None:
    """Refuse to replace anything but a report, and that only if it is asked for."""
    if not out.exists():
        return
    if not out.is_dir():
        raise InputError(f"{out} is a file: choose another folder with --out")
    present = {path.name for path in out.iterdir()}
    if present and (ORIGIN not in present or not present <= set(CONTENT)):
        foreign = ", ".join(sorted(present - set(CONTENT) or present)[:3])
        raise InputError(
            f"{out} holds other things than a report ({foreign}): choose another folder with --out"
        )
    if present and not force:
        raise InputError(f"{out} already holds a report: add --force to replace it, or --out")


def _make_empty(folder: Path) -> None:
    if folder.exists():  # of a report that was cut off
        shutil.rmtree(folder)
    (folder / "tables").mkdir(parents=True)


def _write_tables(folder: Path, tables: Sequence[Table], long: Sequence[Table], label: str) -> None:
    """Write every form of the tables; of long ones, which are for machines, CSV alone."""
    for table in [*tables, *long]:
        write_whole(folder / f"{table.name}.csv", to_csv(table).encode())
    for table in tables:
        write_whole(folder / f"{table.name}.md", to_markdown(table).encode())
        write_whole(folder / f"{table.name}.tex", to_latex(table, label).encode())


def _label(folders: Sequence[Path]) -> str:
    """Return a label for LaTeX, so that the tables of two reports can stand in one document."""
    return re.sub(r"\W+", "-", "-".join(folder.resolve().name for folder in folders))


def _draw(folder: Path, source: Source, series: dict[Key, Series], traces: Traces) -> None:
    folder.mkdir()
    for i, case in enumerate(source.cases):
        ending = f"-{i + 1}" if len(source.cases) > 1 else ""
        methods = drawn_methods(source, series, case)
        first = {m: source.of(case, m)[0] for m in methods}
        start = start_round(list(first.values()))
        curves = draw_curves(series, case, methods, metric=source.metric, start_round=start)
        save(curves, folder, f"curves{ending}")
        known = {m: traces[case, m, c.seed] for m, c in first.items()
                 if (case, m, c.seed) in traces}  # fmt: skip
        if not known:
            continue
        names = {m: f"{shown_name(series, case, m)}, seed {first[m].seed}" for m in known}
        titled = {names[m]: trace for m, trace in known.items()}
        save(draw_states(titled), folder, f"clients{ending}")
        save(draw_gaps(titled), folder, f"gaps{ending}")
        one = max(known, key=lambda m: final_appeal(series, case, m))
        shown, done = known[one], int(known[one].rounds[-1])
        last = temperature(first[one].settings, done, shown.gap[-1], shown.weight[-1])
        title = f"{one}, seed {first[one].seed}"
        save(draw_weights(known[one], title, last), folder, f"weights{ending}")
        partition = read_partition(first[one].run_folder)
        if partition is not None:
            stats = _stats(first[one].data, partition, known[one])
            save(partition_figure(stats), folder, f"partition{ending}")


def _draw_portfolios(folder: Path, results: Results, portfolio: PortfolioSection) -> None:
    """Draw GM-Appeal by the number of models, and the groups of each portfolio's first seed."""
    if portfolio.sizes:
        save(draw_sizes(portfolio.sizes), folder, "portfolio")
    source, traces = results.source, results.traces
    first: dict[str, Trace] = {}
    for configuration in source.configurations:
        trace = traces.get((configuration.case, configuration.method, configuration.seed))
        if trace is not None and trace.picked is not None:
            parts = (configuration.case, configuration.method)
            title = ": ".join(part for part in parts if part)
            first.setdefault(title, trace)
    if first:
        save(draw_groups(first), folder, "portfolio-groups")


def _stats(title: str, partition: Partition, trace: Trace) -> FederationStats:
    return FederationStats(
        title,
        partition.labels,
        trace.name,
        partition.counts,
        trace.train_samples,
        trace.judging_samples,
        trace.test_samples,
        trace.seen,
        partition.flipped,
        trace.byzantine,
        (),
    )
