"""The annealing search as one CSV file, the best point first.

    python benchmarks/annealing_table.py FOLDER > docs/annealing-search.csv

GM-Appeal (held-out) after the last round on validation data: mean and standard deviation over the
seeds, of seen and of unseen clients.
"""

import csv
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

FIXED = "algorithm.name"
GROUPS = ("seen", "unseen")


def main() -> None:
    """Print a line for each point of the search."""
    rows = pq.read_table(Path(sys.argv[1]) / "metrics.parquet").to_pylist()
    names = [n for n in rows[0] if n.startswith(("algorithm.", "training.")) and n != FIXED]
    last = max(row["round"] for row in rows)
    found: dict[tuple[float, ...], dict[str, list[float]]] = {}
    for row in rows:
        if row["round"] == last and row["metric"] == "gm_appeal" and row["model"] == "global":
            point = found.setdefault(tuple(row[n] for n in names), {"seen": [], "unseen": []})
            point[row["clients"]].append(row["value"])
    writer = csv.writer(sys.stdout, lineterminator="\n")
    headings = [f"{clients}_{what}" for clients in GROUPS for what in ("appeal", "spread")]
    writer.writerow([*(n.split(".")[-1] for n in names), *headings])
    for point, appeal in sorted(found.items(), key=lambda e: -np.mean(e[1]["seen"])):
        figures = [f(appeal[clients]) for clients in GROUPS for f in (np.mean, _std)]
        writer.writerow([*point, *(f"{v:.4f}" for v in figures)])


def _std(values: list[float]) -> float:
    return float(np.std(values, ddof=1))


if __name__ == "__main__":
    main()
