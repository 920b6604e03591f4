"""How figures look: colours, dashes, fonts."""

from typing import Any

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


def figure_style(grid: bool = True) -> Any:
    """Return the settings of a figure; the same figure is the same file."""
    return {**STYLE, "axes.grid": grid, "svg.hashsalt": "maxfl", "pdf.fonttype": 42}


def line_style(i: int) -> dict[str, Any]:
    """Return colour and dashes of line number i."""
    return {"color": COLOURS[i % len(COLOURS)], "ls": DASHES[i % len(DASHES)]}
