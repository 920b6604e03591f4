"""One self-contained page: nothing is fetched, it works from a disk and without a network."""

import html
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.resources import files
from itertools import product
from typing import Any

import numpy as np

from maxfl.core.metrics import MetricInfo
from maxfl.report.configurations import WEIGHTED, Configuration, start_round, temperature
from maxfl.report.figures import STATE_NAMES, STATES, client_order
from maxfl.report.glance import facts
from maxfl.report.measures import (
    APPEAL,
    WILLING,
    Measure,
    capitalised,
    deciding_words,
    direction,
    measure_of,
)
from maxfl.report.model_card.card import Section, card_title, sections
from maxfl.report.names import NAME
from maxfl.report.page_data import PageTraces, choose
from maxfl.report.portfolio.section import PortfolioSection
from maxfl.report.series import (
    MOST_LINES,
    Key,
    Series,
    drawn_methods,
    shown_name,
    used_model,
    value_range,
)
from maxfl.report.source import Source
from maxfl.report.statistics.compare import Results
from maxfl.report.statistics.pairing import Pair, have_same_clients
from maxfl.report.statistics.phases import Phases, phases
from maxfl.report.style import COLOURS
from maxfl.report.table import Statistic, Table, to_html
from maxfl.report.traces import Trace, TraceKey, read_partition, read_trace
from maxfl.utils.paths import SUMMARY

SCRIPTS = (
    "base.js", "curves.js", "phases.js", "clients.js", "tables.js", "portfolio.js", "start.js",
)  # fmt: skip
"""One script, in this order."""
MOST_WARNINGS, MOST_NAMED = 10, 4
"""Warnings in the notes, and folders in the title."""
Traces = Mapping[TraceKey, Trace]


