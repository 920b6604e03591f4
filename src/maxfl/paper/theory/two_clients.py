"""Two clients: GM-Appeal over heterogeneity, and the landscapes behind it.

The paper's fig:mean, fig:lrtheo, and its surrogates side by side.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from maxfl.core.surrogates import RELU, SIGMOID, SURROGATES, Surrogate
from maxfl.paper.theory.finding import Finding
from maxfl.paper.theory.mean_estimation import (
    Floats,
    at_mean,
    gm_appeal,
    local_minimum,
    lower_bound,
    sides,
    two_clients,
    upper_bound,
    value,
)
from maxfl.report.style import COLOURS, DASHES
from maxfl.utils.errors import check_number

POINTS = np.linspace(0, 20, 41)
"""γ_G², as in the paper."""
TABLE_POINTS = [int(np.argmin(abs(POINTS - x))) for x in (0, 1, 2, 5, 10, 20)]
"""Indices of the points that the tables show."""
HALVES = (0.5, 1.0, 2.0, 3.0)
"""Half distances of the empirical means whose landscapes are drawn."""


def appeal_curves(
    surrogates: Sequence[Surrogate], variance: float, draws: int, seed: int
) -> dict[str, Floats]:
    """Compute mean GM-Appeal at every γ_G²: FedAvg's model, a local minimum of each surrogate."""
    curves: dict[str, list[float]] = {
        name: [] for name in ("FedAvg", *(s.name for s in surrogates))
    }
    for heterogeneity in POINTS:
        rng = np.random.default_rng(seed)  # the same draws at every point: curves are smooth
        problem = two_clients(float(heterogeneity), variance, draws, rng)
        side = sides(draws, rng)
        models = {"FedAvg": at_mean(problem)} | {
            s.name: local_minimum(s, problem, side) for s in surrogates
        }
        for name, w in models.items():
            curves[name].append(float(gm_appeal(problem, w).mean()))
    return {name: np.array(values) for name, values in curves.items()}


