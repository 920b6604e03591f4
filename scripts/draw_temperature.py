"""Draw docs/temperature.png: T_t and s_t of MaxFL auto over the rounds, at three strictnesses."""

from pathlib import Path

import matplotlib as mpl
import matplotlib.ticker
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import maxfl
from maxfl.algorithms.maxfl_auto import HParams
from maxfl.core.federation import Federation
from maxfl.data import partition
from maxfl.data.assemble import assemble
from maxfl.data.fashion_mnist import fashion_mnist_12k
from maxfl.report.configurations import observed_temperature
from maxfl.report.style import COLOURS, DASHES, STYLE

FIGURE = Path(__file__).parent.parent / "docs/temperature.png"
MULTIPLES = (2.0, 1.0, 0.8)
ROUNDS, SEED = 100, 0


def federation() -> Federation:
    """Make the demo's clients: 30 % have flipped labels."""
    rng = partition.generator(SEED)
    data = fashion_mnist_12k()
    split = partition.dirichlet(data.y, 100, 100, 0.5, rng)
    return assemble(data, split, rng, unseen=50, flipped_fraction=0.3)


def temperatures() -> NDArray[np.float64]:
    """Return T_t after each round from the first on, for each strictness, float[3, R]."""
    history = maxfl.simulate(
        federation(), maxfl.mlp((64, 30)), maxfl.maxfl_auto(),
        maxfl.Training(rounds=ROUNDS, local_steps=10, evaluate_every=1),
        requirement=maxfl.solo(MULTIPLES, local_lr=0.05), seed=SEED,
        server_schedule=maxfl.schedules.exponential(0.18),
    )  # fmt: skip
    gap = history.evaluation.judging_loss - np.asarray(history.thresholds.judging)[:, None]
    weight = np.asarray(history.evaluation.weight)
    return np.array([
        [observed_temperature(gap[c, e], weight[c, e]) for e in range(1, ROUNDS + 1)]
        for c in range(len(MULTIPLES))
    ])  # fmt: skip


def main() -> None:
    """Draw T and s, a pair of lines for each strictness."""
    multiple = HParams().multiple
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7, 3.6), layout="constrained")
        axis = figure.subplots()
        for i, (demand, found) in enumerate(zip(MULTIPLES, temperatures(), strict=True)):
            rounds = np.arange(1, ROUNDS + 1)
            axis.plot(rounds, found, color=COLOURS[i], ls=DASHES[i], lw=2,
                      label=f"ρ = {demand:g} × solo")  # fmt: skip
            axis.plot(rounds, found / multiple, color=COLOURS[i], ls=DASHES[i], lw=0.8)
        axis.axhline(1, color="0.4", lw=0.8, ls=":")
        axis.annotate("the paper's T", (ROUNDS, 1), (0, 3), ha="right",
                      textcoords="offset points", fontsize=8, color="0.35")  # fmt: skip
        axis.set_yscale("log", base=2)
        axis.yaxis.set_major_formatter(mpl.ticker.StrMethodFormatter("{x:g}"))
        axis.set_xlabel("Communication rounds")
        axis.set_ylabel("T (thick) and s (thin)")
        axis.legend(title="Clients require")
        figure.savefig(FIGURE, dpi=150)


if __name__ == "__main__":
    main()
