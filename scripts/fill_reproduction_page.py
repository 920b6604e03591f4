"""Fill the tables of docs/reproduction.md from the runs that are kept in the package.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`; NAME is an experiment, `limit`, or
`rates STUDY`, the search of a study for each η_l.
"""

import re
import sys
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from maxfl.paper.catalogue import EXPERIMENTS
from maxfl.paper.compare import compare
from maxfl.paper.limit_study import limit_headings, limit_rows, read_limit
from maxfl.paper.results import kept, read
from maxfl.paper.study import SEARCH

PAGE = Path(__file__).parent.parent / "docs/reproduction.md"


def filled(page: str) -> str:
    """The page with every table made anew."""
    pattern = r"(<!-- table: (.+?) -->\n).*?(<!-- end -->)"
    return re.sub(pattern, lambda m: f"{m[1]}\n{table(m[2])}\n{m[3]}", page, flags=re.DOTALL)


def table(name: str) -> str:
    """One table as Markdown."""
    if name == "limit":
        return markdown(limit_headings(), limit_rows(read_limit(kept("limit"))))
    if name.startswith("rates "):
        return rates(name.removeprefix("rates "))
    experiment = EXPERIMENTS[name]
    outcome = read(kept(experiment.study.name))
    parts = []
    for own in compare(experiment, outcome):
        rows = [
            [f"*{c.strip()}*" if row[0].startswith(" ") and c else c for c in row]
            for row in own.rows
        ]
        remarks = "".join(f"- {remark}\n" for remark in own.remarks)
        parts.append(f"**{own.title}**\n\n{markdown(own.headings, rows)}\n{remarks}")
    about = outcome.about
    return (
        "\n".join(parts) + f"\n{about['seconds']:.0f} s on {about['device']}, JAX {about['jax']}.\n"
    )


def rates(study: str) -> str:
    """The best of b and τ for each η_l: validation accuracy and GM-Appeal of the seen clients."""
    found = pq.read_table(kept(study) / SEARCH).filter(pc.field("model") == "global")
    keys = ["method", "training.local_lr", "training.batch_size", "training.local_steps"]
    means = {
        metric: found.filter(pc.field("metric") == metric)
        .group_by(keys)
        .aggregate([("value", "mean")])
        for metric in ("test_accuracy", "gm_appeal")
    }
    cells = {
        metric: {tuple(r[k] for k in keys): r["value_mean"] for r in own.to_pylist()}
        for metric, own in means.items()
    }
    every = sorted({key[1] for key in cells["gm_appeal"]}, reverse=True)
    rows = []
    for method in dict.fromkeys(found["method"].to_pylist()):
        row = [method]
        for rate in every:
            own = {k: v for k, v in cells["test_accuracy"].items() if k[:2] == (method, rate)}
            best = max(own, key=lambda k: own[k] if own[k] == own[k] else -1.0)
            row.append(f"{100 * own[best]:.1f}, {cells['gm_appeal'][best]:.2f}")
        rows.append(row)
    return markdown(["accuracy %, GM-Appeal", *(f"η_l = {rate}" for rate in every)], rows)


def markdown(headings: list[str], rows: list[list[str]]) -> str:
    """A table."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    if "--check" in sys.argv and page != filled(page):
        sys.exit(f"{PAGE} is not up to date: run this script")
    PAGE.write_text(filled(page), encoding="utf-8")