def mean_estimation(variance: float = 1.0, draws: int = 10_000, seed: int = 0) -> Finding:
    """Show that FedAvg's appeal falls with heterogeneity and MaxFL's does not; fig:mean."""
    curves = appeal_curves((RELU, SIGMOID), variance, draws, seed)
    above, below = upper_bound(POINTS, variance), lower_bound(variance)
    sample = np.linspace(-5, 5, len(POINTS))
    named = {"FedAvg": "FedAvg", "MaxFL (ReLU)": RELU.name, "MaxFL": SIGMOID.name}

    def paint(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        for i, (label, name) in enumerate(named.items()):
            left.plot(POINTS, curves[name], color=COLOURS[i], ls=DASHES[i], lw=2, label=label)
        left.plot(
            POINTS, np.minimum(above, 1), color="0.5", lw=1, label="FedAvg at most (lemma A.1)"
        )
        left.axhline(below, color="0.5", lw=1, ls=":", label="MaxFL at least (theorem A.1)")
        left.set(xlabel="heterogeneity γ_G²", ylabel="GM-Appeal", ylim=(0, 1), title="(a)")
        left.legend(loc="upper right", fontsize=8)
        _landscapes(right)

    return Finding(
        "mean-estimation",
        f"At γ_G² = 20 FedAvg's model satisfies {100 * curves['FedAvg'][-1]:.1f} % of the clients "
        f"and MaxFL's {100 * curves[SIGMOID.name][-1]:.1f} %.",
        ("γ_G²", *named, "FedAvg at most", "MaxFL at least"),
        [
            (f"{POINTS[i]:g}", *(f"{curves[n][i]:.3f}" for n in named.values()),
             f"{min(above[i], 1):.3f}", f"{below:.3f}")
            for i in TABLE_POINTS
        ],
        {"heterogeneity": list(POINTS), **{k: list(curves[n]) for k, n in named.items()},
         "upper_bound": list(above), "lower_bound": [below] * len(POINTS), "w": list(sample),
         **{f"objective, half distance {h:g}": list(_landscape(h, sample)) for h in HALVES}},
        paint,
    )  # fmt: skip


def _landscape(half: float, w: Floats) -> Floats:
    """Compute MaxFL's objective with the two empirical means at −half and half."""
    return value(SIGMOID, np.array([-half, half]), w)


def _landscapes(axis: Axes) -> None:
    """Draw MaxFL's objective for growing distance of the two empirical means."""
    w = np.linspace(-5, 5, 401)
    for i, half in enumerate(HALVES):
        axis.plot(w, _landscape(half, w), color=COLOURS[i], ls=DASHES[i], lw=1.8,
                  label=f"γ̂ = {half:g}")  # fmt: skip
    axis.set(xlabel="w (clients at −γ̂ and γ̂)", ylabel="MaxFL's objective", title="(b)")
    axis.legend(loc="lower left", fontsize=8)


def surrogates(variance: float = 1.0, draws: int = 10_000, seed: int = 0) -> Finding:
    """Show that convex surrogates do what FedAvg does; only the sigmoid keeps somebody."""
    curves = appeal_curves(SURROGATES, variance, draws, seed)

    def paint(figure: Figure) -> None:
        axis = figure.subplots()
        for i, (name, values) in enumerate(curves.items()):
            # Convex surrogates lie on top of FedAvg: ever thinner lines let all be seen.
            width = 7 - 1.4 * i if name != SIGMOID.name else 2.2
            axis.plot(POINTS, values, color=COLOURS[i], ls=DASHES[i], lw=width, label=name)
        axis.set(xlabel="heterogeneity γ_G²", ylabel="GM-Appeal", ylim=(0, 1))
        axis.legend(loc="upper right")

    convex = [s.name for s in SURROGATES if s is not SIGMOID]
    worst = max(float(abs(curves[name] - curves["FedAvg"]).max()) for name in convex)
    return Finding(
        "surrogates",
        f"{', '.join(convex)} differ from FedAvg by at most {worst:.3f} anywhere; the sigmoid, "
        f"which is not convex, keeps {100 * curves[SIGMOID.name][-1]:.1f} % where they keep "
        f"{100 * curves['FedAvg'][-1]:.1f} %.",
        ("γ_G²", *curves),
        [(f"{POINTS[i]:g}", *(f"{v[i]:.3f}" for v in curves.values())) for i in TABLE_POINTS],
        {"heterogeneity": list(POINTS), **{name: list(v) for name, v in curves.items()}},
        paint,
    )


def learning_rate(half_distance: float = 2.0) -> Finding:
    """Compute the step 1/L̃ that MaxFL's flat regions allow, over w; fig:lrtheo.

    L̃ = L_s (Σ q_k + ε)/M, and here M = L_s = 2, so the step is 1/(Σ q_k + ε). A square has no
    L_c, from which the paper gets ε; so some are drawn.
    """
    check_number("half-distance", half_distance, least=0, most=5)
    w = np.linspace(-6, 6, 481)
    means = np.array([-half_distance, half_distance])
    q = SIGMOID.slope((w[:, None] - means) ** 2)
    steps = {0.0: 1 / q.sum(1), 1e-3: 1 / (q.sum(1) + 1e-3), 1e-1: 1 / (q.sum(1) + 1e-1)}
    objective = value(SIGMOID, means, w)

    def paint(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, sharex=True)
        left.plot(w, objective, color=COLOURS[1], lw=2)
        left.set(xlabel="w", ylabel="MaxFL's objective")
        for i, (epsilon, step) in enumerate(steps.items()):
            right.plot(w, step, color=COLOURS[i], ls=DASHES[i], lw=2, label=f"ε = {epsilon:g}")
        right.set(xlabel="w", ylabel="step 1/(Σ q_k + ε)", yscale="log")
        right.legend(loc="upper center")
        for axis in (left, right):
            for mean in means:
                axis.axvline(mean, color="0.6", lw=0.8, ls=":")

    near, far = (int(np.argmin(abs(w - x))) for x in (half_distance, 6.0))
    return Finding(
        "learning-rate",
        f"Near a client the step is {steps[1e-3][near]:.1f}, in the flat region at w = 6 it is "
        f"{steps[1e-3][far]:.0f}: where weights vanish the step grows, up to 1/ε.",
        ("w", "Σ q_k", *(f"step, ε = {e:g}" for e in steps)),
        [
            (f"{w[i]:.1f}", f"{q.sum(1)[i]:.2g}", *(f"{s[i]:.3g}" for s in steps.values()))
            for i in (int(np.argmin(abs(w - x))) for x in (0, 1, 2, 3, 4, 6))
        ],
        {"w": list(w), "objective": list(objective), "sum_q": list(q.sum(1)),
         **{f"step_epsilon_{e:g}": list(s) for e, s in steps.items()}},
        paint,
    )  # fmt: skip
