"""Figures of portfolios: GM-Appeal against the number of models, and groups over rounds."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from maxfl.report.figures import client_order
from maxfl.report.portfolio.sizes import Sizes
from maxfl.report.style import COLOURS, figure_style, line_style
from maxfl.report.traces import Trace

MARKERS = {"seen": "o", "unseen": "s"}


def draw_sizes(found: Sequence[Sizes]) -> Figure:
    """Draw GM-Appeal against the number of models, with intervals; a panel for each data."""
    cases = list(dict.fromkeys(family.case for family in found))
    with mpl.rc_context(figure_style()):
        figure = Figure(figsize=(4.4 * len(cases) + 0.6, 3.6), layout="constrained")
        axes = figure.subplots(1, len(cases), squeeze=False, sharey=True)[0]
        for axis, case in zip(axes, cases, strict=True):
            members = [family for family in found if family.case == case]
            lines = [(family, clients) for family in members for clients in family.groups]
            for i, (family, clients) in enumerate(lines):
                _line(axis, family, clients, i, len(lines), named=len(members) > 1)
            models = [size.models for family in members for size in family.sizes]
            axis.set_xticks(sorted(set(models)))
            axis.set_xlabel("global models")
            axis.set_ylim(0, 1.02)
            axis.set_title(textwrap.fill(case or members[0].method, 48), loc="left", fontsize=10)
            axis.legend(loc="lower right", fontsize=8)
        axes[0].set_ylabel("GM-Appeal")
    return figure


def _line(axis: Any, family: Sizes, clients: str, i: int, lines: int, *, named: bool) -> None:
    """Draw one line, beside the others so that intervals can be told apart."""
    models = np.array([size.models for size in family.sizes]) + 0.06 * (i - (lines - 1) / 2)
    mean, low, high = np.array([size.appeal[clients] for size in family.sizes]).T
    label = f"{family.method}, {clients} clients" if named else f"{clients} clients"
    axis.errorbar(
        models, mean, np.nan_to_num([mean - low, high - mean]), **line_style(i), label=label,
        marker=MARKERS[clients], ms=4, lw=1.8, elinewidth=1, capsize=2,
    )  # fmt: skip


def draw_groups(traces: Mapping[str, Trace]) -> Figure:
    """Draw rounds × clients: the model that each picked; one panel for each portfolio."""
    columns = min(3, len(traces))
    rows = -(-len(traces) // columns)
    with mpl.rc_context(figure_style(grid=False)):
        figure = Figure(figsize=(3.8 * columns + 0.8, 3.2 * rows + 0.6), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False)
        for axis, (title, trace) in zip(axes.flat, traces.items(), strict=False):
            assert trace.picked is not None, "asked of portfolios alone"
            order = group_order(trace)
            models = int(trace.picked.max()) + 1
            axis.pcolormesh(
                trace.rounds, np.arange(len(order)), _known(trace.picked[:, order].T),
                cmap=mpl.colors.ListedColormap(model_colours(models)), vmin=-0.5,
                vmax=models - 0.5, shading="nearest", rasterized=True,
            )  # fmt: skip
            axis.invert_yaxis()
            axis.set_title(textwrap.fill(title, 36), loc="left", fontsize=9)
            axis.set_xlabel("Communication rounds")
            axis.set_ylabel("clients, by their model in the end")
            handles = [
                mpl.patches.Patch(color=colour, label=f"model {j}")
                for j, colour in enumerate(model_colours(models))
            ]
            axis.legend(handles=handles, loc="upper left", bbox_to_anchor=(1, 1), fontsize=8)
        for axis in axes.flat[len(traces) :]:
            axis.remove()
    return figure


def _known(picked: Any) -> Any:
    """Mask clients of a real federation that have not said which model they pick."""
    return np.ma.masked_less(picked, 0)


def model_colours(models: int) -> list[str]:
    """Return a colour for each model of a portfolio."""
    return [COLOURS[j % len(COLOURS)] for j in range(models)]


def group_order(trace: Trace) -> Any:
    """Return clients by the model that they picked in the end, the best served first."""
    assert trace.picked is not None, "asked of portfolios alone"
    order = client_order(trace)
    return order[np.argsort(trace.picked[-1, order], kind="stable")]
