"""Which runs of two methods can be subtracted: the same seed, the same clients, the same demand."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxfl.report.configurations import Configuration
from maxfl.report.series import Key, Series, drawn_methods, final_appeal
from maxfl.report.source import Source
from maxfl.report.traces import Trace, TraceKey

Traces = Mapping[TraceKey, Trace]
KIND, METRIC = "requirement.kind", "requirement.metric"
SAME = 0.01
"""Share of the mean requirement by which two runs may differ: the order of float sums does that."""


class Pair(NamedTuple):
    """Two methods on the same data, seed by seed.

    Attributes:
        case: The data.
        first: A.
        second: B.
        seeds: In which both had the same clients.
        is_one_federation: Whether all of these seeds have the same federation, splits and all.
    """

    case: str
    first: str
    second: str
    seeds: list[int]
    is_one_federation: bool = False


class Both(NamedTuple):
    """Two methods' clients in one seed, and those of a group that are honest in both, bool[K]."""

    a: Trace
    b: Trace
    group: NDArray[np.bool_]

    @property
    def names(self) -> NDArray[np.str_]:
        """What the data call them."""
        return np.asarray(self.a.name[self.group], str)


def federation_of(configuration: Configuration) -> str:
    """Return what tells federations apart; where there are only means, which study's it is."""
    return configuration.digest or str(configuration.named)


def pair(
    source: Source, case: str, first: str, second: str, among: Sequence[int] | None = None
) -> Pair:
    """Pair two methods in the seeds (all, or some) in which they had the same federation."""
    seconds = {c.seed: federation_of(c) for c in source.of(case, second)}
    firsts = [c for c in source.of(case, first) if among is None or c.seed in among]
    shared = [c for c in firsts if seconds.get(c.seed) == federation_of(c)]
    digests = {c.digest for c in shared}
    is_one = len(shared) > 1 and len(digests) == 1 and "" not in digests
    return Pair(case, first, second, [c.seed for c in shared], is_one)


def pairs(source: Source, series: Mapping[Key, Series]) -> list[Pair]:
    """Pair drawn methods that had the same federation in some seed, the one with more as A."""
    found = []
    for case in source.cases:
        drawn = drawn_methods(source, series, case)
        ranked = sorted(drawn, key=lambda m: -final_appeal(series, case, m))
        found += [pair(source, case, *two) for two in combinations(ranked, 2)]
    return [one for one in found if one.seeds]


def both_in(traces: Traces, pair: Pair, seed: int, clients: str) -> Both | None:
    """Return both methods' clients in a seed; None where there are only means."""
    a, b = (traces.get((pair.case, m, seed)) for m in (pair.first, pair.second))
    if a is None or b is None or len(a.seen) != len(b.seen):
        return None
    group = a.seen if clients == "seen" else ~a.seen
    return Both(a, b, group & ~a.byzantine & ~b.byzantine)


def in_all_seeds(traces: Traces, pair: Pair, clients: str) -> list[Both] | None:
    """Return both methods' clients in every seed; None if some seed has only means."""
    found = [both_in(traces, pair, seed, clients) for seed in pair.seeds]
    return [both for both in found if both] if all(found) else None


def clients_of(pair: Pair, known: Sequence[Both]) -> list[NDArray[np.int64]] | None:
    """Return who the clients of each seed are, int[K_s] from 0, if several seeds have the same."""
    if not pair.is_one_federation and not have_same_clients([both.a for both in known]):
        return None
    names = [both.names for both in known]
    _, numbers = np.unique(np.concatenate(names), return_inverse=True)
    return np.split(numbers, np.cumsum([len(of_seed) for of_seed in names])[:-1])


def have_same_clients(traces: Sequence[Trace]) -> bool:
    """Tell whether runs are of the data's own clients, which each seed splits in its own way.

    Those have the same names and the same numbers of samples in all seeds. Clients that a seed
    draws are numbered, and of one size, or of sizes of their own.
    """
    first, *others = (
        dict(zip(t.name.astype(str), t.train_samples + t.test_samples, strict=True)) for t in traces
    )
    are_numbered = {*first} == {str(k) for k in range(len(first))}
    tells = not are_numbered or len({*first.values()}) > 1
    return bool(others) and tells and all(other == first for other in others)


def other_demands(source: Source, traces: Traces, pair: Pair) -> str:
    """Say that clients demand different things of A and B; "" if they demand the same."""
    found = [_apart(traces, pair, seed) for seed in pair.seeds]
    known = [apart for apart in found if apart is not None]
    keys = _differing(source, pair, "requirement.")
    is_same = max(known) <= SAME and not {KIND, METRIC} & {*keys} if known else not keys
    if is_same:
        return ""
    # A model that is trained alone takes steps like those of training.
    keys = keys or _differing(source, pair, "training.", "local.", "model.")
    why = f" ({', '.join(keys[:3])} differ{'s' if len(keys) == 1 else ''})" if keys else ""
    return (
        f"clients do not require the same of {pair.first} and of {pair.second}{why}, so whom they "
        f"satisfy can't be compared client by client: give both the same requirement"
    )


def _apart(traces: Traces, pair: Pair, seed: int) -> float | None:
    """Return how far the requirements are apart, as a share of their mean; None if not known."""
    both = both_in(traces, pair, seed, "seen")
    if both is None:
        return None
    a, b, _ = both
    x, y = a.test_requirement.astype(float), b.test_requirement.astype(float)
    known = np.isfinite(x) & np.isfinite(y) & ~a.byzantine & ~b.byzantine
    if not known.any():
        return None
    return float(np.abs(x - y)[known].mean() / max(np.abs(x[known]).mean(), 1e-12))


def _differing(source: Source, pair: Pair, *sections: str) -> list[str]:
    """Return the settings of some sections that differ between the two methods."""
    a, b = (source.of(pair.case, m)[0].settings for m in (pair.first, pair.second))
    keys: Sequence[str] = [key for key in {**a, **b} if key.startswith(sections)]
    return [key for key in keys if repr(a.get(key)) != repr(b.get(key))]
