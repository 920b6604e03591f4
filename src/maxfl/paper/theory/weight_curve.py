"""The weight of a client over its gap to the requirement (fig:incent)."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from maxfl.core import appeal
from maxfl.paper.theory.finding import Finding
from maxfl.report.style import line_style
from maxfl.utils.errors import InputError, check_number


def weight_curve(temperatures: Sequence[float] = (1.0, 0.3)) -> Finding:
    """Show that clients that are nearly won count most."""
    check_number("temperatures", np.asarray(temperatures), above=0)
    gap = np.linspace(-6, 6, 241)
    if len(set(temperatures)) < len(temperatures):
        raise InputError(f"temperatures = {list(temperatures)} has one twice: give each once")
    curves = {f"T = {t:g}": np.asarray(appeal.weight(gap, 0.0, t)) for t in temperatures}

    def paint(figure: Figure) -> None:
        axis = figure.subplots()
        for i, (name, q) in enumerate(curves.items()):
            axis.plot(gap, q, **line_style(i + 1), lw=2, label=name)
        axis.set(xlabel="gap F_k(w) − ρ_k", ylabel="weight q", ylim=(0, 0.27))
        axis.annotate("content", (-5.8, 0.012), fontsize=9, color="0.35")
        axis.annotate("out of reach", (5.8, 0.012), fontsize=9, color="0.35", ha="right")
        axis.annotate("nearly won", (0, 0.255), fontsize=9, color="0.35", ha="center")
        axis.legend(loc="upper right")

    first = next(iter(curves.values()))
    at = [int(np.argmin(abs(gap - x))) for x in (-5, -2, -1, 0, 1, 2, 5)]
    return Finding(
        "weight-curve",
        f"The weight is largest, ¼, where the requirement is just met, and with "
        f"{next(iter(curves))} falls to {first[at[-1]]:.4f} at a gap of 5 on either side.",
        ("gap", *curves),
        [(f"{gap[i]:g}", *(f"{q[i]:.4f}" for q in curves.values())) for i in at],
        {"gap": list(gap), **{name: list(q) for name, q in curves.items()}},
        paint,
    )
