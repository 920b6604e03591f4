"""The figures of docs/performance.md are those of benchmarks/results."""

import json
import re

from support.commands import ROOT
from support.pages import read_csv, rows_of


def test_the_methods_times_are_those_measured():
    measured = {
        r["method"]: (r["ms_a_round"], r["of_fedavg"]) for r in read_csv("docs/methods-times.csv")
    }
    rows = rows_of("docs/methods.md", "| method | ms a round")
    assert {name: (ms, ratio) for name, ms, ratio, _ in rows} == measured


def test_the_times_of_a_portfolio_are_those_measured():
    rows = read_csv("docs/portfolio-times.csv")
    kinds = {
        ("cpu", "1"): ("two ARM cores", 1),
        ("NVIDIA H200", "1"): ("H200, one run", 2),
        ("NVIDIA H200", "64"): ("H200, 64 configurations at once", 2),
    }
    table: dict[str, list[str]] = {}
    for row in rows:
        name, digits = kinds[row["device"], row["configurations"]]
        ms, bound = (f"{float(row[column]):.{digits}f}" for column in ("ms_per_round", "bound_ms"))
        table.setdefault(name, []).append(ms if row["models"] == "1" else f"{ms} ({bound})")
    page = rows_of("docs/portfolio.md", "| ms a round (that bound)")
    assert {name: cells for name, *cells in page} == table
    over = {
        (r["device"], r["configurations"], r["models"])
        for r in rows
        if float(r["ms_per_round"]) > float(r["bound_ms"])
    }
    assert over == {("NVIDIA H200", "1", "2"), ("NVIDIA H200", "1", "3")}
    alone, at_once = (
        float(r["ms_per_configuration"])
        for r in rows
        if (r["device"], r["models"]) == ("NVIDIA H200", "3")
    )
    text = " ".join((ROOT / "docs/portfolio.md").read_text(encoding="utf-8").split())
    assert f"each takes 1/{alone / at_once:.0f} of the time that it takes alone" in text


def test_the_performance_page_agrees_with_the_gpus_figures():
    found = json.loads((ROOT / "benchmarks/results/gpu.json").read_text())
    page = (ROOT / "docs/performance.md").read_text(encoding="utf-8")
    table = rows_of("docs/performance.md", "| | 1 configuration |")
    rows = {cells[0]: cells[1:] for cells in table}
    names = {
        "FedAvg, products in TF32 (JAX's default there)": ("platform", "FedAvg"),
        "MaxFL, the same": ("platform", "MaxFL"),
        "FedAvg, float32": ("float32", "FedAvg"),
        "FedAvg, bfloat16": ("bfloat16", "FedAvg"),
    }
    for name, kind in names.items():
        ms = [r["ms_a_round"] for r in found["rounds"] if (r["precision"], r["method"]) == kind]
        assert rows[name] == [f"{ms[0]:.2f}", f"{ms[1]:.3f}", f"{ms[2]:.3f}"], name
    torch = [r["ms_a_round"] for r in found["torch"]]
    printed = [float(cells[0]) for name, cells in rows.items() if name.startswith("PyTorch")]
    assert printed == [round(torch[0]), round(torch[1]), round(torch[2], 1)]
    wide = {(r["precision"], r["configurations"]): r["ms_a_round"] for r in found["wide"]}
    text = " ".join(page.split())
    for size, words in (
        (1, "one configuration takes {:.1f} ms a round in TF32, {:.1f} in bfloat16 and {:.1f}"),
        (32, "of 32 at once each takes {:.1f}, {:.1f} and {:.1f}"),
    ):
        ms = [wide[p, size] for p in ("platform", "bfloat16", "float32")]
        assert words.format(*ms) in text
    for run in found["appeal"]:
        (appeal, spread), (accuracy, wide) = run["gm_appeal"], run["test_accuracy"]
        cells = f"| {appeal:.3f} ± {spread:.3f} | {100 * accuracy:.1f} ± {100 * wide:.1f} |"
        assert cells in page, run["precision"]


