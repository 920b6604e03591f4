"""The tables of a report: what each method reaches, and what becomes of every client."""

from collections.abc import Iterator, Mapping

from maxfl.report.series import SHOWN, Key, Series
from maxfl.report.source import Source
from maxfl.report.table import Cell, Figure, Table, digits_of, narrow
from maxfl.report.traces import Trace, TraceKey

READING = (
    "GM-Appeal: share of clients whose held-out loss with the global model is below what they "
    "require, by default that of a model trained alone. Preferred-model accuracy: if clients so "
    "satisfied use the global model and the others their own. ± is the sample deviation over seeds."
)


def summary_table(source: Source, series: Mapping[Key, Series]) -> Table:
    """A row for each case, method, group of clients and model."""
    rows: list[tuple[Cell, ...]] = []
    for case, method in _methods(source):
        seeds = len(source.of(case, method))
        for clients, model in _groups(series, case, method):
            found = [series.get(Key(case, method, clients, model, m)) for m in SHOWN]
            figures = [
                Figure.of([] if own is None else own.values[:, -1], *digits_of(metric))
                for metric, own in zip(SHOWN, found, strict=True)
            ]
            whose = clients if model == "global" else f"{clients}, personal"
            rows.append((case, method, whose, seeds, *figures))
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
    own = {(k.clients, k.model) for k in series if (k.case, k.method) == (case, method)}
    order = [(c, m) for m in ("global", "personal") for c in ("seen", "unseen")]
    return [pair for pair in order if pair in own]


def clients_table(traces: Mapping[TraceKey, Trace]) -> Table:
    """A row for each client of each run: why it keeps the model, or does not."""
    rows: list[tuple[Cell, ...]] = []
    for (case, method, seed), own in traces.items():
        gap = own.held_out_gap[-1]
        for k in range(len(own.seen)):
            rows.append((
                case, method, seed, str(own.name[k]), "seen" if own.seen[k] else "unseen",
                int(own.train_samples[k]), "yes" if own.flipped[k] else "no",
                *client_cells(own, k, float(gap[k])),
            ))  # fmt: skip
    headings = (
        "data", "method", "seed", "client", "group", "training samples", "flipped", "requirement",
        "held-out loss", "gap", "test accuracy, %", "solo accuracy, %", "keeps the model",
        "willing", "asked", "took part",
    )  # fmt: skip
    return narrow(Table("clients", "Every client in the end", headings, rows))


def client_cells(own: Trace, k: int, gap: float) -> tuple[Cell, ...]:
    """A client's figures at the end."""
    verdict = "lies" if own.byzantine[k] else "yes" if own.satisfied[-1, k] else "no"
    return (
        Figure.of([own.test_requirement[k]], 3),
        Figure.of([own.test_loss[-1, k]], 3),
        Figure.of([gap], 3, signed=True),
        Figure.of([own.accuracy[-1, k]], 1, percent=True),
        Figure.of([own.solo_accuracy[k]], 1, percent=True),
        verdict,
        "yes" if own.willing[-1, k] else "no",
        int(own.asked[k]),
        int(own.joined[k]),
    )
