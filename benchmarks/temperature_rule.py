"""Which rule for MaxFL's temperature: every variant in one program, on seeds that no page shows.

    python benchmarks/temperature_rule.py FILE.csv SETTING... [--seeds N ...] [--variants NAME ...]

Writes a row for each setting, variant and seed: the GM-Appeal of unseen clients at the point
(η_l, η_g) that seen clients choose by their judging data. For a GPU: all variants take 4.6 s a
setting and seed on an H200. docs/methods.md has the choice, docs/temperature-search.csv the rows:
the clusters with all variants on seeds 200 to 215, those of 60 rounds with some on 200 to 229, the
others with ten on 200 to 209.

    T_t = min(T_max, max(T_0 (T_1/T_0)^min(1, t/A), c·f^(t/rounds)·s_t)),  ∞ at t = 0 if c > 0

has all rules that were tried: a fixed T, one that falls, one that follows the gaps, and their
combinations; FedAvg is T = ∞ with ε = 0.
"""

import argparse
import csv
import warnings
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import maxfl
from maxfl.algorithms.fedavg import BASE
from maxfl.core import appeal
from maxfl.core.algorithm import Algorithm, average
from maxfl.core.federation import Federation
from maxfl.data import partition
from maxfl.data.assemble import assemble
from maxfl.data.dataset import Dataset
from maxfl.data.fashion_mnist import fashion_mnist

POINTS = tuple(product((0.1, 0.05, 0.01), (1.0, 3.0)))
"""η_l and η_g."""
NEVER = 1_000_000
COLUMNS = ("setting", "variant", "local_lr", "server_lr", "seed", "appeal_unseen")


class Rule(NamedTuple):
    """A rule for the temperature, and how the server's steps shrink."""

    start: Any = 3.0
    temperature: Any = 0.1
    rounds: Any = 50.0
    most: Any = 1.0
    multiple: Any = 2.0
    fall: Any = 1.0
    quantile: Any = 0.25
    gain: Any = 0.2
    epsilon: Any = 0.1
    end: Any = 0.18


class State(NamedTuple):
    """Rounds done, and s."""

    rounds: Any
    scale: Any


def fixed(temperature: float, epsilon: float = 0.1) -> Rule:
    """Return MaxFL at one temperature."""
    return Rule(temperature, temperature, most=temperature, multiple=0.0, epsilon=epsilon)


def following(**numbers: float) -> Rule:
    """Return the rule that follows the gaps alone."""
    return Rule(start=1e-6, temperature=1e-6, most=1e9)._replace(**numbers)


NUMBERS = (
    (0.35, 1.5, 0.2), (0.35, 1.5, 0.3), (0.35, 1.5, 0.5), (0.3, 2.0, 0.2), (0.3, 2.0, 0.3),
    (0.3, 2.0, 0.5), (0.25, 2.0, 0.2), (0.25, 2.0, 0.3), (0.25, 2.0, 0.5), (0.25, 2.5, 0.3),
    (0.25, 2.5, 0.5), (0.2, 2.5, 0.3), (0.2, 3.0, 0.3), (0.2, 3.0, 0.5), (0.15, 4.0, 0.5),
)  # fmt: skip
"""p, c and γ of T_t = c·s_t."""
FALLS = (
    (0.35, 3.0, 1.0), (0.35, 2.0, 1.0), (0.35, 4.0, 1.0), (0.35, 3.0, 0.5), (0.25, 4.0, 1.5),
    (0.25, 3.0, 1.5), (0.25, 4.0, 1.0), (0.25, 3.0, 1.0), (0.5, 2.0, 0.5), (0.5, 3.0, 0.5),
    (0.5, 1.5, 0.5),
)  # fmt: skip
"""p, and c in the first round and in the last."""
VARIANTS = {
    "FedAvg": fixed(1e6, 0.0),
    **{f"T = {t:g}": fixed(t) for t in (0.3, 1.0, 3.0)},
    "T from 3 to 0.3": Rule(temperature=0.3, most=1e6, multiple=0.0),
    "first rule": Rule(),
    "first rule, no cap": Rule(most=1e9),
    "first rule, no floor": Rule(multiple=0.0),
    "first rule, no fall": Rule(start=0.1),
    "first rule, constant steps": Rule(end=1.0),
    **{
        f"p = {p:g}, c = {c:g}, γ = {g:g}": following(quantile=p, multiple=c, gain=g)
        for p, c, g in NUMBERS
    },
    **{
        f"p = {p:g}, c from {c:g} to {e:g}": following(quantile=p, multiple=c, fall=e / c)
        for p, c, e in FALLS
    },
    "p = 0.35, c = 1.5, ε = 0.3": following(quantile=0.35, multiple=1.5, epsilon=0.3),
    "p = 0.25, c = 2, γ = 0.3, ε = 0.3": following(gain=0.3, epsilon=0.3),
}


def temperature(rule: Rule, state: State, rounds: int) -> Any:
    """Return T_t; ∞ in the first round of a rule that follows the gaps."""
    falling = rule.start * (rule.temperature / rule.start) ** jnp.minimum(
        1.0, state.rounds / rule.rounds
    )
    multiple = rule.multiple * rule.fall ** (state.rounds / rounds)
    now = jnp.minimum(rule.most, jnp.maximum(falling, multiple * state.scale))
    return jnp.where((state.rounds == 0) & (rule.multiple > 0), jnp.inf, now)


