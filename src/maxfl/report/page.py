"""One self-contained page: nothing is fetched, it works from a disk and without a network."""

import html
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from maxfl.figures import COLOURS
from maxfl.report.card import Section, sections
from maxfl.report.content import READING, Key, Series, final_appeal, pairs
from maxfl.report.names import NAME
from maxfl.report.pack import Choice, choose
from maxfl.report.pictures import STATES, client_order
from maxfl.report.source import Configuration, Source, read_partition
from maxfl.report.table import Figure, Table, to_html
from maxfl.report.traces import Trace

MOST_LINES = 8
"""Methods of a case with curves and clients; more could not be told apart."""
WEIGHTED = ("maxfl", "maxfl-annealed")
"""Methods whose weight is q."""

Traces = Mapping[tuple[str, str, int], Trace]


def shown_methods(source: Source, series: Mapping[Key, Series], case: str) -> list[str]:
    """Those of a case that are drawn: all, or the best by GM-Appeal, in their own order."""
    methods = source.methods(case)
    if len(methods) <= MOST_LINES:
        return methods
    best = sorted(methods, key=lambda m: -final_appeal(series, case, m))[:MOST_LINES]
    return [method for method in methods if method in best]


def page(
    source: Source, series: Mapping[Key, Series], tables: Sequence[Table], traces: Traces
) -> str:
    """The page's HTML; the first table is the summary, a second one compares methods."""
    packed = choose(traces)
    data = {
        "colours": COLOURS,
        "states": STATES,
        "cases": [_case(source, series, traces, packed, case) for case in source.cases],
    }
    notes = [*source.missing, *_left_out(source, series), *([packed.note] if packed.note else [])]
    parts = {
        "title": html.escape(_title(source)),
        "style": _resource("page.css"),
        "script": _resource("page.js"),
        "verdict": "".join(f"<p>{html.escape(v)}</p>" for v in verdicts(source, series)),
        "notes": "".join(f"<li>{html.escape(note)}</li>" for note in notes),
        "tables": to_html(tables[0]),
        "comparison": "".join(map(to_html, tables[1:])),
        "cards": _cards(source, traces),
        "reading": html.escape(READING),
        "made": html.escape(_made(source)),
        # "</script>" inside a name must not end the element.
        "data": json.dumps(data, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c"),
    }
    text = _resource("page.html")
    for name, content in parts.items():
        text = text.replace(f"{{{{{name}}}}}", content)
    return text


def _resource(name: str) -> str:
    return files("maxfl.report").joinpath(name).read_text(encoding="utf-8")


def _title(source: Source) -> str:
    return " and ".join(folder.resolve().name for folder in source.folders)


def verdicts(source: Source, series: Mapping[Key, Series]) -> list[str]:
    """What an owner of the federation wants to know first, in words."""
    lines = []
    for case in source.cases:
        ranked = sorted(source.methods(case), key=lambda m: -final_appeal(series, case, m))
        found = [
            (own.values[:, -1], method)
            for method in ranked
            if (own := series.get(Key(case, method, "seen", "global", "gm_appeal"))) is not None
        ]
        if not found:
            continue
        best, name = found[0]
        words = f"{name} satisfies the most clients: {_share(best)}"
        if len(found) == 1:
            words = f"The model satisfies {_share(best)}"
        words += " of those that take part in training prefer it to a model of their own"
        if len(found) > 1:
            rest = ", ".join(f"{method} {_share(values)}" for values, method in found[1:4])
            more = len(found) - 4
            words += f". The others: {rest}{f', and {more} more' if more > 0 else ''}"
        lines.append(f"{case}: {words}." if case else f"{words}.")
    return lines


def _share(values: Any) -> str:
    mean, deviation = Figure.of(values, 0, percent=True).printed
    return f"{mean} % (± {deviation} over {len(values)} seeds)" if deviation else f"{mean} %"


def _left_out(source: Source, series: Mapping[Key, Series]) -> list[str]:
    return [
        f"{f'{case}: c' if case else 'C'}urves and clients are shown for the {MOST_LINES} methods "
        f"with the highest GM-Appeal of {len(source.methods(case))}; the table has all."
        for case in source.cases
        if len(source.methods(case)) > len(shown_methods(source, series, case))
    ]


def _case(
    source: Source, series: Mapping[Key, Series], traces: Traces, packed: Choice, case: str
) -> dict[str, Any]:
    methods = shown_methods(source, series, case)
    first = source.of(case, methods[0])[0]
    return {
        "name": case,
        "data": first.data,
        "methods": [
            {"name": m, "weighted": source.of(case, m)[0].settings.get(NAME) in WEIGHTED}
            for m in methods
        ],
        "curves": _curves(series, case, methods),
        "runs": [
            _run(own, traces[key], packed, key, methods.index(own.method))
            for method in methods
            for own in source.of(case, method)
            if (key := (case, method, own.seed)) in packed.packed
        ],
        "pairs": [
            [methods.index(p.first), methods.index(p.second), p.seeds]
            for p in pairs(source, series)
            if p.case == case and p.first in methods and p.second in methods
        ],
        "start": first.settings.get("participation.start")
        if first.settings.get("participation.rule", "everyone") != "everyone"
        else None,
    }


def _curves(
    series: Mapping[Key, Series], case: str, methods: Sequence[str]
) -> list[dict[str, Any]]:
    found = []
    for clients in ("seen", "unseen"):
        for metric in ("gm_appeal", "test_accuracy", "willing"):
            lines = []
            for i, method in enumerate(methods):
                own = series.get(Key(case, method, clients, "global", metric))
                if own is not None:
                    lines.append({"method": i, "rounds": own.rounds.tolist(),
                                  "values": _numbers(own.values)})  # fmt: skip
            if lines:
                found.append({"clients": clients, "metric": metric, "lines": lines})
    return found


def _run(
    own: Configuration, trace: Trace, packed: Choice, key: tuple[str, str, int], method: int
) -> dict[str, Any]:
    """One run's clients: their final figures, as printed in clients.csv, and all rounds, packed."""
    small = packed.packed[key]
    partition = read_partition(own.place)
    return {
        "method": method,
        "seed": own.seed,
        "rounds": small.rounds,
        "scale": small.scale,
        "packed": small.text,
        "temperature": [temperature(own.settings, done) for done in small.rounds],
        "order": client_order(trace).tolist(),
        "names": [str(name) for name in trace.name],
        "seen": trace.seen.astype(int).tolist(),
        "liars": np.flatnonzero(trace.byzantine).tolist(),
        "samples": trace.train_samples.tolist(),
        "requirement": _printed(trace.test_requirement, 3),
        "loss": _printed(trace.test_loss[-1], 3),
        "gap": _printed(trace.held_out_gap[-1], 3),
        "accuracy": _printed(trace.accuracy[-1], 1, percent=True),
        "solo": _printed(trace.solo_accuracy, 1, percent=True),
        "asked": trace.asked.tolist(),
        "joined": trace.joined.tolist(),
        "labels": None if partition is None else list(partition.labels),
        "counts": None if partition is None else partition.counts.tolist(),
        "flipped": [] if partition is None else np.flatnonzero(partition.flipped).tolist(),
    }


def temperature(settings: Mapping[str, Any], done: int) -> float:
    """T of a method's weight after some rounds; 1 for methods that have none."""
    name = settings.get(NAME)
    last = float(settings.get("algorithm.temperature", 0.1 if name == WEIGHTED[1] else 1.0))
    if name == "maxfl":
        return last
    if name == WEIGHTED[1]:
        start = float(settings.get("algorithm.start", 3.0))
        falling = float(settings.get("algorithm.rounds", 200))
        return start * (last / start) ** min(1.0, done / falling)
    return 1.0


def _printed(values: Any, digits: int, percent: bool = False) -> list[float | None]:
    """Numbers with the digits that clients.csv has; JSON has no NaN, so that is null."""
    texts = (Figure.of([v], digits, percent).printed[0] for v in values)
    return [None if text == "n/a" else float(text) for text in texts]


def _numbers(values: Any) -> list[list[float | None]]:
    """Float32 numbers in JSON, with all of their digits."""
    return [[float(f"{v:.7g}") if np.isfinite(v) else None for v in row] for row in values]


def _cards(source: Source, traces: Traces) -> str:
    """The card of each method's first seed."""
    texts = []
    for case in source.cases:
        for method in source.methods(case):
            own = source.of(case, method)[0]
            trace = traces.get((case, method, own.seed))
            title = ", ".join(part for part in (method, case, f"seed {own.seed}") if part)
            body = "".join(_section(part) for part in sections(own, trace))
            texts.append(f"<details><summary>{html.escape(title)}</summary>{body}</details>")
    return "".join(texts)


def _section(part: Section) -> str:
    lines = "".join(f"<li>{html.escape(line)}</li>" for line in part.lines)
    return f"<h3>{html.escape(part.heading)}</h3><ul>{lines}</ul>"


def _made(source: Source) -> str:
    words = []
    for folder, made in zip(source.folders, source.machines, strict=True):
        known = [f"maxfl {made['maxfl']}", f"JAX {made['jax']}", str(made["device"])]
        if "seconds" in made:
            known.append(f"{made['seconds']:.0f} s")
        if "scale" in made:
            known.append(str(made["scale"]))
        words.append(f"{folder.name}: {', '.join(known)}")
    return "; ".join(words)
