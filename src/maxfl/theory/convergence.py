"""Convergence: the gradient of MaxFL's objective over rounds, with theorem 1's step sizes.

Cho et al., TMLR 2024, theorem 1: with η_l = 1/(√T τ) and η_g = √(τm), for m of M clients a round
and τ local steps on a non-convex model,

    min_t ‖∇F̃(w_t)‖² = O(1/√T)

Here on real images: a multi-layer perceptron on the embedded Fashion-MNIST, clients skewed by
Dirichlet(0.5), some with contradicting labels, for growing T. The theorem bounds the smallest of
the expected squared gradients; the mean over seeds stands for the expectation, and some twenty
rounds of a run for all. The data are the
same for all, so that the objective is. The same engine and ``appeal.objective`` as everywhere.
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
from maxfl.figures import COLOURS, line_style
from maxfl.local import decode, sample_losses
from maxfl.model import Model, mlp
from maxfl.plan import Training
from maxfl.requirement import fixed
from maxfl.simulation import Progress, Simulation
from maxfl.theory.finding import Finding

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


def follow(total: int, seed: int) -> Path:
    """Train for T rounds with theorem 1's step sizes, and watch the gradient."""
    rng = np.random.default_rng(0)
    data = fashion_mnist_12k()
    split = partition.dirichlet(data.y, CLIENTS, SAMPLES, 0.5, rng)
    federation = assemble(data, split, rng, flipped=FLIPPED)
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
    length = np.array(list(paths))
    expected = {t: np.mean([p.squared_norms for p in own], axis=0) for t, own in paths.items()}
    smallest = np.array([norms.min() for norms in expected.values()])
    fitted, height = np.polyfit(np.log(length), np.log(smallest), 1)

    def paint(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        for i, (total, norms) in enumerate(expected.items()):
            left.plot(paths[total][0].rounds, norms, **line_style(i), label=f"T = {total}")
        left.set(
            xlabel="round t", ylabel="‖∇F̃(w_t)‖², mean of seeds", xscale="symlog", yscale="log"
        )
        left.legend(fontsize=7)
        right.plot(length, smallest, "o", color=COLOURS[1], label="smallest")
        line = np.exp(height) * length**fitted
        right.plot(length, line, color=COLOURS[1], label=f"fitted slope {fitted:.2f}")
        bound = smallest[0] * (length / length[0]) ** RATE
        right.plot(length, bound, color=COLOURS[0], ls="--", label="the theorem's slope −0.5")
        right.set(xlabel="T", ylabel="smallest over t", xscale="log", yscale="log")
        right.legend(fontsize=8)

    return Finding(
        "convergence",
        f"Over T = {length[0]} to {length[-1]} the smallest squared gradient goes like "
        f"T^{fitted:.2f}; the theorem's bound falls like T^{RATE}.",
        ("T", "η_l", "min_t ‖∇F̃(w_t)‖²"),
        [
            (str(t), f"{1 / (np.sqrt(t) * STEPS):.4f}", f"{m:.2e}")
            for t, m in zip(length, smallest, strict=True)
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
