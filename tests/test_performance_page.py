"""The figures of docs/performance.md are those of benchmarks/results."""

import importlib
import json
import re
import runpy

import pytest

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


def read_rounds(name):
    return json.loads((ROOT / f"benchmarks/results/{name}.json").read_text())["rounds"]


def performance_words():
    return " ".join((ROOT / "docs/performance.md").read_text(encoding="utf-8").split())


def test_the_performance_page_agrees_with_sweeps_on_a_gpu():
    found = {(r["model"], r["method"], r["configurations"]): r for r in read_rounds("sweeps-gpu")}
    names = {
        "FedAvg": ("mlp", "fedavg"),
        "MaxFL": ("mlp", "maxfl"),
    }
    rows = rows_of("docs/performance.md", "| | 1 configuration |")
    assert [name for name, *_ in rows] == list(names)
    for name, *cells in rows:
        times = [found.get((*names[name], size)) for size in (1, 64, 1000)]
        assert cells == [f"{row['ms_a_round']:.3f}" if row else "" for row in times]


def test_the_performance_page_agrees_with_what_was_measured_without_kernels():
    before = {(r["label"], r["cohort"]): r["ms_a_round"] for r in read_rounds("no-kernels-gpu")}
    now = {(r["label"], r["cohort"]): r["ms_a_round"] for r in read_rounds("models-gpu")}
    rows = rows_of("docs/performance.md", "| ms a round | XLA alone |")
    with_kernels = "cnn", "cnn-leaf", "resnet", "transformer"
    assert rows == [
        [f"{label}, {cohort} clients", shown(ms), shown(now[label, cohort])]
        for (label, cohort), ms in before.items()
        if label in with_kernels
    ]
    for case in (case for case in before if case[0] not in with_kernels):
        assert now[case] == pytest.approx(before[case], rel=0.05)  # nothing else differs
    words = performance_words()
    alone, at_once = (r["ms_a_round"] for r in read_rounds("sweeps-gpu") if r["model"] == "cnn")
    assert f"Each of 64 CNNs takes {at_once:.2f} ms where one alone takes {alone:.2f}" in words
    assert at_once > alone / 4, "a target that is called missed"
    share = now["cnn", 100] / now["cnn", 10] / 10
    assert f"each client takes {share:.2f} of what it takes with ten" in words


def test_targets_on_a_gpu_are_of_the_results():
    ours = {(r["label"], r["cohort"]): r["ms_a_round"] for r in read_rounds("models-gpu")}
    theirs = {}
    for r in read_rounds("torch-gpu"):
        case = r["model"], r["cohort"]
        theirs[case] = min(theirs.get(case, float("inf")), r.get("ms_a_round", float("inf")))
    rows = rows_of("docs/performance.md", "| target: times PyTorch's")
    targets = [target.split(": ") for target, *_ in rows]
    assert targets == [["mlp", "3"], ["cnn", "3"], ["resnet", "2"], ["transformer", "2"]]
    for (model, least), (_, *cells, verdict) in zip(targets, rows, strict=True):
        times = [theirs[model, cohort] / ours[model, cohort] for cohort in (10, 100)]
        assert cells == [f"{ratio:.2f}" for ratio in times]
        assert verdict.split(",")[0] == ("reached" if min(times) >= float(least) else "missed")


def test_layers_of_kernels_are_those_measured_and_as_exact_as_those_of_xla():
    layers = json.loads((ROOT / "benchmarks/results/kernels-gpu.json").read_text())["layers"]
    rows = rows_of("docs/performance.md", "| µs; XLA and kernels |")
    assert rows == [
        [layer["layer"], *(f"{us['xla']:,.0f} and {us['kernels']:,.0f}" for us in each.values())]
        for layer in layers
        for each in [layer["us"]]
    ]
    assert "which has no products, is exact to 2e-7" in performance_words()
    faster = [
        layer["layer"] for layer in layers
        if all(us["xla"] > 2 * us["kernels"] for us in layer["us"].values())
    ]  # fmt: skip
    assert faster == ["convolution: 16 channels", "attention: 80 positions, 32 features"]
    assert "Convolutions of 16 channels and attention of 80 positions are" in performance_words()
    for layer in layers:
        assert layer["keeps_nan"]
        ours, theirs = layer["error"]["kernels"], layer["error"]["xla"]
        if layer["layer"].startswith("normalisation"):
            assert ours < 2e-7
        else:
            assert ours == pytest.approx(theirs, rel=1e-3)


