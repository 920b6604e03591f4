"""Draw docs/byzantine.png: the weight that clients gain by adding 20 to the loss they report."""

from pathlib import Path

import matplotlib as mpl
import matplotlib.ticker
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

import maxfl
from maxfl.core.attacks import byzantine
from maxfl.data import partition
from maxfl.data.assemble import assemble
from maxfl.data.fashion_mnist import fashion_mnist_12k
from maxfl.report.style import COLOURS, DASHES, STYLE

FIGURE = Path(__file__).parent.parent / "docs/byzantine.png"
METHODS = {
    "MW-Fed": maxfl.mwfed(),
    "q-FFL, q = 1": maxfl.qffl(1.0),
    "FedAvg": maxfl.fedavg(),
    "MaxFL, T = 1": maxfl.maxfl(),
    "MaxFL auto": maxfl.maxfl_auto(),
}


def byzantine_share(algorithm: maxfl.Algorithm) -> NDArray[np.float64]:
    """Compute the Byzantine clients' share of the weight after each round, float[R + 1]."""
    rng = np.random.default_rng(0)
    data = fashion_mnist_12k()
    federation = assemble(data, partition.dirichlet(data.y, 20, 200, 0.5, rng), rng)
    training = maxfl.Training(rounds=20, cohort=20, local_steps=10, evaluate_every=1)
    history = maxfl.simulate(
        federation, maxfl.mlp(784, (64, 30), 10), algorithm, training,
        requirement=maxfl.fixed(2.0), attack=byzantine(0.1, loss_inflation=20.0),
    )  # fmt: skip
    weight = np.asarray(history.evaluation.weight[0], np.float64)
    return weight[:, history.is_byzantine[0]].sum(1) / weight.sum(1)


def main() -> None:
    """Draw one line for each method."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7, 3.6), layout="constrained")
        axis = figure.subplots()
        for i, (name, algorithm) in enumerate(METHODS.items()):
            share = byzantine_share(algorithm)
            axis.plot(share, color=COLOURS[i], ls=DASHES[i], lw=2, label=name)
        axis.axhline(0.1, color="0.4", lw=0.8, ls=":")
        axis.annotate("their share of the clients", (20, 0.1), (0, 3), ha="right",
                      textcoords="offset points", fontsize=8, color="0.35")  # fmt: skip
        axis.set_ylim(-0.03, 1.03)
        axis.xaxis.set_major_locator(mpl.ticker.MaxNLocator(integer=True))
        axis.set_xlabel("Communication rounds")
        axis.set_ylabel("Byzantine clients' share of the weight")
        figure.legend(loc="outside right upper")
        figure.savefig(FIGURE, dpi=150)


if __name__ == "__main__":
    main()
