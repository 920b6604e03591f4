"""Fill docs/reproduction.md and docs/portfolio.md from the reference runs, and draw the figures.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`; NAME is an exhibit, `limit`,
`rates STUDY PART`, the search of a study for each η_l, or `portfolio-starts`, what
`benchmarks/portfolio_starts.py` found.
"""

import csv
import re
from pathlib import Path

import pyarrow.compute as pc

from maxfl.paper.catalogue import EXHIBITS
from maxfl.paper.cluster_limit_study import (
    LIMIT_SUMMARY,
    limit_headings,
    limit_rows,
    read_limit,
)
from maxfl.paper.compare import compare
from maxfl.paper.declare import Column, Exhibit
from maxfl.paper.leads import interval_cell, paired_lead
from maxfl.paper.plot import draw
from maxfl.paper.results import StudyResults, read, read_search, reference_run
from maxfl.paper.troubles import not_run, trouble_lines
from maxfl.utils.files import read_json
from maxfl.utils.paths import STUDY

LEADING = ("common", "when")
"""Exhibits whose figures README shows too, beside the page."""
DOCS = Path(__file__).parent.parent / "docs"
STARTS = DOCS / "portfolio-starts.csv"
AS_IT_IS = "as it is"
PAGES = (DOCS / "reproduction.md", DOCS / "portfolio.md")


def filled(page: str) -> str:
    """Return the page with every table made anew."""
    pattern = r"(<!-- table: (.+?) -->\n).*?(<!-- end -->)"
    return re.sub(pattern, lambda m: f"{m[1]}\n{table(m[2])}\n{m[3]}", page, flags=re.DOTALL)


def table(name: str) -> str:
    """Return the table of an exhibit, of the limit or of a search as Markdown."""
    if name == "limit":
        folder = reference_run("limit")
        machine, rows = read_json(folder / LIMIT_SUMMARY), limit_rows(read_limit(folder))
        made = f"On {machine['device']}, JAX {machine['jax']}.\n"
        return f"{markdown(limit_headings(), rows)}\n{made}"
    if name == "portfolio-starts":
        return starts()
    if name.startswith("rates "):
        return rates(*name.split()[1:])
    exhibit = EXHIBITS[name]
    if not (reference_run(exhibit.study.name) / STUDY).is_file():
        return f"No full run yet: `maxfl paper run {name} --scale full`.\n"
    results = reference_results(exhibit)
    figure = f"![{exhibit.title}]({name}.png)\n"
    parts = [figure] if exhibit.name in LEADING else []
    if missing := not_run(exhibit, results):
        parts.append(f"Not run yet: {', '.join(missing)}.\n")
    for comparison in compare(exhibit, results):
        rows = [_italic(row) if row[0].startswith(" ") else row for row in comparison.rows]
        remarks = "".join(f"- {remark}\n" for remark in comparison.remarks)
        parts.append(f"**{comparison.title}**\n\n{markdown(comparison.headings, rows)}\n{remarks}")
    return "\n".join([*parts, _made(exhibit, results)])


def reference_results(exhibit: Exhibit) -> StudyResults:
    """Read the reference run that an exhibit shows."""
    return read(reference_run(exhibit.study.name), exhibit.study.name)


def _made(exhibit: Exhibit, results: StudyResults) -> str:
    """Say how the runs were made, and what went wrong in some."""
    summary = results.summary
    parts = {column.part for column in exhibit.columns}
    lines = [f"- {line}.\n" for line in trouble_lines(exhibit, results)]
    chosen = [f"- Chosen for {part}: {_points(points)}.\n"
              for part, points in summary["chosen"].items()
              if part in parts and exhibit.study.grid]  # fmt: skip
    if not exhibit.study.baseline:
        lines += chosen
    elif chosen and exhibit.is_figure:
        lines += _folded(chosen)
    times = summary.get("times", {})
    each = "; ".join(f"{parts}: {_time(seconds)}" for parts, seconds in times.items())
    each = f" ({each})" if len(times) > 1 else ""
    study = f"the study {exhibit.study.name} took {_time(summary['seconds'])}{each}"
    machine = f"{summary['device']}, JAX {summary['jax']}"
    return "".join([*lines, f"\n{summary['scale'].capitalize()}; {study} on {machine}.\n"])