def test_what_bounds_a_thousand_mlps_is_counted():
    inputs, first, second, classes, batch, clients, steps = 784, 64, 30, 10, 32, 5, 30
    weights = (inputs + 1) * first + (first + 1) * second + (second + 1) * classes
    passed = 4 * 3 * (weights + batch * inputs) * clients * steps
    bound = 1000 * passed / 4.8e12
    found = {(r["method"], r["configurations"]): r["ms_a_round"] for r in read_rounds("sweeps-gpu")}
    words = performance_words()
    share = bound / found["fedavg", 1000]
    assert f"at 4.8 TB/s, {bound:.3f} ms a round, {share:.2f} of the time that it takes" in words
    assert f"The target allowed for {bound / 0.040:.2f}" in words
    assert found["fedavg", 1000] > 0.040, "a target that is called missed"


def test_most_weights_of_leafs_cnn_are_in_a_dense_layer():
    (parameters,) = {r["parameters"] for r in read_rounds("models-gpu") if r["label"] == "cnn-leaf"}
    dense = 7 * 7 * 64 * 2048
    text = f"{dense / 1e6:.1f} of its {parameters / 1e6:.1f} million weights"
    assert text in performance_words()


def test_what_bounds_models_on_a_gpu_is_of_their_profiles():
    found = json.loads((ROOT / "benchmarks/results/profiles-gpu.json").read_text())["profiles"]
    profiles = {(p["label"], p["cohort"]): p for p in found}
    words = performance_words()

    def step(case):
        """Return the microseconds of a step."""
        return 1000 * profiles[case]["ms_a_round"] / 20

    def share(case, *names):
        """Return the share of a step that kernels of these names take, of those not evaluating."""
        kernels = [k for k in profiles[case]["longest"] if k["a_step"] >= 1]
        named = sum(k["us_a_step"] for k in kernels if any(n in k["kernel"] for n in names))
        return named / step(case)

    of_a_step = [k for k in profiles["mlp", 10]["longest"] if k["a_step"] >= 1]
    assert f"a step is {sum(k['a_step'] for k in of_a_step):.0f} kernels of 1 to 3 µs each" in words
    assert {round(k["us_a_step"]) for k in of_a_step} == {1, 2, 3}
    assert sum("gemm" in k["kernel"] for k in of_a_step) == 8
    assert "of which eight are matrix products" in words
    second = ["_product_kernel", "_sum_kernel", "_pooling_kernel__1"]
    longest = profiles["cnn", 10]["longest"][:3]
    assert [k["kernel"] for k in longest] == second
    assert sum(k["us_a_step"] for k in longest) / step(("cnn", 10)) == pytest.approx(
        1 / 2, abs=0.05
    )
    assert "second convolution, whose three products take half of a step" in words
    products = share(("resnet", 10), "_product_kernel", "_sum_kernel")
    assert products == pytest.approx(2 / 3, abs=0.04)
    normalisation = share(("resnet", 10), "_normalising_kernel", "_gradient_kernel")
    assert normalisation == pytest.approx(1 / 4, abs=0.04)
    assert "its convolutions, two thirds of a step" in words
    assert "by normalisation, a quarter" in words
    for cohort, attention in ((10, 1 / 8), (100, 1 / 7)):
        assert share(("transformer", cohort), "gemm") == pytest.approx(0.4, abs=0.04)
        assert share(("transformer", cohort), "_mixing") == pytest.approx(attention, abs=0.01)
    assert "four tenths of a step are matrix products" in words
    assert "attention takes an eighth to a seventh" in words


