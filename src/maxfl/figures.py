"""Curves of a sweep: GM-Appeal and accuracy over rounds, seed by seed."""

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.ticker
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from maxfl.curves import Curves

STYLE: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
}
# Okabe and Ito's colours, which colour-blind people can tell apart; lines differ in dashes too.
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)), (0, (3, 1, 1, 1)))


def line_style(i: int) -> dict[str, Any]:
    """Colour and dashes of line number i."""
    return {"color": COLOURS[i % len(COLOURS)], "ls": DASHES[i % len(DASHES)]}


def draw_curves(curves: Mapping[str, Curves], path: Path, title: str, start: int | None) -> None:
    """Draw GM-Appeal and accuracy of seen and unseen clients; thin lines are single seeds."""
    with mpl.rc_context(STYLE):
        groups = [("", "seen")]
        if not all(np.isnan(own.unseen_appeal).all() for own in curves.values()):
            groups.append(("unseen_", "unseen"))
        figure = Figure(figsize=(9, 5.6), layout="constrained")
        axes = figure.subplots(2, len(groups), sharex=True, sharey="row", squeeze=False)
        panels = [
            (axes[row, column], f"{prefix}{field}", f"{name}, {who} clients")
            for row, (field, name) in enumerate(
                (("appeal", "GM-Appeal"), ("accuracy", "Test accuracy"))
            )
            for column, (prefix, who) in enumerate(groups)
        ]
        for axis, field, label in panels:
            for i, (name, own) in enumerate(curves.items()):
                _lines(axis, own.rounds, getattr(own, field), name, i)
            if start is not None:
                axis.axvline(start, color="0.4", lw=0.8, ls=":")
            axis.set_title(label, loc="left", fontsize=10)
            axis.set_ylim(0, 1)
            axis.xaxis.set_major_locator(mpl.ticker.MaxNLocator(integer=True))
        if start is not None:
            axes[0, 0].annotate(
                "clients may leave from here", (start, 0.97), (4, 0), textcoords="offset points",
                fontsize=8, color="0.35", va="top",
            )  # fmt: skip
        for axis in axes[1]:
            axis.set_xlabel("Communication rounds")
        handles, names = axes[0, 0].get_legend_handles_labels()
        seeds = mpl.lines.Line2D([], [], color="0.5", lw=0.6, label="single seeds")
        figure.legend(
            [*handles, seeds], [*names, "single seeds"], loc="outside lower center", ncols=8
        )
        figure.suptitle(textwrap.fill(title, 110), x=0.01, ha="left", fontsize=11)
        figure.savefig(path, dpi=150)


def _lines(axis: Axes, rounds: Any, values: NDArray[np.float64], name: str, i: int) -> None:
    """The mean as a thick line, and every seed as a thin one: a mean can hide two fates."""
    style = line_style(i)
    axis.plot(rounds, values.T, color=style["color"], lw=0.6, alpha=0.45)
    axis.plot(rounds, values.mean(0), **style, lw=2.2, label=name)