def page(
    results: Results,
    verdicts: Sequence[str],
    falls: Sequence[str],
    tables: Sequence[Table],
    compared: Sequence[Pair],
    portfolio: PortfolioSection,
    title: str | None = None,
) -> str:
    """Write the page's HTML; the first table is the summary, a second one compares methods."""
    source, series, traces = results
    packed, metric = choose(traces), source.metric
    decides = deciding_words(source.configurations[0].decides)
    data = {
        "metric": _metric(metric),
        "decides": decides,
        "real": source.is_real,
        "nobodyLeaves": source.nobody_leaves,
        "colours": COLOURS,
        "states": STATES,
        "stateNames": STATE_NAMES,
        "cases": [_case(results, compared, packed, case) for case in source.cases],
        "portfolio": portfolio.data,
        "phases": _phases(phases(results, compared)),
    }
    notes = [
        *falls,
        *_first(source.warnings),
        *source.missing,
        *_left_out(source, series),
        *([packed.note] if packed.note else []),
    ]
    parts = {
        "title": html.escape(title or _title(source)),
        "kind": "real" if source.is_real else "simulated",
        "verdict": _verdict(verdicts),
        "glance": _glance(results),
        "notes": "".join(f"<li>{html.escape(note)}</li>" for note in notes),
        "metric": html.escape(f"{capitalised(measure_of(metric).words)}{direction(metric)}"),
        "decides": html.escape(decides),
        "tables": to_html(tables[0]),
        "comparison": "".join(map(to_html, tables[1:])),
        "portfolio": "".join(map(to_html, portfolio.tables)),
        "cards": _cards(source, series, traces),
        "made": html.escape(_made(source)),
        # "</script>" inside a name must not end the element.
        "data": json.dumps(data, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c"),
    }
    return fill("page.html", SCRIPTS, parts)


def fill(name: str, scripts: Sequence[str], parts: Mapping[str, str]) -> str:
    """Return a page whose places are filled, with the style of all and some scripts."""
    whole = {
        **parts, "style": _resource("page.css"), "script": "".join(map(_resource, scripts)),
    }  # fmt: skip
    # In one pass, so that a name which looks like a place to fill stays a name.
    return re.sub(r"\{\{(\w+)\}\}", lambda place: whole[place[1]], _resource(name))


def _phases(found: Phases | None) -> dict[str, Any] | None:
    """Lay out the phase diagram; JSON has no NaN, so that is null."""
    if found is None:
        return None
    leads = [
        {
            "case": lead.case,
            "a": lead.a,
            "b": lead.b,
            "lead": _numbers([lead.interval])[0],
            "levels": lead.levels,
        }
        for lead in found.leads
    ]
    return {"grid": found.grid._asdict(), "leads": leads}


def _metric(metric: MetricInfo) -> dict[str, Any]:
    """Say how the first metric is called and printed."""
    measure, solo = measure_of(metric), measure_of(metric, "solo")
    return {**measure._asdict(), "heading": measure.heading, "solo": solo.heading}


def _first(warnings: Sequence[str]) -> list[str]:
    """Return as many warnings as one reads; their number tells of the others."""
    left = len(warnings) - MOST_WARNINGS
    more = [f"{left} more warnings: see {SUMMARY}, or the model cards."] if left > 0 else []
    return [*warnings[:MOST_WARNINGS], *more]


def _resource(name: str) -> str:
    return files("maxfl.report").joinpath("page", name).read_text(encoding="utf-8")


def _verdict(verdicts: Sequence[str]) -> str:
    """Return what is said first; of several data sets the others are one click away."""
    first, *others = (f"<p>{html.escape(verdict)}</p>" for verdict in verdicts)
    if not others:
        return first
    count = f"{len(others)} other data set{'s' if len(others) > 1 else ''}"
    return f"{first}<details><summary>The same for {count}</summary>{''.join(others)}</details>"


def _glance(results: Results) -> str:
    """Return the settings of the runs, each with its name."""
    found = facts(results.source.configurations, results.traces)
    shown = [map(html.escape, fact) for fact in found]
    return "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in shown)


def _title(source: Source) -> str:
    names = [folder.resolve().name for folder in source.folders]
    left = len(names) - MOST_NAMED
    return " and ".join([*names[:MOST_NAMED], f"{left} more"] if left > 1 else names)


def _left_out(source: Source, series: Mapping[Key, Series]) -> list[str]:
    return [
        f"{f'{case}: c' if case else 'C'}urves, clients and comparisons are shown for the "
        f"{MOST_LINES} methods with the highest GM-Appeal of {len(source.methods(case))}; the "
        f"first table has all."
        for case in source.cases
        if len(source.methods(case)) > len(drawn_methods(source, series, case))
    ]


def _case(
    results: Results, compared: Sequence[Pair], packed: PageTraces, case: str
) -> dict[str, Any]:
    source, series, traces = results
    methods = drawn_methods(source, series, case)
    first = source.of(case, methods[0])[0]
    return {
        "name": case,
        "data": first.data,
        "methods": [
            {
                "name": shown_name(series, case, m),
                "short": m,
                "model": used_model(series, case, m),
                "weighted": source.of(case, m)[0].settings.get(NAME) in WEIGHTED,
            }
            for m in methods
        ],
        "curves": _curves(series, case, methods, (APPEAL, measure_of(source.metric), WILLING)),
        "runs": [
            _run(configuration, traces[key], packed, key, methods.index(method))
            | {"inSeeds": _in_seeds(traces, key)}
            for method in methods
            for configuration in source.of(case, method)
            if (key := (case, method, configuration.seed)) in packed.packed
        ],
        "pairs": [
            [methods.index(p.first), methods.index(p.second), p.seeds]
            for p in compared
            if p.case == case
        ],
        "startRound": start_round([source.of(case, m)[0] for m in methods]),
    }


def _curves(
    series: Mapping[Key, Series],
    case: str,
    methods: Sequence[str],
    measures: Sequence[Measure],
) -> list[dict[str, Any]]:
    found = []
    for clients, measure in product(("seen", "unseen"), measures):
        # Personal models first: a method is shown by what its clients would use.
        keys = {
            (i, model): Key(case, method, clients, model, measure.key)
            for model in ("personal", "global")
            for i, method in enumerate(methods)
        }
        curves = {line: series[key] for line, key in keys.items() if key in series}
        lines = [
            {
                "method": i,
                "model": model,
                "rounds": curve.rounds.tolist(),
                "values": _numbers(curve.values),
            }
            for (i, model), curve in curves.items()
        ]
        if lines:
            limits = value_range(measure, list(curves.values()))
            found.append({
                "clients": clients, "metric": measure.key, "range": limits, "lines": lines
            })  # fmt: skip
    return found


def _run(
    configuration: Configuration, trace: Trace, packed: PageTraces, key: TraceKey, method: int
) -> dict[str, Any]:
    """Lay out one run's clients: the end, with the digits of clients.csv, and rounds, packed."""
    small = packed.packed[key]
    partition = read_partition(configuration.run_folder)
    measure = measure_of(configuration.metric)
    return {
        "method": method,
        "seed": configuration.seed,
        "rounds": small.rounds,
        "scale": small.scale,
        "packed": small.text,
        "temperature": [_temperature(configuration, trace, done) for done in small.rounds],
        "order": client_order(trace).tolist(),
        "names": [str(name) for name in trace.name],
        "seen": trace.seen.astype(int).tolist(),
        "byzantine": np.flatnonzero(trace.byzantine).tolist(),
        "samples": trace.train_samples.tolist(),
        "requirement": _printed(trace.test_requirement, 3),
        "value": _printed(trace.test_value[-1], 3),
        "gap": _printed(trace.test_gap[-1], 3),
        "metric": _printed(trace.metric[-1], measure.digits, measure.percent),
        "solo": _printed(trace.solo_metric, measure.digits, measure.percent),
        "sampled": trace.rounds_sampled.tolist(),
        "participated": trace.rounds_participated.tolist(),
        "models": 0 if trace.picked is None else int(trace.picked.max()) + 1,
        "picked": None if trace.picked is None else trace.picked[-1].tolist(),
        "labels": None if partition is None else list(partition.labels),
        "counts": None if partition is None else partition.counts.tolist(),
        "flipped": [] if partition is None else np.flatnonzero(partition.flipped).tolist(),
    }


def _in_seeds(traces: Traces, key: TraceKey) -> list[list[int]] | None:
    """Count seeds in which each client is satisfied, of how many; None if clients are others."""
    case, method, _ = key
    seeds = [trace for (c, m, _), trace in traces.items() if (c, m) == (case, method)]
    if not have_same_clients(seeds):
        return None
    satisfied = Counter(str(name) for t in seeds for name in t.name[t.satisfied_at_end])
    return [[satisfied[str(name)], len(seeds)] for name in traces[key].name]


def _temperature(configuration: Configuration, trace: Trace, done: int) -> float:
    """Return T of a run's weights after some evaluated rounds."""
    e = int(np.searchsorted(trace.rounds, done))
    return temperature(configuration.settings, done, trace.gap[e], trace.weight[e])


def _printed(values: Any, digits: int | None, percent: bool = False) -> list[float | None]:
    """Round numbers to the digits of clients.csv; JSON has no NaN, so that is null."""
    texts = (Statistic.of([v], digits, percent).printed[0] for v in values)
    return [None if text == "n/a" else float(text) for text in texts]


def _numbers(values: Any) -> list[list[float | None]]:
    """Write float32 numbers for JSON, with all of their digits."""
    return [[float(f"{v:.7g}") if np.isfinite(v) else None for v in row] for row in values]


def _cards(source: Source, series: Mapping[Key, Series], traces: Traces) -> str:
    """Write the card of each drawn method's first seed."""
    texts = []
    for case in source.cases:
        for method in drawn_methods(source, series, case):
            first = source.of(case, method)[0]
            trace = traces.get((case, method, first.seed))
            if trace is not None and trace.model != "global":  # a card is of the global model
                trace = read_trace(first)
            title = html.escape(card_title(first))
            body = "".join(_section(part) for part in sections(first, trace))
            texts.append(f"<details><summary>{title}</summary>{body}</details>")
    return "".join(texts)


def _section(part: Section) -> str:
    lines = "".join(f"<li>{html.escape(line.replace('`', ''))}</li>" for line in part.lines)
    return f"<h3>{html.escape(part.heading)}</h3><ul>{lines}</ul>"


def _made(source: Source) -> str:
    words = []
    for folder, made in zip(source.folders, source.machines, strict=True):
        known = [f"maxfl {made['maxfl']}", f"JAX {made['jax']}", str(made["device"])]
        if "seconds" in made:
            known.append(f"{made['seconds']:.0f} s")
        if "scale" in made:
            known.append(str(made["scale"]))
        words.append(f"{folder.resolve().name}: {', '.join(known)}")
    return "; ".join(words)