def test_the_share_of_the_tensor_cores_speed_is_counted():
    ours = {r["label"]: r["ms_a_round"] for r in read_rounds("models-gpu") if r["cohort"] == 100}
    words, width, length = performance_words(), 128, 80

    def convolution(pixels, inputs, outputs, number=1):
        return number * 9 * pixels * inputs * outputs

    first = {"cnn": convolution(26**2, 1, 32), "resnet": convolution(32**2, 3, 16)}
    cnn = first["cnn"] + convolution(11**2, 32, 64) + 1600 * 128 + 128 * 62
    resnet = (
        first["resnet"] + convolution(32**2, 16, 16, 6)
        + convolution(16**2, 16, 32) + convolution(16**2, 32, 32, 5)
        + convolution(8**2, 32, 64) + convolution(8**2, 64, 64, 5) + 64 * 62
    )  # fmt: skip
    layer = length * width * (3 + 1 + 4 + 4) * width + 2 * length**2 * width
    transformer = 2 * layer + length * width * 80
    for name, forward, text in (
        ("cnn", cnn, "the products of the CNN reach {} %"),
        ("resnet", resnet, "those of the ResNet {} %"),
        ("transformer", transformer, "those of the transformer {} %"),
    ):
        # Two gradients, each as many as forward; none of the images.
        operations = 2 * (3 * forward - first.get(name, 0)) * 100 * 20 * 20
        assert text.format(f"{operations / ours[name] / 1e9 / 495 * 100:.0f}") in words


def test_what_was_measured_on_one_day_and_card_was():
    names = "torch", "models", "no-kernels", "sweeps", "profiles", "kernels"
    files = [json.loads((ROOT / f"benchmarks/results/{n}-gpu.json").read_text()) for n in names]
    assert len({(found["date"], found["card"]) for found in files}) == 1


def test_the_readmes_table_of_speed_is_of_the_results():
    filled = runpy.run_path(str(ROOT / "scripts/fill_speed_table.py"))["filled"]
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert filled(page) == page, "run python scripts/fill_speed_table.py"


def test_the_seconds_of_the_demo_are_those_measured():
    seconds = json.loads((ROOT / "benchmarks/results/demo.json").read_text())["seconds"]
    rows = rows_of("docs/performance.md", "| part of make demo |")
    assert {part: int(s) for part, s in rows} == seconds
    assert (
        f"takes {sum(seconds.values())} s with the installation (target: 80)" in performance_words()
    )
    assert sum(seconds.values()) <= 80


def test_the_page_of_frameworks_has_the_peers_record():
    workloads = json.loads((ROOT / "benchmarks/results/peers.json").read_text())["workloads"]

    def spread(peer):
        times = [w["peers"][peer]["ms"] / w["peers"]["maxfl"]["ms"] for w in workloads.values()]
        return f"{min(times):.1f} to {max(times):.1f}"

    ((_, ours, *others),) = rows_of("docs/frameworks.md", "| | maxfl | Flower's simulation |")[-1:]
    assert ours == "1"
    assert others[:3] == [spread(peer) for peer in ("flower", "fedjax", "pfl")]


def test_what_was_aimed_at_and_missed_is_of_the_peers_record():
    found = json.loads((ROOT / "benchmarks/results/peers.json").read_text())

    def times(workload, peer):
        peers = found["workloads"][workload]["peers"]
        return peers[peer]["ms"] / peers["maxfl"]["ms"]

    cnn, unequal, flower, compiled = rows_of("docs/performance.md", "| target | reached |")
    assert cnn[1] == f"{times('cnn', 'numpy'):.2f}"
    assert unequal[1] == f"{times('unequal', 'numpy'):.2f}"
    assert flower[1] == f"{times('mlp', 'flower'):.1f}"
    assert f"{times('mlp', 'numpy'):.2f} times as slow as maxfl" in flower[2]
    cold, cached = found["compile_seconds"].values()
    assert compiled[1] == f"{cold:.1f}, {cached:.1f}"
    assert times("cnn", "numpy") < 1.5
    assert times("unequal", "numpy") < 1.3
    assert times("mlp", "flower") < 10
    assert cold > 6
    assert cached > 1.5
    rounds = {
        workload: found["workloads"][workload]["peers"]["maxfl"]["ms"]
        for workload in ("mlp", "unequal")
    }
    assert 1 - rounds["mlp"] / rounds["unequal"] == pytest.approx(7 / 8, abs=0.02)
    assert "seven eighths of it is evaluation" in unequal[2]


