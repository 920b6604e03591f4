"""Three clients: alike, all different, and two against one (fig:mean2)."""

from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from maxfl.figures import COLOURS
from maxfl.surrogates import SIGMOID
from maxfl.theory.finding import Finding
from maxfl.theory.mean_estimation import Draws, Models, at_mean, draw, gm_appeal, settle, value

CASES = {
    "alike": (0.0, 0.1, 0.2),
    "all different": (-8.0, 0.0, 5.0),
    "two against one": (-0.1, 0.1, 6.0),
}
"""θ_k of the three cases."""
GRID = 2001
"""Points between the outermost means among which the global minimum is looked for."""


class Case(NamedTuple):
    """One case: its draws, and both methods' mean GM-Appeal."""

    draws: Draws
    fedavg: float
    maxfl: float


def global_minimum(draws: Draws) -> Models:
    """MaxFL's best model for every draw: the best of a grid, then exactly."""
    means = draws.empirical
    best, width = np.empty(len(means)), np.ptp(means, axis=1) / (GRID - 1)
    for n, own in enumerate(means):  # a row at a time: n × GRID × M numbers would not fit
        w = np.linspace(own.min(), own.max(), GRID)
        best[n] = w[np.argmin(value(SIGMOID, own, w))]
    anchor = abs(best[:, None] - means).argmin(1)
    near = best - np.take_along_axis(means, anchor[:, None], axis=1)[:, 0]
    return settle(SIGMOID, draws, anchor, near - width, near + width)


def solve(true: tuple[float, ...], variance: float, draws: int, seed: int) -> Case:
    """Draw a case, and let both methods solve it."""
    problem = draw(np.array(true), variance, draws, np.random.default_rng(seed))
    fedavg, maxfl = (gm_appeal(problem, w) for w in (at_mean(problem), global_minimum(problem)))
    return Case(problem, float(fedavg.mean()), float(maxfl.mean()))


def three_clients(variance: float = 1.0, draws: int = 2_000, seed: int = 0) -> Finding:
    """MaxFL averages those that are alike, and picks a side where they are not."""
    cases = {name: solve(true, variance, draws, seed) for name, true in CASES.items()}

    def paint(figure: Figure) -> None:
        axes = figure.subplots(1, 3, sharey=True)
        for axis, (name, true) in zip(axes, CASES.items(), strict=True):
            means = np.array(true)  # the landscape at the true means, as the paper draws it
            w = np.linspace(means.min() - 3, means.max() + 3, 801)
            v = value(SIGMOID, means, w)
            axis.plot(w, v, color=COLOURS[1], lw=2)
            best = round(float(w[np.argmin(v)]), 1) + 0.0  # no −0.0
            axis.plot(best, v.min(), "o", color=COLOURS[1], label=f"MaxFL: {best:.1f}")
            at_mean = value(SIGMOID, means, means.mean()[None])[0]
            axis.plot(
                means.mean(), at_mean, "s", color=COLOURS[0], label=f"FedAvg: {means.mean():.1f}"
            )
            for mean in means:
                axis.axvline(mean, color="0.6", lw=0.8, ls=":")
            axis.set(xlabel="w", title=name)
            axis.legend(fontsize=8)
        axes[0].set_ylabel("MaxFL's objective")

    odd = cases["two against one"]
    return Finding(
        "three-clients",
        f"With two clients against one, MaxFL satisfies {odd.maxfl:.2f} of the clients and FedAvg "
        f"{odd.fedavg:.2f}: it averages the two.",
        ("case", "true means", "FedAvg", "MaxFL"),
        [
            (name, ", ".join(f"{t:g}" for t in CASES[name]), f"{c.fedavg:.3f}", f"{c.maxfl:.3f}")
            for name, c in cases.items()
        ],
        {"case": list(cases), "fedavg": [c.fedavg for c in cases.values()],
         "maxfl": [c.maxfl for c in cases.values()]},
        paint,
    )  # fmt: skip
