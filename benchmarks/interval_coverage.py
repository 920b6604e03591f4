"""How often a report's 95 % interval holds the truth: simulates docs/interval-coverage.csv.

d_sk = u_s + v_sk, normal with mean 0; 40 clients. Run: python benchmarks/interval_coverage.py
"""

import csv
from pathlib import Path

import numpy as np

from maxfl.report.statistics.bootstrap import bootstrap

CLIENTS, REPEATS, RESAMPLES = 40, 2000, 1000
SEEDS = (2, 3, 5, 10, 20)
SPREADS = {"seeds": (1.0, 1.0), "clients": (0.1, 1.0)}
"""Which differ most, with the standard deviations of u and v."""
OUT = Path(__file__).parents[1] / "docs" / "interval-coverage.csv"


def coverage(seeds: int, of_seeds: float, of_clients: float) -> float:
    """Return the share of simulations whose interval holds 0."""
    rng, held = np.random.default_rng(seeds), 0
    for _ in range(REPEATS):
        d = rng.normal(0, of_seeds, (seeds, 1)) + rng.normal(0, of_clients, (seeds, CLIENTS))
        _, low, high = bootstrap(list(d), resamples=RESAMPLES)
        held += low <= 0 <= high
    return held / REPEATS


def main() -> None:
    """Simulate and write."""
    with OUT.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("differ most", "seeds", "held the truth"))
        for name, spreads in SPREADS.items():
            for seeds in SEEDS:
                writer.writerow((name, seeds, f"{coverage(seeds, *spreads):.3f}"))


if __name__ == "__main__":
    main()