def test_the_performance_page_agrees_with_the_models_of_the_zoo():
    found = json.loads((ROOT / "benchmarks/results/models-gpu.json").read_text())
    page = (ROOT / "docs/performance.md").read_text()
    rows = {
        "logistic": ("logistic", "product"), "mlp": ("mlp", "product"),
        "cnn (3 × 3, 128 units)": ("cnn", "product"),
        "the same with XLA's convolution": ("cnn", "lax.conv"),
        "cnn-leaf (5 × 5, 2048 units)": ("cnn-leaf", "product"),
        "resnet (20 layers)": ("resnet", "product"),
        "lstm (two layers of 256 units, 80 characters)": ("lstm", "product"),
        "transformer (two layers of width 128, 80 characters)": ("transformer", "product"),
    }  # fmt: skip
    for name, (label, convolution) in rows.items():
        times = [
            row["ms_a_round"]
            for row in found["rounds"]
            if row["label"] == label and row["convolution"] == convolution
        ]
        assert f"| {name} | {times[0]:.3g} | {times[1]:.3g} |" in page
    graph = [row["ms_a_round"] for row in found["torch"] if row["variant"] == "vmap, CUDA graph"]
    assert f"| PyTorch's vmap in a CUDA graph on it | {graph[0]:.3g} | {graph[1]:.3g} |" in page
    lora = json.loads((ROOT / "benchmarks/results/lora.json").read_text())["rows"][0]
    assert f"{lora['frozen'] / 1e6:.1f} million frozen" in page
    words = " ".join(page.split())
    assert f"{lora['trained'] / 1e6:.1f} million trained" in words
    assert f"took {lora['peak'] / 1e9:.2f} GB" in words
    assert (
        f"{lora['bytes_of_100_bases'] / 1e9:.1f} GB; {lora['predicted'] / 1e9:.1f} GB were" in words
    )


def test_the_performance_page_agrees_with_the_models_on_two_cores():
    found = json.loads((ROOT / "benchmarks/results/models-cpu.json").read_text())["rounds"]
    measured = [r for r in found if r["cohort"] == 10]
    printed = rows_of("docs/performance.md", "| two cores |")
    assert len(printed) == len(measured) == 8
    for (name, parameters, ms), row in zip(printed, measured, strict=True):
        assert name.startswith(("the same with XLA", row["label"]))
        assert parameters == f"{row['parameters']:,}"
        assert ms == (f"{row['ms_a_round']:.1f}" if row["ms_a_round"] < 100 else
                      f"{row['ms_a_round']:,.0f}")  # fmt: skip


def test_the_performance_page_agrees_with_a_million_clients():
    found = json.loads((ROOT / "benchmarks/results/million.json").read_text())["rounds"]
    table = rows_of("docs/performance.md", "| ms a round; memory |")
    assert len(table) * 2 == len(found) == 6
    for case, *cells in table:
        small, large = (r for r in found if r["case"] == case)
        assert cells == [f"{r['ms']:.0f}; {r['memory_gib']:.2f} GiB" for r in (small, large)]
        assert (small["clients"], large["clients"]) == (10_000, 1_000_000)
        assert large["memory_gib"] < 4
        if "first sampled" not in case:
            assert large["ms"] < 1.2 * small["ms"]


def test_the_performance_page_agrees_with_several_devices():
    found = json.loads((ROOT / "benchmarks/results/devices.json").read_text())
    rows = rows_of("docs/performance.md", "| ms a round | 1 configuration |")
    printed = {re.sub(r" of .*", "", name): cells for name, *cells in rows}
    ms = found["ms_by_configurations"]
    measured = {name: [f"{times[n]:.0f}" for n in ("1", "2")] for name, times in ms.items()}
    assert printed == measured
    ratio = ms["1 device"]["1"] / ms["2 devices"]["1"]
    page = " ".join((ROOT / "docs/performance.md").read_text(encoding="utf-8").split())
    assert f"share one device, which takes about {ratio:.1f} times as long here" in page


def test_the_performance_page_agrees_with_how_cost_grows():
    found = json.loads((ROOT / "benchmarks/results/growth.json").read_text())["rounds"]
    base = found[0] | {"ms": None}
    table = rows_of("docs/performance.md", "| changed | ms a round |")
    names = {
        "clients": "clients", "the same": "clients", "clients a round": "cohort", "steps": "steps",
        "first hidden units": "hidden", "configurations": "configurations",
    }  # fmt: skip
    printed = {}
    for changed, ms, *_ in table:
        evaluated = changed.startswith("the same")
        name = names["the same" if evaluated else re.sub(r"^[\d, ]+", "", changed)]
        measured = [
            r["ms"] for r in found
            if r | {name: base[name], "ms": None} == base | {"evaluated": evaluated}
        ]  # fmt: skip
        measured.sort()
        printed[changed] = [float(n) for n in ms.split(", ")]
        rounded = [round(v, 1) if v < 100 and not evaluated else round(v) for v in measured]
        assert sorted(printed[changed]) == rounded, changed
    assert len(printed) == 6
