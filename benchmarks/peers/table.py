"""The results of a run as tables: in the terminal, and in docs/performance.md.

python benchmarks/peers/table.py     # fill the page again from the written results

The page has all tables of the run on x86 cores, and the times of that on ARM cores.
"""

import re
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from maxfl.utils.files import read_json

BASE = "maxfl"
DISTURBED = 1.15
"""Beyond so many times the quickest pass, the slowest is named: it may have been disturbed."""
ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs/performance.md"
ARCHITECTURES = ("x86_64", "aarch64")
CORES = 2
"""Machines whose records are on the page."""
Lines = list[list[str]]


def times(results: dict[str, Any]) -> Lines:
    """Return headings, then a row a peer: ms a round, and how many times the engine's."""
    found = results["workloads"]
    peers = {p: entry["title"] for w in found.values() for p, entry in w["peers"].items()}
    rows = [[title, *(_time(w, peer) for w in found.values())] for peer, title in peers.items()]
    return [["ms a round (of this engine's)", *found], *rows]


def _time(workload: dict[str, Any], peer: str) -> str:
    if "missing" in workload:
        return "no data"
    entry = workload["peers"][peer]
    if "error" in entry:
        return "fails"
    base = workload["peers"].get(BASE, {}).get("ms")
    return f"{entry['ms']:.1f}" + (f" ({entry['ms'] / base:.2f})" if base else "")


def work(results: dict[str, Any]) -> Lines:
    """Return headings, then a row a peer: the loss that it trained to, and how it ran."""
    found = results["workloads"]
    head, *rows = times(results)
    peers = list(dict.fromkeys(peer for w in found.values() for peer in w["peers"]))
    lines = [["training loss reached; variants", *head[1:], "fastest variant"]]
    for peer, row in zip(peers, rows, strict=True):
        entries = [w["peers"].get(peer, {}) for w in found.values()]
        losses = [f"{e['loss']:.3f}" if "loss" in e else "" for e in entries]
        variants = {name: e["variant"] for name, e in zip(found, entries, strict=True)
                    if "variant" in e}  # fmt: skip
        every = set(variants.values())
        fastest = every.pop() if len(every) == 1 else "; ".join(
            f"{name}: {variant}" for name, variant in variants.items())  # fmt: skip
        lines.append([row[0], *losses, fastest])
    return lines


def shares(results: dict[str, Any]) -> Lines:
    """Return headings, then a row for each workload: the engine's share of the machine's peak."""
    lines = [["share of the peak", "a round's training", "an evaluation of all clients"]]
    for workload in results["workloads"].values():
        entry = workload["peers"].get(BASE, {})
        if workload.get("evaluated") or "ms" not in entry:
            continue
        evaluation_ms = median(entry["evaluation_passes"])
        lines.append([
            workload["title"],
            _share(workload["flops"]["training"], entry["ms"], results),
            _share(workload["flops"]["evaluation"], evaluation_ms, results),
        ])  # fmt: skip
    return lines


def _share(flops: int, ms: float, results: dict[str, Any]) -> str:
    rate = flops / ms / 1e6
    return f"{100 * rate / results['peak_gflops']:.0f} % ({rate:.1f} Gflop/s)"


def remarks(results: dict[str, Any]) -> list[str]:
    """Return what the tables do not say."""
    found = results["workloads"]
    lines = [
        place_and_time(results),
        *disturbed(results),
        _versions(results),
        *(f"{name}: {workload['title']}." for name, workload in found.items()),
        f"Float32 matrix-multiplication peak of the machine: {results['peak_gflops']:.1f} "
        "Gflop/s, all cores. "
        "Operations of products and convolutions alone are counted, by formula.",
    ]
    if results["compile_seconds"]:
        cold, cached = results["compile_seconds"].values()
        lines.append(f"The default program (MaxFL on the MLP, with solo training) compiles in "
                     f"{cold} s, and in {cached} s from JAX's cache on disk.")  # fmt: skip
    for name, workload in found.items():
        if "missing" in workload:
            lines.append(f"{name} was not run: {workload['missing']}.")
        for entry in workload["peers"].values():
            if "error" in entry:
                lines.append(f"{name}, {entry['title']}: {entry['error']}.")
    if results["quick"]:
        lines.insert(0, "A quick run: one pass, and of each peer one variant, not the fastest.")
    if results["partial"]:
        lines.insert(0, "A part of the peers or of the workloads only.")
    return lines


