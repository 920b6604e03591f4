"""The tables of a report: what each method reaches, and what becomes of every client."""

from collections.abc import Iterator, Mapping

from maxfl.core.metrics import MetricInfo
from maxfl.report.measures import (
    WILLING,
    appeal_words,
    capitalised,
    deciding_words,
    direction,
    measure_of,
    summary_measures,
)
from maxfl.report.series import Key, Series
from maxfl.report.source import Source
from maxfl.report.table import Cell, Statistic, Table, narrow
from maxfl.report.traces import Trace, TraceKey


def _reading(source: Source) -> str:
    """Say how the columns are to be read."""
    metric, decides = source.metric, source.configurations[0].decides
    if source.is_real:
        return "GM-Appeal: share of clients that report that the model meets their requirement."
    preferred = capitalised(measure_of(metric, "preferred").words) + direction(metric)
    return (
        f"{appeal_words(decides)} {preferred}: if each client chooses between that model and the "
        f"one it trained alone. If a method has personal models, its clients would use these. "
        f"± is the sample standard deviation over seeds."
    )


def summary_table(source: Source, series: Mapping[Key, Series]) -> Table:
    """Tabulate the final metrics of each case, method, group of clients and model."""
    solo = measure_of(source.metric, "preferred")  # which a real federation's server does not know
    left_out = [*([solo] if source.is_real else []), *([WILLING] if source.nobody_leaves else [])]
    measures = [m for m in summary_measures(source.metric) if m not in left_out]
    rows: list[tuple[Cell, ...]] = []
    for case, method in _methods(source):
        seeds = len(source.of(case, method))
        for clients, model in _groups(series, case, method):
            found = [series.get(Key(case, method, clients, model, m.key)) for m in measures]
            statistics = [
                measure.statistic([] if measured is None else measured.values[:, -1])
                for measure, measured in zip(measures, found, strict=True)
            ]
            group = clients if model == "global" else f"{clients}, personal models"
            which: tuple[Cell, ...] = () if source.is_real else (group, seeds)
            rows.append((case, method, *which, *statistics))
    more = () if source.is_real else ("clients", "seeds")
    headings = ("data", "method", *more, *(measure.heading for measure in measures))
    return narrow(Table("summary", "Final models", headings, rows, (_reading(source),)))


def _methods(source: Source) -> Iterator[tuple[str, str]]:
    for case in source.cases:
        for method in source.methods(case):
            yield case, method


def _groups(series: Mapping[Key, Series], case: str, method: str) -> list[tuple[str, str]]:
    present = {(k.clients, k.model) for k in series if (k.case, k.method) == (case, method)}
    order = [(c, m) for m in ("global", "personal") for c in ("seen", "unseen")]
    return [pair for pair in order if pair in present]


def clients_table(traces: Mapping[TraceKey, Trace], metric: MetricInfo) -> Table:
    """List every client of each run: whether it is satisfied in the end, and why."""
    rows: list[tuple[Cell, ...]] = []
    has_several = any(trace.picked is not None for trace in traces.values())
    for (case, method, seed), trace in traces.items():
        gap = trace.test_gap[-1]
        for k in range(len(trace.seen)):
            rows.append((
                case, method, trace.model, seed, str(trace.name[k]),
                *_picked(trace, k, has_several),
                "seen" if trace.seen[k] else "unseen",
                int(trace.train_samples[k]), "yes" if trace.flipped[k] else "no",
                *client_cells(trace, k, float(gap[k]), metric),
            ))  # fmt: skip
    decides = deciding_words(next(iter(traces.values())).decides if traces else None)
    headings = (
        "data", "method", "model", "seed", "client", *(["picked model"] if has_several else []),
        "group", "training samples", "flipped",
        "requirement", f"test {decides}", "gap", measure_of(metric).heading,
        measure_of(metric, "solo").heading, "satisfied", "willing", "sampled", "participated",
    )  # fmt: skip
    return narrow(Table("clients", "Every client in the end", headings, rows))


def _picked(trace: Trace, k: int, has_several: bool) -> tuple[Cell, ...]:
    """Return the model of a portfolio that a client picked, where a table has portfolios."""
    if not has_several:
        return ()
    if trace.picked is None:
        return ("",)
    return ("n/a" if trace.picked[-1, k] < 0 else str(trace.picked[-1, k]),)


def client_cells(trace: Trace, k: int, gap: float, metric: MetricInfo) -> tuple[Cell, ...]:
    """Return a client's cells: how the final model serves it."""
    measure = measure_of(metric)
    satisfied = "Byzantine" if trace.byzantine[k] else "yes" if trace.satisfied[-1, k] else "no"
    return (
        Statistic.of([trace.test_requirement[k]], 3),
        Statistic.of([trace.test_value[-1, k]], 3),
        Statistic.of([gap], 3, signed=True),
        measure.statistic([trace.metric[-1, k]]),
        measure.statistic([trace.solo_metric[k]]),
        satisfied,
        "yes" if trace.willing[-1, k] else "no",
        int(trace.rounds_sampled[k]),
        int(trace.rounds_participated[k]),
    )
