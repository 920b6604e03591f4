"""The figures of a sweep as one small CSV file: python benchmarks/sweep_table.py FOLDER > FILE."""

import csv
import json
import sys
from pathlib import Path

summary = json.loads((Path(sys.argv[1]) / "summary.json").read_text())
names = list(dict.fromkeys(n for e in summary["configurations"] for n in e["values"]))
writer = csv.writer(sys.stdout, lineterminator="\n")
headings = ["seen_appeal", "seen_accuracy", "unseen_appeal", "unseen_accuracy", "solo_accuracy"]
writer.writerow([*(n.split(".")[-1] for n in names), *headings, "stalled_from_round"])
for entry in summary["configurations"]:
    seen, unseen = entry["seen"], entry["unseen"]
    figures = [
        *(seen["gm_appeal"]["test"], seen["test_accuracy"]),
        *(unseen["gm_appeal"]["test"], unseen["test_accuracy"]),
        seen["solo_test_accuracy"],
    ]
    chosen = [entry["values"].get(n, "") for n in names]
    writer.writerow([*chosen, *(f"{v:.3f}" for v in figures), entry["stalled_from_round"] or ""])
