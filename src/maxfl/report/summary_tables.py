"""The tables of a report: what each method reaches, and what becomes of every client."""

from collections.abc import Iterator, Mapping

from maxfl.report.series import SUMMARY_METRICS, Key, Series
from maxfl.report.source import Source
from maxfl.report.table import Cell, Statistic, Table, digits_of, narrow
from maxfl.report.traces import Trace, TraceKey

READING = (
    "GM-Appeal: share of clients whose held-out loss with the global model is below what they "
    "require, by default that of a model trained alone. Preferred-model accuracy: if clients so "
    "satisfied use the global model and the others their own. ± is the sample standard deviation "
    "over seeds."
)


def summary_table(source: Source, series: Mapping[Key, Series]) -> Table:
    """Tabulate the final metrics of each case, method, group of clients and model."""
    rows: list[tuple[Cell, ...]] = []
    for case, method in _methods(source):
        seeds = len(source.of(case, method))
        for clients, model in _groups(series, case, method):
            found = [series.get(Key(case, method, clients, model, m)) for m in SUMMARY_METRICS]
            statistics = [
                Statistic.of([] if measured is None else measured.values[:, -1], *digits_of(metric))
                for metric, measured in zip(SUMMARY_METRICS, found, strict=True)
            ]
            group = clients if model == "global" else f"{clients}, personal"
            rows.append((case, method, group, seeds, *statistics))
    headings = (
        "data", "method", "clients", "seeds", "GM-Appeal", "test accuracy, %",
        "preferred-model accuracy, %", "willing, %",
    )  # fmt: skip
    return narrow(Table("summary", "Final models", headings, rows, (READING,)))


def _methods(source: Source) -> Iterator[tuple[str, str]]:
    for case in source.cases:
        for method in source.methods(case):
            yield case, method


def _groups(series: Mapping[Key, Series], case: str, method: str) -> list[tuple[str, str]]:
    present = {(k.clients, k.model) for k in series if (k.case, k.method) == (case, method)}
    order = [(c, m) for m in ("global", "personal") for c in ("seen", "unseen")]
    return [pair for pair in order if pair in present]


def clients_table(traces: Mapping[TraceKey, Trace]) -> Table:
    """List every client of each run: whether it is satisfied in the end, and why."""
    rows: list[tuple[Cell, ...]] = []
    for (case, method, seed), trace in traces.items():
        gap = trace.held_out_gap[-1]
        for k in range(len(trace.seen)):
            rows.append((
                case, method, seed, str(trace.name[k]), "seen" if trace.seen[k] else "unseen",
                int(trace.train_samples[k]), "yes" if trace.flipped[k] else "no",
                *client_cells(trace, k, float(gap[k])),
            ))  # fmt: skip
    headings = (
        "data", "method", "seed", "client", "group", "training samples", "flipped", "requirement",
        "held-out loss", "gap", "test accuracy, %", "solo accuracy, %", "satisfied", "willing",
        "sampled", "participated",
    )  # fmt: skip
    return narrow(Table("clients", "Every client in the end", headings, rows))


def client_cells(trace: Trace, k: int, gap: float) -> tuple[Cell, ...]:
    """Return a client's cells: how the final model serves it."""
    satisfied = "Byzantine" if trace.byzantine[k] else "yes" if trace.satisfied[-1, k] else "no"
    return (
        Statistic.of([trace.test_requirement[k]], 3),
        Statistic.of([trace.test_loss[-1, k]], 3),
        Statistic.of([gap], 3, signed=True),
        Statistic.of([trace.accuracy[-1, k]], 1, percent=True),
        Statistic.of([trace.solo_accuracy[k]], 1, percent=True),
        satisfied,
        "yes" if trace.willing[-1, k] else "no",
        int(trace.rounds_sampled[k]),
        int(trace.rounds_participated[k]),
    )
