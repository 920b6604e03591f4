"""Convergence: the gradient of MaxFL's objective over rounds, with theorem 1's step sizes.

Cho et al., TMLR 2024, theorem 1: with η_l = 1/(√T τ) and η_g = √(τm), for m of M clients a round
and τ local steps on a non-convex model,

    min_t ‖∇F̃(w_t)‖² = O(1/√T)

Here on real images: a multi-layer perceptron on the embedded Fashion-MNIST, clients skewed by
Dirichlet(0.5), some with contradicting labels, for growing T. The theorem bounds the smallest of
the expected squared gradients; the mean over seeds stands for the expectation, and some twenty
rounds of a run for all of them. The data are the same for all, so that the objective is. The same
engine and ``appeal.objective`` as everywhere.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from maxfl.algorithms import maxfl
from maxfl.core import appeal
from maxfl.core.federation import Federation
from maxfl.core.model import Model, mlp
from maxfl.core.requirement import fixed
from maxfl.data import partition
from maxfl.data.assemble import assemble
from maxfl.data.fashion_mnist import fashion_mnist_12k
from maxfl.engine.evaluation import owners
from maxfl.engine.experiment import Training
from maxfl.engine.local import decode, sample_losses
from maxfl.engine.simulation import Progress, Simulation
from maxfl.paper.theory.finding import Finding
from maxfl.report.style import COLOURS, line_style
from maxfl.utils.errors import InputError, check_count

CLIENTS, SAMPLES, COHORT, STEPS, BATCH = 20, 50, 5, 5, 16
REQUIREMENT, FLIPPED = 2.0, 0.3
"""One loss for all clients and all T, since a solo model depends on η_l; and clients that
contradict the others, so that the model can't please all."""
TOTALS = (50, 100, 200, 400, 800, 1600)
RATE = -0.5
"""Slope of the theorem's bound over T, on logarithmic axes."""


class Path(NamedTuple):
    """One run: ‖∇F̃(w_t)‖² at some rounds t."""

    rounds: NDArray[np.int64]
    squared_norms: NDArray[np.float64]


def gradient_norm(federation: Federation, model: Model, rho: Array) -> Callable[[Any], Array]:
    """‖∇F̃(w)‖² over all training data of all clients, as a compiled function of w."""
    train = jax.tree.map(jnp.asarray, federation.train)
    owner, clients = owners(train), federation.clients
    x, sizes = decode(federation.decoding, train.x), jnp.diff(train.offsets)

    def objective(params: Any) -> Array:
        losses, _ = sample_losses(model, params, x, train.y)
        per_client = jax.ops.segment_sum(losses, owner, clients) / sizes
        return appeal.objective(per_client, rho).mean()

    def squared(params: Any) -> Array:
        leaves = jax.tree.leaves(jax.grad(objective)(params))
        return sum((jnp.sum(leaf**2) for leaf in leaves), jnp.float32(0))

    return jax.jit(squared)


def _local_lr(total: int) -> float:
    """η_l = 1/(√T τ)."""
    return float(1 / (np.sqrt(total) * STEPS))


def follow(total: int, seed: int) -> Path:
    """Train for T rounds with theorem 1's step sizes, and watch the gradient."""
    rng = np.random.default_rng(0)
    data = fashion_mnist_12k()
    split = partition.dirichlet(data.y, CLIENTS, SAMPLES, 0.5, rng)
    federation = assemble(data, split, rng, flipped=FLIPPED)
    model = mlp(784, (16,), 10, dropout=0.0)
    every = max(1, total // 20)
    training = Training(
        total, COHORT, STEPS, BATCH, local_lr=_local_lr(total),
        server_lr=float(np.sqrt(STEPS * COHORT)), evaluate_every=every, block=every,
    )  # fmt: skip
    simulation = Simulation(
        federation, model, maxfl(), training, requirement=fixed(REQUIREMENT, steps=0), seed=seed
    )
    prepared, state = simulation.prepare(), simulation.start()
    norm = gradient_norm(federation, model, jnp.asarray(prepared.thresholds.train[0]))
    rounds, norms = [], []
    for now, block in simulation.blocks(prepared, state):
        rounds.append(int(block.rounds[-1]))
        norms.append(float(norm(jax.tree.map(lambda a: a[0], now.server.params))))
    return Path(np.array(rounds), np.array(norms))


def convergence(
    totals: Sequence[int] = TOTALS, seeds: int = 3, progress: Progress | None = None
) -> Finding:
    """The smallest squared gradient over T, beside the theorem's rate."""
    check_count("seeds", seeds, least=1)
    for total in totals:
        check_count("rounds", total, least=2)
    if len(set(totals)) < 2:
        raise InputError(f"rounds = {list(totals)}: want at least two different T, to fit a slope")
    runs = _run_all(sorted(set(totals)), seeds, progress)
    length = np.array(list(runs))
    smallest = np.array([_expected(own).min() for own in runs.values()])
    fitted, height = np.polyfit(np.log(length), np.log(smallest), 1)

    def paint(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        _paint_runs(left, runs)
        right.plot(length, smallest, "o", color=COLOURS[1], label="smallest")
        line = np.exp(height) * length**fitted
        right.plot(length, line, color=COLOURS[1], label=f"fitted slope {fitted:.2f}")
        bound = smallest[0] * (length / length[0]) ** RATE
        right.plot(length, bound, color=COLOURS[0], ls="--", label=f"the theorem's slope {RATE}")
        right.set(xlabel="T", ylabel="smallest over t", xscale="log", yscale="log")
        right.legend(fontsize=8)

    return Finding(
        "convergence",
        f"Over T = {length[0]} to {length[-1]} the smallest squared gradient goes like "
        f"T^{fitted:.2f}; the theorem's bound falls like T^{RATE}.",
        ("T", "η_l", "min_t ‖∇F̃(w_t)‖²"),
        [
            (str(t), f"{_local_lr(t):.4f}", f"{m:.2e}")
            for t, m in zip(length, smallest, strict=True)
        ],
        _columns(runs),
        paint,
    )


def _run_all(totals: Sequence[int], seeds: int, progress: Progress | None) -> dict[int, list[Path]]:
    """Every T with every seed."""
    runs: dict[int, list[Path]] = {total: [] for total in totals}
    done = 0
    for total in totals:
        for seed in range(seeds):
            runs[total].append(follow(total, seed))
            done += total
            if progress:
                progress("rounds", done, seeds * sum(totals))
    return runs


def _expected(own: Sequence[Path]) -> NDArray[np.float64]:
    """E‖∇F̃(w_t)‖² at the rounds looked at, by the mean over seeds."""
    return np.mean([path.squared_norms for path in own], axis=0)


def _paint_runs(axis: Axes, runs: dict[int, list[Path]]) -> None:
    """The squared gradient over the rounds of each T."""
    for i, (total, own) in enumerate(runs.items()):
        axis.plot(own[0].rounds, _expected(own), **line_style(i), label=f"T = {total}")
    axis.set(xlabel="round t", ylabel="‖∇F̃(w_t)‖², mean of seeds")
    axis.set(xscale="symlog", yscale="log")  # round 0 has no logarithm
    axis.legend(fontsize=7)


def _columns(runs: dict[int, list[Path]]) -> dict[str, list[Any]]:
    """Every squared gradient that was measured, with its T, η_l, seed and round."""
    rows = [
        (total, _local_lr(total), seed, int(t), float(norm))
        for total, own in runs.items()
        for seed, path in enumerate(own)
        for t, norm in zip(path.rounds, path.squared_norms, strict=True)
    ]
    names = ("T", "local_lr", "seed", "round", "squared_gradient")
    return {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
