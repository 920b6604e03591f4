"""Fill docs/reproduction.md from the runs that are kept in the package, and draw its figures.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`; NAME is an experiment, `limit`, or
`rates STUDY PART`, the search of a study for each η_l.
"""

import re
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from maxfl.paper.catalogue import EXPERIMENTS
from maxfl.paper.cluster_limit_study import limit_headings, limit_rows, read_limit
from maxfl.paper.compare import compare
from maxfl.paper.declare import Experiment
from maxfl.paper.plot import draw
from maxfl.paper.results import Outcome, kept, read
from maxfl.paper.study import SEARCH
from maxfl.utils.files import read_json

PAGE = Path(__file__).parent.parent / "docs/reproduction.md"


def filled(page: str) -> str:
    """The page with every table made anew."""
    pattern = r"(<!-- table: (.+?) -->\n).*?(<!-- end -->)"
    return re.sub(pattern, lambda m: f"{m[1]}\n{table(m[2])}\n{m[3]}", page, flags=re.DOTALL)


def table(name: str) -> str:
    """One table as Markdown."""
    if name == "limit":
        made = read_json(kept("limit") / "limit.json")
        rows = limit_rows(read_limit(kept("limit")))
        return f"{markdown(limit_headings(), rows)}\nOn {made['device']}, JAX {made['jax']}.\n"
    if name.startswith("rates "):
        return rates(*name.split()[1:])
    experiment = EXPERIMENTS[name]
    outcome = read(kept(experiment.study.name), experiment.study.name)
    parts = []
    for own in compare(experiment, outcome):
        rows = [_italic(row) if row[0].startswith(" ") else row for row in own.rows]
        remarks = "".join(f"- {remark}\n" for remark in own.remarks)
        parts.append(f"**{own.title}**\n\n{markdown(own.headings, rows)}\n{remarks}")
    return "\n".join([*parts, _made(experiment, outcome)])


def _made(experiment: Experiment, outcome: Outcome) -> str:
    """How the runs were made, and what went wrong in some."""
    about = outcome.about
    shown = {c.part for c in experiment.columns}
    lines = [f"- {line}.\n" for line in outcome.troubles(shown)]
    lines += [f"- Chosen for {part}: {_points(own)}.\n" for part, own in about["chosen"].items()
              if part in shown and any(own.values())]  # fmt: skip
    times = about.get("times", {})
    each = "; ".join(f"{parts}: {seconds:.0f} s" for parts, seconds in times.items())
    each = f" ({each})" if len(times) > 1 else ""
    study = f"the study {experiment.study.name} took {about['seconds']:.0f} s{each}"
    scale = about["scale"].capitalize()
    return "".join([*lines, f"\n{scale}; {study} on {about['device']}, JAX {about['jax']}.\n"])


def _points(chosen: dict[str, dict[str, float]]) -> str:
    """Every method's point of the grid."""
    names = [key.rpartition(".")[2] for key in next(iter(chosen.values()))]
    points = (f"{method} {', '.join(map(str, p.values()))}" for method, p in chosen.items())
    return f"({', '.join(names)}) {'; '.join(points)}"


def _italic(row: list[str]) -> list[str]:
    return [f"*{cell.strip()}*" if cell else "" for cell in row]


def rates(study: str, part: str) -> str:
    """The best of b and τ for each η_l: validation accuracy and GM-Appeal of the seen clients."""
    global_of_part = (pc.field("model") == "global") & (pc.field("part") == part)
    found = pq.read_table(kept(study) / SEARCH).filter(global_of_part)
    keys = ["method", "training.local_lr", "training.batch_size", "training.local_steps"]
    cells = {}
    for metric in ("test_accuracy", "gm_appeal", "gm_appeal_training"):
        own = found.filter(pc.field("metric") == metric).group_by(keys)
        means = own.aggregate([("value", "mean")]).to_pylist()
        cells[metric] = {tuple(row[key] for key in keys): row["value_mean"] for row in means}
    every = sorted({key[1] for key in cells["gm_appeal"]}, reverse=True)
    rows = []
    for method in dict.fromkeys(found["method"].to_pylist()):
        row = [method]
        for rate in every:
            points = {k: v for k, v in cells["test_accuracy"].items() if k[:2] == (method, rate)}
            best = max(points, key=points.__getitem__)
            shares = (f"{cells[m][best]:.2f}" for m in ("gm_appeal", "gm_appeal_training"))
            row.append(f"{100 * points[best]:.1f}; {', '.join(shares)}")
        rows.append(row)
    what = "accuracy %; GM-Appeal held-out, training"
    return markdown([what, *(f"η_l = {rate}" for rate in every)], rows)


def markdown(headings: list[str], rows: list[list[str]]) -> str:
    """A table."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def main() -> None:
    """Fill the page and draw the figures it shows."""
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(filled(page), encoding="utf-8")
    for name, experiment in EXPERIMENTS.items():
        path = PAGE.parent / f"reproduction/{name.replace(':', '-')}.png"
        if f"reproduction/{path.name}" in page:
            draw(experiment, read(kept(experiment.study.name), experiment.study.name), path)


if __name__ == "__main__":
    main()
