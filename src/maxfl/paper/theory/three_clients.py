"""Three clients: alike, all different, and two against one (fig:mean2)."""

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from maxfl.core.surrogates import SIGMOID
from maxfl.paper.theory.finding import Finding
from maxfl.paper.theory.mean_estimation import (
    Draws,
    Floats,
    Models,
    at_mean,
    distances,
    draw,
    gm_appeal,
    settle,
    value,
)
from maxfl.report.style import COLOURS

CASES = {
    "alike": (0.0, 0.1, 0.2),
    "all different": (-8.0, 0.0, 5.0),
    "two against one": (-0.1, 0.1, 6.0),
}
"""θ_k of the three cases."""


class CaseAppeal(NamedTuple):
    """Both methods' mean GM-Appeal in one case."""

    fedavg: float
    maxfl: float


def global_minimum(draws: Draws) -> Models:
    """Find MaxFL's best model for every draw: the lowest of the minima nearest to each client.

    Minima far from all other clients are alike to the last bit; then the smallest mean has it.
    """
    order = draws.empirical.argsort(1)
    means = np.take_along_axis(draws.empirical, order, axis=1)
    # Half way to the neighbours; beyond the outermost means v only rises.
    half = np.diff(means, axis=1) / 2
    nothing = np.zeros((len(means), 1))
    low, high = np.hstack([nothing, -half]), np.hstack([half, nothing])
    found = [
        settle(SIGMOID, draws, order[:, k], low[:, k], high[:, k]) for k in range(means.shape[1])
    ]
    heights = [value(SIGMOID, distances(draws, m), np.zeros(len(means))) for m in found]
    best = np.argmin(heights, axis=0)
    row = np.arange(len(means))
    return Models(
        np.stack([m.anchor for m in found])[best, row],
        np.stack([m.offset for m in found])[best, row],
    )


def solve(true: tuple[float, ...], variance: float, draws: int, seed: int) -> CaseAppeal:
    """Draw a case, and let both methods solve it."""
    problem = draw(np.array(true), variance, draws, np.random.default_rng(seed))
    fedavg, maxfl = (gm_appeal(problem, w) for w in (at_mean(problem), global_minimum(problem)))
    return CaseAppeal(float(fedavg.mean()), float(maxfl.mean()))


def _around(means: Floats) -> Floats:
    """Return models to draw the objective at."""
    return np.linspace(means.min() - 3, means.max() + 3, 801)


def _best(means: Floats) -> float:
    """Return the drawn model with the lowest objective."""
    w = _around(means)
    return float(w[np.argmin(value(SIGMOID, means, w))])


def three_clients(variance: float = 1.0, draws: int = 2_000, seed: int = 0) -> Finding:
    """Show that MaxFL averages those that are alike, and picks a side where they are not."""
    cases = {name: solve(true, variance, draws, seed) for name, true in CASES.items()}

    def paint(figure: Figure) -> None:
        axes = figure.subplots(1, 3, sharey=True)
        for axis, (name, true) in zip(axes, CASES.items(), strict=True):
            _paint_case(axis, np.array(true))
            axis.set(xlabel="w", title=name)
        axes[0].set(ylabel="MaxFL's objective", ylim=(0.38, 1.02))  # with room for legends

    odd = cases["two against one"]
    return Finding(
        "three-clients",
        f"With two clients against one, MaxFL satisfies {odd.maxfl:.2f} of the clients and FedAvg "
        f"{odd.fedavg:.2f}.",
        ("case", "true means", "FedAvg", "MaxFL"),
        [
            (name, ", ".join(f"{t:g}" for t in CASES[name]), f"{c.fedavg:.3f}", f"{c.maxfl:.3f}")
            for name, c in cases.items()
        ],
        {"case": list(cases), "fedavg": [c.fedavg for c in cases.values()],
         "maxfl": [c.maxfl for c in cases.values()],
         **{f"true mean {k + 1}": [t[k] for t in CASES.values()] for k in range(3)},
         "best model": [_best(np.array(t)) for t in CASES.values()]},
        paint,
    )  # fmt: skip


def _paint_case(axis: Axes, means: Floats) -> None:
    """Draw MaxFL's objective if the estimates were exact, with both methods' models on it."""
    w = _around(means)
    axis.plot(w, value(SIGMOID, means, w), color=COLOURS[1], lw=2)
    # A large ring and a small square: where they coincide, both are seen.
    models = {"MaxFL": _best(means), "FedAvg": means.mean()}
    marks = (("o", 10, COLOURS[1]), ("s", 5, COLOURS[0]))
    for (name, model), (shape, size, colour) in zip(models.items(), marks, strict=True):
        height = value(SIGMOID, means, np.array([model]))
        label = f"{name}: {round(model, 1) + 0.0:.1f}"  # + 0.0: no −0.0
        axis.plot(model, height, shape, ms=size, mfc="none", mec=colour, mew=2, ls="", label=label)
    for mean in means:
        axis.axvline(mean, color="0.6", lw=0.8, ls=":")
    axis.legend(loc="lower left", fontsize=8)