def test_the_pass_that_was_disturbed_is_named():
    workloads = json.loads((ROOT / "benchmarks/results/peers.json").read_text())["workloads"]
    peers = workloads["mlp"]["peers"]
    ours, theirs = (max(peers[name]["passes"]) for name in ("maxfl", "torch"))
    assert f"maxfl took {ours:.1f} ms and PyTorch {theirs:.0f}" in performance_words()
    disturbed = [
        (workload, name)
        for workload, each in workloads.items()
        for name, peer in each["peers"].items()
        if max(peer["passes"]) > 1.15 * min(peer["passes"])
    ]
    assert disturbed == [("mlp", "maxfl"), ("mlp", "torch")]


def test_memory_on_a_gpu_is_predicted_to_within_a_half():
    rows = json.loads((ROOT / "benchmarks/results/memory-gpu.json").read_text())["rows"]
    shares = [row["used"] / row["predicted"] for row in rows]
    assert all(1 / 1.5 < share < 1.5 for share in shares)
    words = performance_words()
    assert f"The {len(rows)} recorded cases" in words
    assert f"between {min(shares):.2f} and {max(shares):.2f} times what is predicted" in words
    found = {row["case"]: row for row in rows}
    fedavg, maxfl = (found[f"mlp, {m}, 1000 configurations"] for m in ("fedavg", "maxfl"))
    assert (
        f"{fedavg['predicted']:.1f} GiB for a thousand configurations of FedAvg where "
        f"{fedavg['used']:.1f} were used, {maxfl['predicted']:.1f} of MaxFL where "
        f"{maxfl['used']:.1f} were"
    ) in words


@pytest.mark.slow
def test_recorded_predictions_of_memory_are_those_of_this_code(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    predictions = importlib.import_module("memory").predictions
    rows = json.loads((ROOT / "benchmarks/results/memory-gpu.json").read_text())["rows"]
    names = "mlp, 10 clients", "cnn, 100 clients", "mlp, maxfl, 64 configurations"
    recorded = {row["case"]: row["predicted"] for row in rows if row["case"] in names}
    found = {memory.case: memory.predicted for memory in predictions(*names)}
    assert found == pytest.approx(recorded, rel=1e-3), "run python benchmarks/memory.py"


def test_the_performance_page_agrees_with_precisions():
    found = json.loads((ROOT / "benchmarks/results/precisions.json").read_text())
    words = performance_words()
    thousand = {
        r["precision"]: r["ms_a_round"] for r in found["rounds"]
        if r["configurations"] == 1000 and r.get("method", "FedAvg") == "FedAvg"
    }  # fmt: skip
    half, full = (thousand[p] / thousand["platform"] for p in ("bfloat16", "float32"))
    assert f"{half:.2f} times as long in bfloat16 and {full:.2f} times in float32" in words
    wide = {(r["precision"], r["configurations"]): r["ms_a_round"] for r in found["wide"]}
    for size, text in (
        (1, "one configuration takes {:.1f} ms a round in TF32, {:.1f} in bfloat16 and {:.1f}"),
        (32, "of 32 at once each takes {:.1f}, {:.1f} and {:.1f}"),
    ):
        ms = [wide[p, size] for p in ("platform", "bfloat16", "float32")]
        assert text.format(*ms) in words
    for run in found["appeal"]:
        (appeal, spread), (accuracy, spread_of_it) = run["gm_appeal"], run["test_accuracy"]
        cells = f"{appeal:.3f} ± {spread:.3f} | {100 * accuracy:.1f} ± {100 * spread_of_it:.1f} |"
        assert cells in words, run["precision"]


def test_the_performance_page_agrees_with_models_on_a_gpu_beside_pytorch():
    maxfl = {(r["label"], r["cohort"]): r["ms_a_round"] for r in read_rounds("models-gpu")}
    torch = {
        (r["model"], r["cohort"], r["variant"]): r["ms_a_round"]
        for r in read_rounds("torch-gpu") if "ms_a_round" in r
    }  # fmt: skip
    versions = [
        json.loads((ROOT / f"benchmarks/results/{name}.json").read_text())[framework].split("+")[0]
        for name, framework in (("torch-gpu", "torch"), ("models-gpu", "jax"))
    ]
    assert "PyTorch {}, JAX {}".format(*versions) in performance_words()
    variants = [
        "one by one", "one by one, CUDA graph", "vmap", "vmap, CUDA graph",
        "vmap, torch.compile, CUDA graph",
    ]  # fmt: skip
    rows = rows_of("docs/performance.md", "| ms a round (of maxfl's) |")
    assert [name for name, *_ in rows] == [f"{model}, {cohort} clients" for model, cohort in maxfl]
    for (case, ours), (_, *cells) in zip(maxfl.items(), rows, strict=True):
        times = [torch.get((*case, variant)) for variant in variants]
        printed = [f"{shown(ms)} ({ms / ours:.1f})" if ms else "" for ms in times]
        assert cells == [shown(ours), *printed], case


def shown(ms):
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:.1f}" if ms >= 10 else f"{ms:.2f}"


