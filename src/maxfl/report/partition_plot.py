"""The figure of a partition: what each client has."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from maxfl.data.statistics import FederationStats
from maxfl.report.style import COLOURS, STYLE

FORMATS = (".png", ".pdf", ".svg")
MOST_NAMES = 30
"""Labels that have room for their names."""


def draw_partition(stats: FederationStats, path: Path) -> None:
    """Draw a partition into a file."""
    partition_figure(stats).savefig(path, dpi=150)


def partition_figure(stats: FederationStats) -> Figure:
    """Draw sizes, flipped and Byzantine clients and label shares, one column per client."""
    with mpl.rc_context({**STYLE, "axes.grid": False}):
        figure = Figure(figsize=(10, 6), layout="constrained")
        sizes, marks, shares = figure.subplots(
            3, 1, sharex=True, gridspec_kw={"height_ratios": [1.3, 0.32, 3]}
        )
        _sizes(sizes, stats)
        _marks(marks, stats)
        _shares(figure, shares, stats)
        seen = int(stats.is_seen.sum())
        if seen < len(stats.is_seen):
            for axis in (sizes, marks, shares):
                axis.axvline(seen - 0.5, color="black", lw=1.2, ls="--")
            sizes.annotate(
                "unseen clients from here", (seen - 0.5, 1), (0, 3), fontsize=8,
                ha="left" if seen < 0.6 * len(stats.is_seen) else "right",
                xycoords=("data", "axes fraction"), textcoords="offset points",
            )  # fmt: skip
        figure.suptitle(stats.title, x=0.01, ha="left", fontsize=11)
    return figure


def _sizes(axis: Axes, stats: FederationStats) -> None:
    edges = np.arange(len(stats.train_sizes) + 1) - 0.5
    before_test = stats.train_sizes + stats.judging_sizes
    axis.stairs(before_test + stats.test_sizes, edges, fill=True, color=COLOURS[5], label="test")
    if stats.judging_sizes.any():
        axis.stairs(before_test, edges, fill=True, color=COLOURS[2], label="judging")
    axis.stairs(stats.train_sizes, edges, fill=True, color=COLOURS[1], label="training")
    axis.set_ylabel("samples")
    axis.set_ylim(0)
    axis.margins(x=0)
    axis.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, fontsize=8)


def _marks(axis: Axes, stats: FederationStats) -> None:
    """Draw a bar for every client whose labels are flipped, and below for every Byzantine one."""
    edges = np.arange(len(stats.flipped) + 1) - 0.5
    axis.stairs(1.1 + 0.9 * stats.flipped, edges, baseline=1.1, fill=True, color=COLOURS[0])
    axis.stairs(0.9 * stats.byzantine, edges, fill=True, color=COLOURS[6])
    axis.set_yticks([1.55, 0.45], ["flipped", "Byzantine"])
    axis.set_ylim(0, 2)
    for side in axis.spines.values():
        side.set_visible(False)
    axis.tick_params(length=0)


def _shares(figure: Figure, axis: Axes, stats: FederationStats) -> None:
    # The root lets small shares be seen: most clients have a little of many labels.
    norm = mpl.colors.PowerNorm(0.5, 0, 1)
    image = axis.imshow(
        stats.shares.T, aspect="auto", cmap="YlGnBu", norm=norm, interpolation="nearest"
    )
    if len(stats.labels) <= MOST_NAMES:
        axis.set_yticks(range(len(stats.labels)), stats.labels, fontsize=8)
    else:
        axis.set_ylabel("label")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set_xlabel("client")
    figure.colorbar(image, ax=axis, label="share of the client's samples", pad=0.01)