def _folded(lines: list[str]) -> list[str]:
    """Fold away what many methods chose on many parts."""
    return ["<details><summary>Chosen rates</summary>\n\n", *lines, "\n</details>\n"]


def _time(seconds: float | None) -> str:
    return "several sittings" if seconds is None else f"{seconds:.0f} s"


def _points(chosen: dict[str, dict[str, float]]) -> str:
    """Return every method's point of the grid."""
    names = [key.rpartition(".")[2] for key in next(iter(chosen.values()))]
    points = (f"{method} {', '.join(map(str, p.values()))}" for method, p in chosen.items())
    return f"({', '.join(names)}) {'; '.join(points)}"


def _italic(row: list[str]) -> list[str]:
    return [f"*{cell.strip()}*" if cell else "" for cell in row]


def rates(study: str, part: str) -> str:
    """Return validation accuracy and GM-Appeal of the seen clients, at the best b and τ by η_l."""
    global_of_part = (pc.field("model") == "global") & (pc.field("part") == part)
    found = read_search(reference_run(study)).filter(global_of_part)
    keys = ["method", "training.local_lr", "training.batch_size", "training.local_steps"]
    cells = {}
    for metric in ("test_accuracy", "gm_appeal", "gm_appeal_judging"):
        groups = found.filter(pc.field("metric") == metric).group_by(keys)
        means = groups.aggregate([("value", "mean")]).to_pylist()
        cells[metric] = {tuple(row[key] for key in keys): row["value_mean"] for row in means}
    every = sorted({key[1] for key in cells["gm_appeal"]}, reverse=True)
    rows = []
    for method in dict.fromkeys(found["method"].to_pylist()):
        row = [method]
        for rate in every:
            points = {k: v for k, v in cells["test_accuracy"].items() if k[:2] == (method, rate)}
            best = max(points, key=points.__getitem__)
            shares = (f"{cells[m][best]:.2f}" for m in ("gm_appeal", "gm_appeal_judging"))
            row.append(f"{100 * points[best]:.1f}; {', '.join(shares)}")
        rows.append(row)
    cell = "accuracy %; GM-Appeal by test loss, training loss"
    return markdown([cell, *(f"η_l = {rate}" for rate in every)], rows)


def starts() -> str:
    """Return how GM-Appeal changes with other starts, and another patience, of the models."""
    with STARTS.open(encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    appeal: dict[tuple[str, str], dict[str, list[float]]] = {}
    for row in found:  # every variant has the seeds in one order
        variants = appeal.setdefault((row["method"], row["models"]), {})
        variants.setdefault(row["variant"], []).append(float(row["appeal_unseen"]))
    shown = Column("", "unseen", "gm_appeal")
    names = dict.fromkeys(row["variant"] for row in found if row["variant"] != AS_IT_IS)
    others = sorted(names, key=lambda name: name.startswith("patience"))  # what is left out, first
    rows = []
    for (method, models), variants in appeal.items():
        base = variants[AS_IT_IS]
        changes = [interval_cell(paired_lead(variants[name], base), shown) for name in others]
        rows.append([method, models, f"{sum(base) / len(base):.2f}", *changes])
    return markdown(["method", "models", AS_IT_IS, *others], rows)


def markdown(headings: list[str], rows: list[list[str]]) -> str:
    """Return a table as Markdown."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def main() -> None:
    """Fill the pages and draw the figures that they show."""
    for path in PAGES:
        page = filled(path.read_text(encoding="utf-8"))
        path.write_text(page, encoding="utf-8")
        for name, exhibit in EXHIBITS.items():
            folder = "" if name in LEADING else "reproduction/"
            picture = f"{folder}{name.replace(':', '-')}.png"
            if f"]({picture})" in page:
                draw(exhibit, reference_results(exhibit), DOCS / picture)


if __name__ == "__main__":
    main()
