"""GM-Appeal against the number of global models, and how many are enough.

Runs that differ in ``portfolio.models`` alone are one method with portfolios of several sizes. A
client picks its model by the data that it judges by, and is counted by its test data: judging data
that chose among K models would flatter the larger K. How many are enough is read off the seen
clients, so that the unseen ones are a check.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from maxfl.report.configurations import SEEDS, Configuration
from maxfl.report.measures import APPEAL, Measure, measure_of
from maxfl.report.names import UNNAMED, label_of, model_name
from maxfl.report.series import used_model, used_series
from maxfl.report.statistics.bootstrap import Interval, bootstrap
from maxfl.report.statistics.compare import Results, difference
from maxfl.report.statistics.pairing import clients_of, federation_of, in_all_seeds, pair
from maxfl.report.table import Cell, Estimate, Statistic, Table, narrow
from maxfl.report.traces import read_trace

MODELS = "portfolio.models"
PATIENCE = "portfolio.patience"
IGNORED = (MODELS, PATIENCE, *SEEDS, *UNNAMED)
"""Settings that do not tell two methods apart here; of several models, patience does."""
GAIN = 0.02
"""GM-Appeal that one more model must add to be worth it."""
ROUNDING = 1e-6
"""Of shares, which are float32."""
FLOAT_BYTES, MIB = 4, 2**20


class Size(NamedTuple):
    """A portfolio of K models.

    Attributes:
        models: K.
        method: As the report names it.
        seeds: Those that all sizes have.
        appeal: GM-Appeal, by clients; an interval by a bootstrap over seeds and clients.
        added: What it has more than the size before, by clients; paired.
        metric: Mean of the first metric, by clients.
        download: MiB that a client receives in a round.
        upload: MiB that it sends: one update; with secure sums as much as it receives.
    """

    models: int
    method: str
    seeds: list[int]
    appeal: dict[str, Interval]
    added: dict[str, Interval]
    metric: dict[str, list[float]]
    download: float
    upload: float


class Sizes(NamedTuple):
    """Portfolios of several sizes that differ in nothing else.

    Attributes:
        case: The data.
        method: What they have in common, for people.
        sizes: In the order of K.
    """

    case: str
    method: str
    sizes: list[Size]

    @property
    def groups(self) -> list[str]:
        """Groups of clients that there are."""
        return list(self.sizes[0].appeal)


def models_of(configuration: Configuration) -> int:
    """Return K of a configuration; one where nothing is said of it."""
    return int(configuration.settings.get(MODELS) or 1)


def portfolio_sizes(results: Results) -> list[Sizes]:
    """Return the portfolios of every method that has several sizes."""
    found = []
    for case in results.source.cases:
        for members in _families(results, case):
            sizes = _sizes(results, case, members)
            if len(sizes.sizes) > 1 and sizes.sizes[0].seeds:
                found.append(sizes)
    return found


def _families(results: Results, case: str) -> list[dict[int, Configuration]]:
    """Return the first configurations of each method and patience, by K."""
    alone: dict[str, Configuration] = {}
    families: dict[tuple[str, str], dict[int, Configuration]] = {}
    for method in results.source.methods(case):
        first = results.source.of(case, method)[0]
        key = repr(sorted(_others(first).items()))
        if models_of(first) == 1:
            alone[key] = first
        else:
            patience = repr(first.settings.get(PATIENCE))
            families.setdefault((key, patience), {})[models_of(first)] = first
    return [
        ({1: alone[key]} if key in alone else {}) | members
        for (key, _), members in families.items()
    ]


def _others(configuration: Configuration) -> dict[str, Any]:
    return {k: v for k, v in configuration.settings.items() if k not in IGNORED}


def _sizes(results: Results, case: str, members: Mapping[int, Configuration]) -> Sizes:
    source = results.source
    ordered = [members[models] for models in sorted(members)]
    results = _with_clients(results, case, ordered)
    federations = [{c.seed: federation_of(c) for c in source.of(case, m.method)} for m in ordered]
    seeds = [s for s in federations[0] if all(f.get(s) == federations[0][s] for f in federations)]
    sizes, before = [], None
    for one in ordered:
        sizes.append(_size(results, case, one, before, seeds))
        before = one.method
    return Sizes(case, _common_name(results, case, members), sizes)


def _with_clients(results: Results, case: str, members: Sequence[Configuration]) -> Results:
    """Return results with the single clients of all sizes, also of those that are not drawn."""
    traces = dict(results.traces)
    for method in (one.method for one in members):
        for one in results.source.of(case, method):
            key = case, method, one.seed
            if key not in traces:
                trace = read_trace(one, used_model(results.series, case, method))
                traces |= {} if trace is None else {key: trace}
    return results._replace(traces=traces)


def _common_name(results: Results, case: str, members: Mapping[int, Configuration]) -> str:
    """Name what the sizes of a method have in common, beside other methods of the same data."""
    others = [results.source.of(case, m)[0] for m in results.source.methods(case)]
    among = [_others(other) for other in others]
    differing = [
        k for k in _others(members[max(members)]) if len({repr(s.get(k)) for s in among}) > 1
    ]
    names = {str(s.get("algorithm.name")) for s in among}
    patience = {repr(other.settings.get(PATIENCE)) for other in others if models_of(other) > 1}
    last = members[max(members)]
    differing += [PATIENCE] if len(patience) > 1 else []
    name = label_of(last.settings, differing, names)
    return model_name(name, used_model(results.series, case, last.method))


def _size(
    results: Results, case: str, one: Configuration, before: str | None, seeds: list[int]
) -> Size:
    groups = [g for g in ("seen", "unseen") if _known(results, case, one.method, g, APPEAL)]
    appeal = {g: _appeal(results, case, one.method, g, seeds) for g in groups}
    added: dict[str, Interval] = {}
    if before is not None:
        two = pair(results.source, case, one.method, before, seeds)
        differences = {g: difference(results, two, g, APPEAL) for g in groups}
        added = {g: d.interval for g, d in differences.items() if d is not None}
    measured = measure_of(results.source.metric)
    metric = {g: _finals(results, case, one.method, g, measured, seeds) for g in groups}
    one_model = _model_bytes(one) / MIB
    return Size(
        models_of(one), one.method, seeds, appeal, added, metric,
        models_of(one) * one_model, one_model,
    )  # fmt: skip


def _known(results: Results, case: str, method: str, clients: str, measure: Measure) -> bool:
    return used_series(results.series, case, method, clients, measure) is not None


def _appeal(
    results: Results, case: str, method: str, clients: str, seeds: Sequence[int]
) -> Interval:
    """Return GM-Appeal with its interval; clients that are the same in all seeds count as such."""
    itself = pair(results.source, case, method, method, seeds)
    if known := in_all_seeds(results.traces, itself, clients):
        satisfied = [both.a.satisfied[-1, both.group].astype(float) for both in known]
        return bootstrap(satisfied, clients_of(itself, known))
    return bootstrap([
        np.array([v]) for v in _finals(results, case, method, clients, APPEAL, seeds)
    ])  # fmt: skip


def _finals(
    results: Results, case: str, method: str, clients: str, measure: Measure, seeds: Sequence[int]
) -> list[float]:
    series = used_series(results.series, case, method, clients, measure)
    assert series is not None, "asked for where it is known"
    at = [c.seed for c in results.source.of(case, method)]
    finals = [float(series.values[at.index(seed), -1]) for seed in seeds]
    # A run that diverged satisfies nobody.
    return [float(np.nan_to_num(v)) for v in finals] if measure == APPEAL else finals


def _model_bytes(configuration: Configuration) -> int:
    """Return the size of a model as it travels: float32, without frozen parameters."""
    counts = configuration.entry.get("model", {}).get("parameters", {})
    return FLOAT_BYTES * (int(counts.get("trained", 0)) + int(counts.get("state", 0)))


class Enough(NamedTuple):
    """How many models are enough.

    Attributes:
        models: K; None where no size that was tried is, or larger ones may be worth it.
        why: In a sentence.
    """

    models: int | None
    why: str


def enough(sizes: Sizes, share: float | None = None, gain: float = GAIN) -> Enough:
    """Return the smallest portfolio that satisfies a share of the seen clients.

    Without a share, the smallest beyond which no larger one adds ``gain`` for every further model.
    """
    appeal = {s.models: s.appeal["seen"].mean for s in sizes.sizes}
    most = max(appeal)
    if share is not None:
        for models, reached in appeal.items():
            if reached >= share - ROUNDING:
                return Enough(models, f"{_models(models)}: {_percent(reached)} of the seen clients "
                              f"are satisfied, and {_percent(share)} were asked for")  # fmt: skip
        best = max(appeal, key=lambda models: appeal[models])
        return Enough(None, f"no portfolio of up to {_models(most)} satisfies {_percent(share)} of "
                      f"the seen clients: the best of them, {_models(best)}, satisfies "
                      f"{_percent(appeal[best])}")  # fmt: skip
    for models, reached in appeal.items():
        later = [(more, appeal[more] - reached) for more in appeal if more > models]
        if later and all(added < gain * (more - models) - ROUNDING for more, added in later):
            return Enough(models, f"{_models(models)}: {_percent(reached)} of the seen clients are "
                          f"satisfied; beyond, up to {most} models add less than {gain:g} "
                          f"each")  # fmt: skip
    return Enough(None, f"not to be told: the largest portfolio, {_models(most)}, satisfies "
                  f"{_percent(appeal[most])} of the seen clients, and adds {gain:g} or more for "
                  f"each model beyond a smaller one; try larger ones")  # fmt: skip


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _models(count: int) -> str:
    return "one model" if count == 1 else f"{count} models"


def sizes_table(found: Sequence[Sizes], results: Results) -> Table:
    """Tabulate portfolios by size and group of clients."""
    measured = measure_of(results.source.metric)
    rows: list[tuple[Cell, ...]] = []
    for family in found:
        for size, clients in ((s, c) for s in family.sizes for c in family.groups):
            nothing = Interval(*[float("nan")] * 3)
            rows.append((
                family.case, family.method, size.models, clients, len(size.seeds),
                share_cell(size.appeal[clients]),
                APPEAL.estimate(size.added.get(clients, nothing)),
                measured.statistic(size.metric[clients]),
                *(Statistic.of([mib], None) for mib in (size.download, size.upload)),
            ))  # fmt: skip
    headings = (
        "data", "method", "models", "clients", "seeds", "GM-Appeal (95 % interval)",
        "more than the size before", measured.heading, "download, MiB", "upload, MiB",
    )  # fmt: skip
    notes = (
        "Every client picks its model by the data that it judges by, and is counted by its test "
        "data. Intervals are by a bootstrap over seeds and clients; what a size has more than the "
        "one before is paired. Download and upload are of one client in a round, in float32: all "
        "models come down, one update goes up; with secure sums as much goes up as comes down.",
        *(f"{_whose(family)}: {enough(family).why}." for family in found),
    )
    return narrow(Table("portfolio", "How many models", headings, rows, notes))


def _whose(family: Sizes) -> str:
    words = f"Enough, at {GAIN:g} for each further model, for {family.method}"
    return ", ".join(part for part in (words, family.case) if part)


def share_cell(interval: Interval) -> Cell:
    """Return GM-Appeal with its interval, as tables print it."""
    return Estimate(*interval, digits=2, signed=False)
