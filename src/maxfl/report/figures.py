"""A report's figures for papers and slides: PNG, PDF and SVG."""

import io
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from maxfl.core import appeal
from maxfl.core.metrics import MetricInfo
from maxfl.report.measures import APPEAL, capitalised, deciding_words, direction, measure_of
from maxfl.report.series import Key, Series, shown_name, used_model, value_range
from maxfl.report.style import COLOURS, figure_style, line_style
from maxfl.report.traces import Trace

FORMATS = ("png", "pdf", "svg")
MARKS = ("o", "s", "^", "D", "v", "P", "X")
STATES = ("#08306b", "#4d9ab8", "#f2b56b", "#fdf1e0")
"""Satisfied and willing, satisfied only, willing only, neither: ever lighter, so grey will do."""
STATE_NAMES = (
    "satisfied, willing", "satisfied, unwilling", "not satisfied, willing",
    "not satisfied, unwilling",
)  # fmt: skip


class ShownFigure(Figure):
    """A figure that a notebook shows where it stands last in a cell, without pyplot."""

    def _repr_png_(self) -> bytes:
        """Return the picture."""
        buffer = io.BytesIO()
        with mpl.rc_context(figure_style()):
            self.savefig(buffer, format="png", dpi=100)
        return buffer.getvalue()


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write a figure in every format."""
    paths = [folder / f"{name}.{kind}" for kind in FORMATS]
    # Without dates, so that the same report is the same files.
    dates: dict[str, dict[str, Any]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    with mpl.rc_context(figure_style()):
        for path, kind in zip(paths, FORMATS, strict=True):
            figure.savefig(path, dpi=200, metadata=dates.get(kind))
            figure.set_layout_engine("none")  # it is laid out by now; that takes most of the time
    return paths


def draw_curves(
    series: Mapping[Key, Series],
    case: str,
    methods: Sequence[str],
    *,
    metric: MetricInfo,
    start_round: int | None = None,
    title: str = "",
) -> Figure:
    """Draw GM-Appeal and the first metric over rounds: means ± std, and every seed.

    ``start_round`` is the round after which clients may leave. Single seeds are thin lines, since a
    mean can hide two fates. A method with personal models is drawn by these, and its global model
    by a thin line.
    """
    groups = [g for g in ("seen", "unseen")
              if any((k.case, k.clients) == (case, g) for k in series)]  # fmt: skip
    measured = measure_of(metric)
    label = capitalised(measured.heading) + direction(metric)
    rows = ((APPEAL, APPEAL.heading), (measured, label))
    with mpl.rc_context(figure_style()):
        figure = ShownFigure(figsize=(4.6 * len(groups) + 0.4, 5.8), layout="constrained")
        axes = figure.subplots(2, len(groups), sharex=True, sharey="row", squeeze=False)
        for row, (measure, label) in enumerate(rows):
            scale = 100.0 if measure.percent else 1.0
            models = ("personal", "global")
            chosen = (
                Key(case, m, g, w, measure.key) for g in groups for m in methods for w in models
            )
            limits = value_range(measure, [series[key] for key in chosen if key in series])
            for column, group in enumerate(groups):
                axis = axes[row, column]
                for i, method in enumerate(methods):
                    used = used_model(series, case, method)
                    values = series.get(Key(case, method, group, used, measure.key))
                    if values is not None:
                        _band(axis, values, scale, shown_name(series, case, method), i)
                    other = series.get(Key(case, method, group, "global", measure.key))
                    if used != "global" and other is not None:
                        mean = other.values.mean(0) * scale
                        name = f"{method}, global model"
                        axis.plot(other.rounds, mean, **line_style(i), lw=0.9, label=name)
                axis.set_title(f"{group} clients", loc="left", fontsize=10)
                if column == 0:
                    axis.set_ylabel(label)
                axis.set_ylim(limits[0] * scale, limits[1] * scale)
                if start_round is not None:
                    axis.axvline(start_round, color="0.4", lw=0.8, ls=":")
                if row == 1:
                    axis.set_xlabel("Communication rounds")
        if start_round is not None:
            axes[0, 0].annotate(
                "clients may leave from here", (start_round, 0.97), (4, 0), fontsize=8,
                textcoords="offset points", color="0.35", va="top",
            )  # fmt: skip
        _legend(figure, *axes[0, 0].get_legend_handles_labels())
        if title:
            figure.suptitle(textwrap.fill(title, 110), x=0.01, ha="left", fontsize=11)
    return figure


def _band(axis: Any, series: Series, scale: float, method: str, i: int) -> None:
    mean = series.values.mean(0) * scale
    axis.plot(
        series.rounds, mean, **line_style(i), lw=2, label=method, marker=MARKS[i % len(MARKS)],
        ms=5, markevery=(i, max(1, len(mean) // 6)),
    )  # fmt: skip
    if len(series.values) > 1:
        colour = line_style(i)["color"]
        axis.plot(series.rounds, series.values.T * scale, color=colour, lw=0.5, alpha=0.4)
        std = series.values.std(0, ddof=1) * scale
        axis.fill_between(series.rounds, mean - std, mean + std, alpha=0.15, lw=0, color=colour)


def draw_states(traces: Mapping[str, Trace]) -> Figure:
    """Draw rounds × clients: which are satisfied, willing and sampled; one panel per method."""
    count = len(traces)
    columns = min(3, count)
    rows = -(-count // columns)
    with mpl.rc_context(figure_style(grid=False)):
        figure = Figure(figsize=(3.6 * columns + 0.6, 3.2 * rows + 0.9), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False, sharey=True)
        colours = mpl.colors.ListedColormap(STATES)
        for axis, (method, trace) in zip(axes.flat, traces.items(), strict=False):
            order = client_order(trace)
            image = states(trace)[:, order].T
            axis.pcolormesh(trace.rounds, np.arange(len(order)), image, cmap=colours, vmin=0,
                            vmax=3, shading="nearest", rasterized=True)  # fmt: skip
            e, k = np.nonzero(trace.sampled[:, order])
            axis.scatter(trace.rounds[e], k, s=1.5, c="black", marker=".", lw=0, rasterized=True)
            axis.invert_yaxis()
            axis.set_title(textwrap.fill(method, 34), loc="left", fontsize=9)
            axis.set_xlim(trace.rounds[0], trace.rounds[-1])
            axis.set_xlabel("Communication rounds")
        for axis in axes.flat[count:]:
            axis.set_visible(False)
        for axis in axes[:, 0]:
            axis.set_ylabel("clients, best served first")
        patches: list[Any] = [mpl.patches.Patch(color=c, label=n)
                              for c, n in zip(STATES, STATE_NAMES, strict=True)]  # fmt: skip
        dot = mpl.lines.Line2D([], [], color="black", marker=".", ls="", ms=4, label="sampled")
        _legend(figure, [*patches, dot], [*STATE_NAMES, "sampled"])
    return figure


def states(trace: Trace) -> Any:
    """Return each client's state in each round, 0 to 3 as in STATES, int[E, K]."""
    return 2 * (~trace.satisfied).astype(int) + (~trace.willing).astype(int)


