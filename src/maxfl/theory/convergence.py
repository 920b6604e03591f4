"""Convergence: the gradient of MaxFL's objective over rounds, with theorem 1's step sizes.

Cho et al., TMLR 2024, theorem 1: with η_l = 1/(√T τ) and η_g = √(τm), for m of M clients a round
and τ local steps on a non-convex model,

    min_t ‖∇F̃(w_t)‖² = O(1/√T)

Here on real images: a multi-layer perceptron on the embedded Fashion-MNIST, clients skewed by
Dirichlet(0.5), for growing T. The same engine and the same ``appeal.objective`` as everywhere.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from matplotlib.figure import Figure
from numpy.typing import NDArray

from maxfl import appeal
from maxfl.algorithms import maxfl
from maxfl.data import partition
from maxfl.data.assemble import assemble
from maxfl.data.fashion_mnist import fashion_mnist_12k
from maxfl.errors import InputError, check_count
from maxfl.evaluation import owners
from maxfl.federation import Federation
from maxfl.figures import COLOURS, DASHES
from maxfl.local import decode, sample_losses
from maxfl.model import Model, mlp
from maxfl.requirement import fixed
from maxfl.simulation import Simulation, Training
from maxfl.theory.finding import Finding

CLIENTS, SAMPLES, COHORT, STEPS, BATCH = 20, 50, 5, 5, 16
REQUIREMENT = 1.5
"""One loss for all clients: a solo model would depend on η_l, and the objective with it on T."""
TOTALS = (50, 100, 200, 400, 800, 1600)
RATE = -0.5
"""Slope of the theorem's bound over T, on logarithmic axes."""
Progress = Callable[[str, int, int], None]


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


def follow(total: int, seed: int) -> Path:
    """Train for T rounds with theorem 1's step sizes, and watch the gradient."""
    rng = np.random.default_rng(seed)
    data = fashion_mnist_12k()
    federation = assemble(data, partition.dirichlet(data.y, CLIENTS, SAMPLES, 0.5, rng), rng)
    model = mlp(784, (16,), 10, dropout=0.0)
    every = max(1, total // 20)
    training = Training(
        total, COHORT, STEPS, BATCH, local_lr=1 / (np.sqrt(total) * STEPS),
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
    totals: Sequence[int] = TOTALS,
    seeds: int = 3,
    progress: Progress | None = None,
) -> Finding:
    """The smallest squared gradient falls with T, at least as fast as the theorem says."""
    check_count("seeds", seeds, least=1)
    for total in totals:
        check_count("rounds", total, least=2)
    if len(set(totals)) < 2:
        raise InputError(f"rounds = {list(totals)}: want at least two different T, to fit a slope")
    paths: dict[int, list[Path]] = {}
    for i, total in enumerate(sorted(set(totals))):
        paths[total] = [follow(total, seed) for seed in range(seeds)]
        if progress:
            progress("rounds", i + 1, len(set(totals)))
    smallest = np.array([[p.squared_norms.min() for p in own] for own in paths.values()])
    length, mean = np.array(list(paths)), smallest.mean(1)
    fitted, height = np.polyfit(np.log(length), np.log(mean), 1)

    def paint(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        for i, (total, own) in enumerate(paths.items()):
            norms = np.mean([p.squared_norms for p in own], axis=0)
            left.plot(
                own[0].rounds, norms, color=COLOURS[i % 7], ls=DASHES[i % 7], label=f"T = {total}"
            )
        left.set(xlabel="round t", ylabel="‖∇F̃(w_t)‖²", xscale="log", yscale="log")
        left.legend(fontsize=7)
        right.plot(length, smallest, "o", color="0.7", ms=4)
        right.plot(length, mean, "o", color=COLOURS[1], label="smallest, mean of seeds")
        right.plot(
            length, np.exp(height) * length**fitted, color=COLOURS[1], label=f"slope {fitted:.2f}"
        )
        bound = mean[0] * (length / length[0]) ** RATE
        right.plot(length, bound, color=COLOURS[0], ls="--", label="the theorem's slope −0.5")
        right.set(xlabel="T", ylabel="min_t ‖∇F̃(w_t)‖²", xscale="log", yscale="log")
        right.legend(fontsize=8)

    return Finding(
        "convergence",
        f"Over T = {length[0]} to {length[-1]} the smallest squared gradient falls like "
        f"T^{fitted:.2f}; the theorem's bound falls like T^{RATE}.",
        ("T", "η_l", "min_t ‖∇F̃(w_t)‖²"),
        [
            (str(t), f"{1 / (np.sqrt(t) * STEPS):.4f}", f"{m:.2e}")
            for t, m in zip(length, mean, strict=True)
        ],
        {
            "T": [t for t, own in paths.items() for p in own for _ in p.rounds],
            "seed": [s for own in paths.values() for s, p in enumerate(own) for _ in p.rounds],
            "round": [int(r) for own in paths.values() for p in own for r in p.rounds],
            "squared_gradient": [
                float(n) for own in paths.values() for p in own for n in p.squared_norms
            ],
        },
        paint,
    )
