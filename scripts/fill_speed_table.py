"""Fill README's table of speed from benchmarks/results."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks/results"
PEERS = {
    "maxfl": "maxfl", "numpy": "NumPy loop", "torch": "PyTorch", "fedjax": "FedJAX",
    "pfl": "pfl-research", "flower": "Flower",
}  # fmt: skip
CORES = {"x86_64": "two x86 cores", "aarch64": "two ARM cores"}
ON_CORES = {"mlp": "MLP, 5 of 100", "cnn": "CNN, 10 of 500"}
GPU = {
    ("mlp", 10): "one H200: MLP, 10 of 500", ("mlp", 100): "one H200: MLP, 100 of 500",
    ("cnn", 10): "one H200: CNN, 10 of 500", ("cnn", 100): "one H200: CNN, 100 of 500",
    ("transformer", 10): "one H200: transformer, 10 of 500",
    ("resnet", 10): "one H200: ResNet-20, 10 of 500",
}  # fmt: skip


def table() -> str:
    """Return the table in Markdown."""
    lines = [
        "| ms a round of FedAvg; clients | " + " | ".join(PEERS.values()) + " |",
        "|---|" + "---|" * len(PEERS),
    ]
    for machine, cores in CORES.items():
        for workload, clients in ON_CORES.items():
            lines.append(
                f"| {cores}: {clients} | " + " | ".join(on_cores(machine, workload)) + " |"
            )
    for (model, cohort), words in GPU.items():
        ours, torch = on_gpu(model, cohort)
        lines.append(f"| {words} | {ours} | | {torch} | | | |")
    return "\n".join(lines)


def on_cores(machine: str, workload: str) -> list[str]:
    """Return every peer's milliseconds on two cores of a machine."""
    found = read(f"peers-{machine}")["workloads"][workload]["peers"]
    return [shown(found[peer]["ms"]) for peer in PEERS]


def on_gpu(model: str, cohort: int) -> tuple[str, str]:
    """Return this engine's milliseconds and PyTorch's, in its fastest way."""
    ours = [
        r["ms_a_round"] for r in read("models-gpu")["rounds"]
        if (r["label"], r["cohort"]) == (model, cohort)
    ]  # fmt: skip
    theirs = [
        r["ms_a_round"] for r in read("torch-gpu")["rounds"]
        if (r["model"].split(" by ")[0], r["cohort"]) == (model, cohort) and "ms_a_round" in r
    ]  # fmt: skip
    return shown(ours[0]), shown(min(theirs))


def read(name: str) -> Any:
    """Read results."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def shown(ms: float) -> str:
    """Return milliseconds with three digits."""
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:.1f}" if ms >= 10 else f"{ms:.2f}"


def filled(page: str) -> str:
    """Return a page with the table between its marks."""
    before, rest = page.split("<!-- speed -->")
    _, after = rest.split("<!-- end -->", 1)
    return f"{before}<!-- speed -->\n\n{table()}\n\n<!-- end -->{after}"


if __name__ == "__main__":
    place = ROOT / "README.md"
    place.write_text(filled(place.read_text(encoding="utf-8")), encoding="utf-8")
