"""Convergence: the gradient of MaxFL's objective over rounds, with theorem 1's step sizes.

Cho et al., TMLR 2024, theorem 1: with η_l = 1/(√R τ) and η_g = √(τm), for R rounds of m of M
clients and τ local steps on a non-convex model,

    min_r ‖∇F̃(w_r)‖² = O(1/√R)

Here on real images: a multi-layer perceptron on the embedded Fashion-MNIST, clients skewed by
Dirichlet(0.5), some with contradicting labels, for growing R. The theorem bounds the smallest of
the expected squared gradients; the mean over seeds stands for the expectation, and some twenty
rounds of a run for all of them. The data are the same for all, so that the objective is. Engine
and ``appeal.objective`` are those that train models.
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
from maxfl.core.model import Model
from maxfl.core.requirements.requirement import fixed
from maxfl.data import partition
from maxfl.data.assemble import assemble
from maxfl.data.fashion_mnist import fashion_mnist_12k
from maxfl.engine.evaluation import owners, score_samples
from maxfl.engine.experiment import Training
from maxfl.engine.minibatches import Task
from maxfl.engine.simulation import Simulation
from maxfl.engine.trainer import Progress
from maxfl.models.mlp import mlp
from maxfl.paper.theory.finding import Finding
from maxfl.report.style import COLOURS, line_style
from maxfl.utils.errors import InputError, check_count

CLIENTS, SAMPLES, COHORT, STEPS, BATCH = 20, 50, 5, 5, 16
REQUIREMENT, FLIPPED = 2.0, 0.3
"""One loss for all clients and all R, since a solo model depends on η_l; and clients that
contradict the others, so that the model can't please all."""
ROUNDS = (50, 100, 200, 400, 800, 1600)
RATE = -0.5
"""Slope of the theorem's bound over R, on logarithmic axes."""


class Trajectory(NamedTuple):
    """One run: ‖∇F̃(w_r)‖² at some rounds r."""

    rounds: NDArray[np.int64]
    squared_norms: NDArray[np.float64]


def gradient_norm(federation: Federation, model: Model, rho: Array) -> Callable[[Any], Array]:
    """Return ‖∇F̃(w)‖² over all clients' training data, as a compiled function of w."""
    train = jax.tree.map(jnp.asarray, federation.train)
    owner, clients = owners(train, jnp.arange(len(train.y))), federation.clients
    task, sizes = Task(model, federation.input_scaling, train), jnp.diff(train.offsets)

    def objective(params: Any) -> Array:
        losses = score_samples(task, params, train.x, train.y).loss
        per_client = jax.ops.segment_sum(losses, owner, clients) / sizes
        return appeal.objective(per_client, rho).mean()

    def squared(params: Any) -> Array:
        leaves = jax.tree.leaves(jax.grad(objective)(params))
        return sum((jnp.sum(leaf**2) for leaf in leaves), jnp.float32(0))

    return jax.jit(squared)


def _local_lr(rounds: int) -> float:
    """Return η_l = 1/(√R τ)."""
    return float(1 / (np.sqrt(rounds) * STEPS))