def test_the_performance_page_agrees_with_adapters():
    lora = json.loads((ROOT / "benchmarks/results/lora.json").read_text())["rows"][0]
    words = performance_words()
    assert f"{lora['frozen'] / 1e6:.1f} million frozen" in words
    assert f"{lora['trained'] / 1e6:.1f} million trained" in words
    assert f"took {lora['peak'] / 1e9:.2f} GB" in words
    assert f"{lora['bytes_of_100_bases'] / 1e9:.1f} GB" in words
    assert (lora["clients_at_once"], lora["batch"], lora["length"]) == (100, 1, 16)
    assert "100 clients at once, minibatches of one sequence of 16 tokens" in words


def test_a_round_takes_as_long_at_the_end_of_a_long_run():
    found = json.loads((ROOT / "benchmarks/results/long_run.json").read_text())
    later = found["seconds"][1:]
    words = f"{found['rounds']:,} rounds of a tiny federation"
    assert words in performance_words()
    assert f"take {min(later):.1f} to {max(later):.1f} s a thousand after the first" in (
        performance_words()
    )


def test_the_performance_page_agrees_with_the_models_on_two_cores():
    measured = [r for r in read_rounds("models-cpu") if r["cohort"] == 10]
    torch = {(r["model"], r["variant"]): r["ms_a_round"] for r in read_rounds("torch-cpu")}
    printed = rows_of("docs/performance.md", "| two cores |")
    assert len(printed) == len(measured) == 8
    for (name, parameters, ours, *theirs), row in zip(printed, measured, strict=True):
        assert name.startswith(("the same with XLA", row["label"]))
        assert parameters == f"{row['parameters']:,}"
        assert ours == shown(row["ms_a_round"])
        ways = (("one by one", 1), ("one by one, one thread", 2), ("vmap", 1))
        times = [torch.get((row["label"], way), 0) / cores for way, cores in ways]
        ratios = [f"{shown(ms)} ({ms / row['ms_a_round']:.1f})" if ms else "" for ms in times]
        assert theirs == ratios


def test_the_performance_page_agrees_with_a_million_clients():
    found = json.loads((ROOT / "benchmarks/results/million.json").read_text())["rounds"]
    table = rows_of("docs/performance.md", "| ms a round; memory |")
    assert len(table) * 2 == len(found) == 6
    for case, *cells in table:
        small, large = (r for r in found if r["case"] == case)
        assert cells == [f"{r['ms']:.0f}; {r['memory_gib']:.2f} GiB" for r in (small, large)]
        sizes = f"{small['data_gib']:.1f} GiB | 1,000,000 clients, {large['data_gib']:.1f} GiB"
        assert sizes in performance_words()
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
        measured = {
            r[name]: r["ms"] for r in found
            if r | {name: base[name], "ms": None} == base | {"evaluated": evaluated}
        }  # fmt: skip
        printed[changed] = [float(n) for n in ms.split(", ")]
        in_order = [measured[size] for size in sorted(measured)]
        rounded = [round(v, 1) if v < 100 and not evaluated else round(v) for v in in_order]
        assert printed[changed] == rounded, changed
    assert len(printed) == 6
