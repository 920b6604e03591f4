"""An exhibit as a figure; over rounds: a panel a column, a line a method, thin ones for seeds."""

import textwrap
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from maxfl.paper.declare import Column, Exhibit
from maxfl.paper.lead_plots import draw_leads, draw_phases
from maxfl.paper.results import PERCENT, StudyResults
from maxfl.paper.words import WORDS
from maxfl.report.style import STYLE, line_style


def draw(exhibit: Exhibit, results: StudyResults, path: Path) -> None:
    """Write an exhibit as a figure."""
    if exhibit.layout == "leads":
        draw_leads(exhibit, results, path)
    elif exhibit.layout == "phases":
        draw_phases(exhibit, results, path)
    else:
        _draw_rounds(exhibit, results, path)


def _draw_rounds(exhibit: Exhibit, results: StudyResults, path: Path) -> None:
    """Draw every column over the rounds."""
    columns = [c for c in exhibit.columns if c.part in results.parts]
    metrics = list(dict.fromkeys(c.metric for c in columns))
    losses = all("loss" in metric for metric in metrics)
    groups = list(dict.fromkeys((c.part, c.clients) for c in columns))
    rows = 1 if losses else len(metrics)
    with mpl.rc_context(STYLE):
        size = (1.5 + 4.2 * len(groups), 0.9 + 2.7 * rows)
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(rows, len(groups), sharex="col", squeeze=False)
        for column in columns:
            row = 0 if losses else metrics.index(column.metric)
            axis = axes[row, groups.index((column.part, column.clients))]
            _panel(axis, exhibit, results, column, losses=losses)
        for axis in axes[-1]:
            axis.set_xlabel("Communication rounds")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)))
        title = f"{exhibit.name}: {exhibit.title} ({results.summary['scale']})"
        figure.suptitle(textwrap.fill(title, int(size[0] * 11)), fontsize=10)
        figure.savefig(path, dpi=150)


def _panel(
    axis: Axes, exhibit: Exhibit, results: StudyResults, column: Column, *, losses: bool
) -> None:
    """Draw one metric of one group of clients; the two losses share a panel, a line each."""
    for i, method in enumerate(exhibit.method_labels):
        rounds, values = results.series(method, column)
        if not values.size:
            continue
        style = line_style(("judging_loss", "test_loss").index(column.metric) if losses else i)
        label = f"{method}, {WORDS[column.metric]}" if losses else method
        axis.plot(rounds, np.mean(values, 0), lw=2, label=label, **style)
        for seed in values:
            axis.plot(rounds, seed, lw=0.6, alpha=0.5, color=style["color"])
    unit = ", %" if column.metric in PERCENT else ""
    stands_in = "STAND-IN" in results.summary["data_notes"][column.part]
    part = f"STAND-IN for {column.part}" if stands_in else column.part
    name = "loss" if losses else WORDS[column.metric]
    axis.set_title(f"{part}, {column.clients} clients: {name}{unit}", loc="left", fontsize=9)
    if column.metric == "gm_appeal":
        axis.set_ylim(-0.02, 1.02)