def place_and_time(results: dict[str, Any]) -> str:
    """Say where and when a run was made."""
    at = results["machine"]
    blocks = {w["blocks"] for w in results["workloads"].values() if "blocks" in w}
    each = f", each the fastest of {max(blocks)} blocks of rounds" if blocks else ""
    return (
        f"{at['cores']} cores, {at['processor']} ({at['architecture']}), Python {at['python']}; "
        f"{results['made']} UTC; load before the run {at['load']}; median of {results['passes']} "
        f"passes{each}; {results['seconds']} s in all."
    ).replace("+00:00", "")


def disturbed(results: dict[str, Any]) -> list[str]:
    """Name peers that may have been disturbed: their passes differ by more than 15 %."""
    if results["passes"] < 2:
        return []
    found = {
        name: [
            f"{entry['title']} ({min(entry['passes']):.1f} to {max(entry['passes']):.1f})"
            for entry in workload["peers"].values()
            if "error" not in entry and max(entry["passes"]) > DISTURBED * min(entry["passes"])
        ]
        for name, workload in results["workloads"].items()
        if "missing" not in workload
    }
    named = "; ".join(f"{name}: {', '.join(peers)}" for name, peers in found.items() if peers)
    return [f"Slowest passes over {DISTURBED} times the quickest, ms: {named or 'none'}."]


def _versions(results: dict[str, Any]) -> str:
    """Name every package in its versions, as in 'jax 0.10.2 and 0.4.30'."""
    workloads = results["workloads"].values()
    entries = [e for w in workloads for e in w["peers"].values() if "versions" in e]
    packages: dict[str, dict[str, None]] = {}
    for entry in entries:
        for package, version in entry["versions"].items():
            packages.setdefault(package, {})[version] = None
    named = ", ".join(f"{name} {' and '.join(each)}" for name, each in sorted(packages.items()))
    code = f"; maxfl's code has the digest {results['code']}" if "code" in results else ""
    return f"Versions: {named}{code}."


def show(console: Console, results: dict[str, Any]) -> None:
    """Print all tables and remarks."""
    for head, *rows in (times(results), work(results), shares(results)):
        table = Table(*head)
        for row in rows:
            table.add_row(*row)
        console.print(table)
    for line in remarks(results):
        console.print(f"- {line}", highlight=False, markup=False)


def filled(page: str, results: dict[str, Any], elsewhere: dict[str, Any]) -> str:
    """Return a page with its tables made anew: of a run, and of one on the other machine."""
    parts = [_markdown(lines) for lines in (times(results), work(results), shares(results))]
    page = _between(page, "peers", [*parts, _list(remarks(results))])
    below = [place_and_time(elsewhere), *disturbed(elsewhere), _versions(elsewhere)]
    return _between(page, "peers elsewhere", [_markdown(times(elsewhere)), _list(below)])


def _between(page: str, mark: str, parts: list[str]) -> str:
    """Return a page with parts between `<!-- mark -->` and the next `<!-- end -->`."""
    text = "\n".join(parts)
    return re.sub(rf"(<!-- {mark} -->\n).*?(<!-- end -->)", lambda m: f"{m[1]}\n{text}\n{m[2]}",
                  page, flags=re.DOTALL)  # fmt: skip


def _list(lines: list[str]) -> str:
    return "".join(f"- {line}\n" for line in lines)


def _markdown(lines: Lines) -> str:
    head, *rows = lines
    every = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in every)


def fill_page() -> None:
    """Fill the page from both records."""
    both = [read_json(record(architecture)) for architecture in ARCHITECTURES]
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), *both), encoding="utf-8")


def why_no_record(results: dict[str, Any]) -> str:
    """Say why results are no record for the page; nothing if they are."""
    machine, found = results["machine"], results["workloads"].values()
    if results["partial"]:
        return "they are a part"
    if any("missing" in w or any("error" in e for e in w["peers"].values()) for w in found):
        return "some peers or data failed"
    if machine["cores"] != CORES or machine["architecture"] not in ARCHITECTURES:
        return f"its machines have {CORES} cores, {' or '.join(ARCHITECTURES)}"
    return ""


def record(architecture: str) -> Path:
    """Return where the results of a machine are."""
    return ROOT / f"benchmarks/results/peers-{architecture}.json"


if __name__ == "__main__":
    fill_page()