def method(rules: list[Rule], rounds: int) -> Algorithm:
    """Return a method whose configurations have these rules, for so many rounds."""

    def server_update(rule: Rule, server: Any, total: Any, cohort: Any) -> tuple[Any, State]:
        state, here = server.state, cohort.participated & jnp.isfinite(cohort.gap)
        count, gap = jnp.maximum(here.sum(), 1), abs(cohort.gap)
        near = appeal.nearness(cohort.gap, cohort.requirement, state.scale, rule.quantile)
        share = jnp.where(here, near, 0.0).sum() / count
        tracked = state.scale * jnp.exp(rule.gain * (rule.quantile - share))
        mean = jnp.where(here, gap, 0.0).sum() / count
        scale = jnp.where(state.rounds == 0, mean, tracked)
        return average(total, rule.epsilon), State(state.rounds + 1, scale)

    return BASE._replace(
        name="temperature rule",
        hparams=Rule(*(np.array(numbers, np.float32) for numbers in zip(*rules, strict=True))),
        init_server=lambda params, clients: State(jnp.float32(0), jnp.float32(0)),  # noqa: ARG005
        weight=lambda rule, server, client: appeal.weight(
            client.cost, client.requirement, temperature(rule, server.state, rounds)
        ),
        server_update=server_update,
    )


class Setting(NamedTuple):
    """Data, what is asked of a model for them, and how long and with which rates it is trained."""

    make: Callable[[int], Federation]
    solo_rate: Any
    cohort: int
    start_round: int = NEVER
    rounds: int = 200
    points: tuple[tuple[float, float], ...] = POINTS
    hidden: tuple[int, ...] = (64, 30)


@cache
def images() -> Dataset:
    """Load Fashion-MNIST once."""
    return fashion_mnist("both", None)


def clusters(seed: int) -> Federation:
    """Make five clusters of two labels each."""
    rng, data = partition.generator(seed), images()
    return assemble(data, partition.clusters(data.y, 200, 300, 5, rng), rng, unseen=100)


def skewed(flipped: float) -> Callable[[int], Federation]:
    """Return what makes clients of skewed labels, some of them flipped."""

    def make(seed: int) -> Federation:
        rng, data = partition.generator(seed), images()
        split = partition.dirichlet(data.y, 200, 200, 0.5, rng)
        return assemble(data, split, rng, unseen=100, flipped_fraction=flipped)

    return make


def two_opinions(seed: int) -> Federation:
    """Make small clients, of which two in five contradict the others, as in README's example."""
    rng = np.random.default_rng(seed)

    def client(k: int) -> tuple[Any, Any]:
        x = rng.normal(size=(rng.integers(20, 80), 8))
        return x, ((x[:, 0] + x[:, 1] > 0) ^ (k % 5 < 2)).astype(int)

    train, test = ([client(k) for k in range(60)] for _ in range(2))
    return maxfl.Federation.from_clients(train, test, unseen=20)


SETTINGS = {
    **{f"clusters {rate}": Setting(clusters, rate, 5) for rate in (0.005, 0.01, 0.05)},
    "dirichlet leave": Setting(skewed(0.0), 0.05, 5, 10),
    "dirichlet never": Setting(skewed(0.0), 0.05, 5),
    "flipped leave": Setting(skewed(0.3), 0.05, 5, 10),
    "flipped never": Setting(skewed(0.3), 0.05, 5),
    "60 rounds": Setting(
        two_opinions, (0.1, 0.01, 0.001), 5, rounds=60, points=((0.2, 1.0),), hidden=()
    ),
}


def run(setting: Setting, variants: list[str], seed: int) -> tuple[Any, Any]:
    """Return GM-Appeal by judging data of seen clients, and of unseen ones, [variants, points]."""
    points = setting.points
    rules = [VARIANTS[name] for name in variants for _ in points]
    rates = np.tile(np.array(points), (len(variants), 1))
    training = maxfl.Training(
        setting.rounds, setting.cohort, 10, 32, rates[:, 0], rates[:, 1],
        evaluate_every=setting.rounds, checkpoint_every=setting.rounds,
    )  # fmt: skip
    history = maxfl.simulate(
        setting.make(seed), maxfl.mlp(setting.hidden), method(rules, setting.rounds), training,
        seed=seed,
        requirement=maxfl.solo(local_lr=setting.solo_rate),
        participation=maxfl.opt_out(setting.start_round),
        server_schedule=maxfl.schedules.exponential(np.array([rule.end for rule in rules])),
    )  # fmt: skip
    shape = len(variants), len(points)
    judged = np.where(history.failed(), -1.0, history.gm_appeal("seen", "judging")[:, -1])
    return judged.reshape(shape), history.gm_appeal("unseen")[:, -1].reshape(shape)


def main() -> None:
    """Run the settings that were asked for, and write their rows."""
    warnings.simplefilter("ignore", maxfl.TrainingWarning)
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("settings", nargs="*", choices=[*SETTINGS, []], default=[])
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(200, 210)))
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    given = parser.parse_args()
    with given.file.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        for name in given.settings or SETTINGS:
            found = [run(SETTINGS[name], given.variants, seed) for seed in given.seeds]
            best = np.mean([judged for judged, _ in found], 0).argmax(1)
            for v, variant in enumerate(given.variants):
                for seed, (_, unseen) in zip(given.seeds, found, strict=True):
                    point = SETTINGS[name].points[best[v]]
                    table.writerow([name, variant, *point, seed, f"{unseen[v, best[v]]:.3f}"])
            file.flush()


if __name__ == "__main__":
    main()