def follow(rounds: int, seed: int) -> Trajectory:
    """Train for R rounds with theorem 1's step sizes, and watch the gradient."""
    rng = np.random.default_rng(0)
    data = fashion_mnist_12k()
    split = partition.dirichlet(data.y, CLIENTS, SAMPLES, 0.5, rng)
    federation = assemble(data, split, rng, flipped_fraction=FLIPPED)
    model = mlp(784, (16,), 10, dropout=0.0)
    every = max(1, rounds // 20)
    training = Training(
        rounds, COHORT, STEPS, BATCH, local_lr=_local_lr(rounds),
        server_lr=float(np.sqrt(STEPS * COHORT)), evaluate_every=every, checkpoint_every=every,
    )  # fmt: skip
    simulation = Simulation(
        federation, model, maxfl(), training, seed=seed,
        # The theorem's clients weigh by the loss that they train on.
        requirement=fixed(REQUIREMENT, steps=0, judge="training"),
    )  # fmt: skip
    prepared, state = simulation.prepare(), simulation.start()
    norm = gradient_norm(federation, model, jnp.asarray(prepared.thresholds.judging[0]))
    evaluated, norms = [], []
    for now, block in simulation.blocks(prepared, state):
        evaluated.append(int(block.rounds[-1]))
        norms.append(float(norm(jax.tree.map(lambda a: a[0], now.server.params))))
    return Trajectory(np.array(evaluated), np.array(norms))


def convergence(
    rounds: Sequence[int] = ROUNDS, seeds: int = 3, progress: Progress | None = None
) -> Finding:
    """Train for every R, and show the smallest squared gradient beside the theorem's rate."""
    check_count("seeds", seeds, least=1)
    for length in rounds:
        check_count("rounds", length, least=2)
    if len(set(rounds)) < 2:
        raise InputError(
            f"rounds = {list(rounds)}: expected at least two different R, to fit a slope"
        )
    return show_rate(_run_all(sorted(set(rounds)), seeds, progress))


Runs = dict[int, list[Trajectory]]
"""The runs of each R, one for each seed."""


def show_rate(runs: Runs) -> Finding:
    """Fit the slope of the smallest squared gradient over R, and show it beside the theorem's."""
    length = np.array(list(runs))
    smallest = np.array([_expected(seeds).min() for seeds in runs.values()])
    fitted, height = np.polyfit(np.log(length), np.log(smallest), 1)

    def paint(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        _paint_runs(left, runs)
        right.plot(length, smallest, "o", color=COLOURS[1], label="smallest")
        line = np.exp(height) * length**fitted
        right.plot(length, line, color=COLOURS[1], label=f"fitted slope {fitted:.2f}")
        bound = smallest[0] * (length / length[0]) ** RATE
        right.plot(length, bound, color=COLOURS[0], ls="--", label=f"the theorem's slope {RATE}")
        right.set(xlabel="R", ylabel="smallest over r", xscale="log", yscale="log")
        right.legend(loc="upper right", fontsize=8)

    return Finding(
        "convergence",
        f"Over R = {length[0]} to {length[-1]} the smallest squared gradient goes like "
        f"R^{fitted:.2f}; the theorem's bound falls like R^{RATE}.",
        ("R", "η_l", "min_r ‖∇F̃(w_r)‖²"),
        [
            (str(rounds), f"{_local_lr(rounds):.4f}", f"{norm:.2e}")
            for rounds, norm in zip(length, smallest, strict=True)
        ],
        _columns(runs),
        paint,
    )


def _run_all(lengths: Sequence[int], seeds: int, progress: Progress | None) -> Runs:
    """Train for every R with every seed."""
    runs: Runs = {rounds: [] for rounds in lengths}
    done = 0
    for rounds in lengths:
        for seed in range(seeds):
            runs[rounds].append(follow(rounds, seed))
            done += rounds
            if progress:
                progress("rounds", done, seeds * sum(lengths))
    return runs


def _expected(seeds: Sequence[Trajectory]) -> NDArray[np.float64]:
    """Estimate E‖∇F̃(w_r)‖² at the evaluated rounds, by the mean over seeds."""
    return np.mean([trajectory.squared_norms for trajectory in seeds], axis=0)


def _paint_runs(axis: Axes, runs: Runs) -> None:
    """Draw the squared gradient over the rounds of each R."""
    for i, (rounds, seeds) in enumerate(runs.items()):
        axis.plot(seeds[0].rounds, _expected(seeds), **line_style(i), label=f"R = {rounds}")
    axis.set(xlabel="round r", ylabel="‖∇F̃(w_r)‖², mean of seeds")
    axis.set(xscale="symlog", yscale="log")  # round 0 has no logarithm
    axis.legend(loc="lower left", fontsize=7)


def _columns(runs: Runs) -> dict[str, list[Any]]:
    """Return every squared gradient that was measured, with its R, η_l, seed and round."""
    rows = [
        (rounds, _local_lr(rounds), seed, int(r), float(norm))
        for rounds, seeds in runs.items()
        for seed, trajectory in enumerate(seeds)
        for r, norm in zip(trajectory.rounds, trajectory.squared_norms, strict=True)
    ]
    names = ("rounds", "local_lr", "seed", "round", "squared_gradient")
    return {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