def client_order(trace: Trace) -> Any:
    """Order clients: seen before unseen, and then those served best in the end first."""
    gap = np.nan_to_num(trace.test_gap[-1], nan=np.inf)
    return np.lexsort((gap, ~trace.satisfied[-1], ~trace.seen))


def draw_weights(trace: Trace, method: str, temperature: float) -> Figure:
    """Draw the weight q over the gap, and where clients are on it at first and in the end."""
    with mpl.rc_context(figure_style()):
        figure = Figure(figsize=(6.4, 3.8), layout="constrained")
        axis = figure.subplots()
        least = 2.0 if trace.decides is None else 4 * temperature
        reach = float(np.clip(_limits(np.abs(trace.gap), 99)[0], least, 12))
        x = np.linspace(-reach, reach, 400)

        def curve(gap: Any) -> Any:
            return appeal.weight(gap, 0.0, temperature)

        axis.plot(x, curve(x), color="0.4", lw=1.2)
        marks: tuple[tuple[int, str, str, str], ...] = (
            (0, COLOURS[0], "x", "untrained"), (-1, COLOURS[1], "o", "in the end"),
        )  # fmt: skip
        for e, colour, mark, name in marks:
            gap = np.clip(trace.gap[e, trace.seen], -reach, reach)
            axis.plot(gap, curve(gap), ls="", marker=mark, ms=5, alpha=0.6, color=colour,
                      label=name, mfc="none")  # fmt: skip
        axis.axvline(0, color="0.4", lw=0.8, ls=":")
        decides = deciding_words(trace.decides)
        axis.set_xlabel(f"gap of {decides}: left of 0, clients are satisfied on judging data")
        axis.set_ylabel("weight q")
        axis.set_title(f"{method}: seen clients on the curve of weights, T = {temperature:g}",
                       loc="left", fontsize=10)  # fmt: skip
        axis.legend(loc="upper right")
    return figure


def draw_gaps(traces: Mapping[str, Trace]) -> Figure:
    """Draw how far final models are from what clients require, as cumulative shares."""
    with mpl.rc_context(figure_style()):
        figure = Figure(figsize=(6.4, 3.8), layout="constrained")
        axis = figure.subplots()
        for i, (method, trace) in enumerate(traces.items()):
            gap = np.sort(trace.test_gap[-1, trace.seen & ~trace.byzantine])
            axis.step(gap, np.arange(1, len(gap) + 1) / len(gap), **line_style(i), lw=2,
                      label=method, where="post")  # fmt: skip
        gaps = np.concatenate([trace.test_gap[-1, trace.seen] for trace in traces.values()])
        low, high = _limits(gaps, 0.5, 99)
        axis.set_xlim(min(low, -0.1), max(high, 0.1))
        axis.set_ylim(0, 1)
        axis.axvline(0, color="0.4", lw=0.8, ls=":")
        axis.set_xlabel("test loss minus what the client requires")
        axis.set_ylabel("share of seen clients at or below")
        _legend(figure, *axis.get_legend_handles_labels())
    return figure


def _legend(figure: Figure, handles: Sequence[Any], names: Sequence[str]) -> None:
    """Draw the legend below the figure, in as many columns as it has room for."""
    room = 13 * figure.get_figwidth()  # letters of this size to an inch
    columns = int(room // (max(map(len, names)) + 8))
    figure.legend(handles, names, loc="outside lower center", fontsize=8,
                  ncols=max(1, min(4, len(names), columns)))  # fmt: skip


def _limits(values: Any, *percent: float) -> list[float]:
    """Return percentiles of the finite values; zeros where a run has diverged and has none."""
    finite = values[np.isfinite(values)]
    return np.percentile(finite, percent).tolist() if finite.size else [0.0] * len(percent)
