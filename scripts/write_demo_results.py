"""Write docs/demo-results.csv, which docs/demo.md quotes, from a finished demo's folder.

maxfl demo --out runs/demo && python scripts/write_demo_results.py runs/demo
"""

import csv
import json
import sys
from pathlib import Path

from maxfl.cli.demo import LABELS

TABLE = Path(__file__).parent.parent / "docs/demo-results.csv"
HEADINGS = (
    "method", "seed", "appeal_seen", "appeal_unseen", "accuracy_seen", "stalled_from_round",
)  # fmt: skip


def main() -> None:
    """Write a row for each configuration of the demo."""
    summary = json.loads((Path(sys.argv[1]) / "summary.json").read_text())
    with TABLE.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(HEADINGS)
        for entry in summary["configurations"]:
            values = entry["values"]
            table.writerow([
                LABELS[values["algorithm.name"]],
                values["seed"],
                entry["seen"]["gm_appeal"]["test"],
                entry["unseen"]["gm_appeal"]["test"],
                entry["seen"]["test_accuracy"],
                entry["stalled_from_round"],
            ])  # fmt: skip


if __name__ == "__main__":
    main()
