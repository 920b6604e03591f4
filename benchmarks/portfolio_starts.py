"""What keeps the models of a portfolio apart: own starts, and starting anew, each switched off.

    python benchmarks/portfolio_starts.py FILE.csv [SETTING ...] [--seeds N ...]

Writes a row for each setting, method, variant, number of models and seed: the GM-Appeal of unseen
clients after 200 rounds of ten clients, and how many models somebody picks. For a GPU.
"""

import argparse
import csv
import dataclasses
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from temperature_rule import clusters, skewed

import maxfl
from maxfl.core.portfolio import PATIENCE
from maxfl.core.prng import Purpose, key

SETTINGS = {
    "clusters": (clusters, 0.01),
    "30 % flipped": (skewed(0.3), 0.05),
    "nobody flipped": (skewed(0.0), 0.05),
}
"""What makes the clients, and the rate of their solo models."""
METHODS = {"MaxFL auto": maxfl.maxfl_auto(), "FedAvg": maxfl.fedavg()}
MODELS = (2, 3, 5)
COLUMNS = ("setting", "method", "variant", "models", "seed", "appeal_unseen", "models_picked")


class Variant(NamedTuple):
    """Whether models start from draws of their own, and when one starts anew."""

    own_starts: bool = True
    patience: int = PATIENCE


VARIANTS = {
    "as it is": Variant(),
    "all models start alike": Variant(own_starts=False),
    "no model starts anew": Variant(patience=0),
    "neither": Variant(own_starts=False, patience=0),
    "patience 10": Variant(patience=10),
    "patience 40": Variant(patience=40),
}


def model(variant: Variant, seed: int) -> maxfl.Model:
    """Return the model; where all start alike, its draw is that of the first, whatever the key."""
    plain = maxfl.mlp((64, 30))
    if variant.own_starts:
        return plain

    def alike(sized: maxfl.Model) -> maxfl.Model:
        first = jax.tree.map(np.asarray, sized.init(key(seed, Purpose.INIT)))
        return dataclasses.replace(sized, init=lambda _: first)

    return plain.changed(alike)


def run(setting: str, method: str, seed: int) -> list[tuple[Any, ...]]:
    """Train every variant and size on one seed; return their rows."""
    make, solo_rate = SETTINGS[setting]
    training = maxfl.Training(200, 10, 10, 32, 0.05, 1.0, evaluate_every=200, checkpoint_every=200)
    rows = []
    for own_starts in (True, False):
        chosen = {n: v for n, v in VARIANTS.items() if v.own_starts is own_starts}
        points = [(name, models) for name in chosen for models in MODELS]
        history = maxfl.simulate(
            make(seed), model(next(iter(chosen.values())), seed), METHODS[method], training,
            seed=seed,
            requirement=maxfl.solo(local_lr=solo_rate),
            server_schedule=maxfl.schedules.exponential(0.18),
            portfolio=maxfl.portfolio(
                [models for _, models in points], [chosen[name].patience for name, _ in points]
            ),
        )  # fmt: skip
        appeal = history.gm_appeal("unseen")[:, -1]
        used = [len(np.unique(picked)) for picked in history.evaluation.picked[:, -1]]
        rows += [
            (setting, method, name, models, seed, f"{appeal[c]:.3f}", used[c])
            for c, (name, models) in enumerate(points)
        ]
    return rows


def main() -> None:
    """Run the settings that were asked for, and write their rows."""
    warnings.simplefilter("ignore", maxfl.TrainingWarning)
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("settings", nargs="*", choices=[*SETTINGS, []], default=[])
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(200, 216)))
    given = parser.parse_args()
    with given.file.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        for setting in given.settings or SETTINGS:
            for method in METHODS:
                for seed in given.seeds:
                    table.writerows(run(setting, method, seed))
                file.flush()


if __name__ == "__main__":
    main()
