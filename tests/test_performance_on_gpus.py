"""Figures about GPUs on docs/performance.md are those of benchmarks/results."""

import importlib

import pytest

from support.commands import ROOT
from support.pages import read_results, read_rounds, rows_of, shown, words_of

PAGE = "docs/performance.md"


def times(framework, *, session=""):
    """Milliseconds a round of maxfl or torch, by model, cohort and what else tells cases apart.

    Of session E, or of the earlier one that is named, as "-d".
    """
    name = "torch" if framework == "torch" else "models"
    return {
        (r.get("label", r["model"]), r["cohort"], *(r[k] for k in ("variant",) if k in r)): r[
            "ms_a_round"
        ]
        for r in read_rounds(f"{name}{session}-gpu")
        if "ms_a_round" in r
    }


def shown_times(framework):
    """The same as the page shows them: with earlier ones of what was not measured in session E."""
    found, session = times(framework), "-a" if framework == "torch" else "-d"
    known = {model for model, *_ in found}
    earlier = times(framework, session=session).items()
    shown = ("resnet by windows",) if framework == "torch" else ("logistic", "lstm")
    return {case: ms for case, ms in earlier if case[0] in shown and case[0] not in known} | found


def test_the_performance_page_agrees_with_sweeps_on_a_gpu():
    rows = read_rounds("sweeps-later-gpu")
    found = {(r["model"], r["method"], r["configurations"]): r for r in rows}
    names = {
        "FedAvg": ("mlp", "fedavg"),
        "MaxFL": ("mlp", "maxfl"),
    }
    rows = rows_of(PAGE, "| | 1 configuration |")
    assert [name for name, *_ in rows] == list(names)
    for name, *cells in rows:
        times = [found.get((*names[name], size)) for size in (1, 64, 1000)]
        assert cells == [f"{row['ms_a_round']:.3f}" if row else "" for row in times]


def test_the_performance_page_agrees_with_what_was_measured_without_kernels():
    before = {(r["label"], r["cohort"]): r["ms_a_round"] for r in read_rounds("no-kernels-gpu")}
    rounds = {
        (r["label"] in ("logistic", "mlp"), r["rounds"]) for r in read_rounds("no-kernels-gpu")
    }
    assert rounds == {(True, 50), (False, 10)}
    assert "blocks of 50 rounds for the MLP and 10 for the others" in words_of(PAGE)
    now = shown_times("maxfl")
    rows = rows_of(PAGE, "| ms a round | XLA alone |")
    with_kernels = "mlp", "cnn", "cnn-leaf", "resnet", "transformer"
    assert rows == [
        [f"{label}, {cohort} clients", shown(ms), shown(now[label, cohort])]
        for (label, cohort), ms in before.items()
        if label in with_kernels
    ]
    words = words_of(PAGE)
    others = [now[case] / ms for case, ms in before.items() if case[0] == "lstm"]
    percent = 100 * max(abs(ratio - 1) for ratio in others)
    assert f"it differs by up to {percent:.0f} % between" in words  # only the card differs
    alone, at_once = (r["ms_a_round"] for r in read_rounds("sweeps-gpu") if r["model"] == "cnn")
    cheaper = f"where one alone takes {alone:.2f} ({alone / at_once:.1f} times; in session E"
    assert f"Each of 64 CNNs takes {at_once:.2f} ms {cheaper}, one takes" in words
    assert at_once > alone / 4, "a target that is called missed"
    share, each = now["cnn", 100] / now["cnn", 10] / 10, (now["cnn", c] / c for c in (100, 10))
    assert f"one takes {now['cnn', 10]:.2f}; the sweep" in words
    assert f"with ten times as many, a client takes {share:.2f} of the time" in words
    assert "({:.3f} and {:.3f} ms)".format(*each) in words


def best_times(*, session=""):
    """PyTorch's in its fastest variant, by model and cohort."""
    found = {}
    for (model, cohort, _), ms in times("torch", session=session).items():
        case = model.split(" by ")[0], cohort
        found[case] = min(found.get(case, ms), ms)
    return found


def of_all_sessions():
    """The same of every session, by model and cohort."""
    sessions = [best_times(session=session) for session in ("", "-d", "-c")]
    first = {case: ms for case, ms in best_times(session="-a").items() if case[0] == "resnet"}
    return {
        case: [each[case] for each in (*sessions, first) if case in each] for case in sessions[0]
    }


def test_what_differs_between_sessions_is_of_their_files():
    words, now, before = words_of(PAGE), times("maxfl"), times("maxfl", session="-d")
    off = [
        r["ms_taken_off"] / (r["rounds"] * r["ms_a_round"] + r["ms_taken_off"])
        for name in ("models-gpu", "models-d-gpu")
        for r in read_rounds(name)
    ]
    assert f"at most {100 * max(off):.0f} % of a block." in words
    cnn, resnet = (
        [100 * (1 - now[model, c] / before[model, c]) for c in (10, 100)]
        for model in ("cnn", "resnet")
    )
    assert f"the CNN takes {cnn[0]:.0f} % less time in session E than in session D" in words
    assert f"and {cnn[1]:.0f} % less with 100 clients" in words
    (alike,) = {round(less) for less in resnet}
    assert f"one of the ResNet takes {alike} % less" in words
    theirs = {case: sorted(each) for case, each in of_all_sessions().items()}
    varies = {case: 100 * (each[-1] / each[0] - 1) for case, each in theirs.items()}
    few, many = theirs["mlp", 10], theirs["mlp", 100]
    assert (
        f"by {varies['mlp', 10]:.0f} % with 10 clients ({few[0]:.2f} to {few[-1]:.2f} ms) and by "
        f"{varies['mlp', 100]:.0f} % with 100 ({many[0]:.2f} to {many[-1]:.2f})"
    ) in words
    others = max(varies[model, c] for model in ("cnn", "transformer") for c in (10, 100))
    assert f"the CNN and the transformer by at most {others:.0f} %" in words
    resnet = max(varies["resnet", c] for c in (10, 100))
    assert f"for the ResNet, which session A compiled less of, by {resnet:.0f} %" in words
    least = [
        "{:.2f} and {:.2f}".format(*(theirs[model, c][0] / now[model, c] for c in (10, 100)))
        for model in ("mlp", "cnn", "resnet", "transformer")
    ]
    assert (
        "maxfl would reach {} for the MLP, {} for the CNN, {} for the ResNet and {} for the"
    ).format(*least) in words
    windows, compiled = times("torch", session="-a"), "vmap, torch.compile, CUDA graph"
    for cohort in (10, 100):
        of_windows = windows["resnet by windows", cohort, compiled]
        assert of_windows > windows["resnet", cohort, compiled]


def test_what_is_compared_on_a_gpu_was_measured_on_one_card():
    sessions = {
        "E": ("torch-gpu", "models-gpu"),
        "D": ("torch-d-gpu", "models-d-gpu"),
        "C": ("torch-c-gpu",),
        "B": ("sweeps-later-gpu",),
        "A": ("torch-a-gpu", "sweeps-gpu", "kernels-gpu", "profiles-gpu"),
    }
    rows = {session: card for session, card, _ in rows_of(PAGE, "| session | card |")}
    assert list(rows) == list(sessions)
    for session, names in sessions.items():
        ((_, card),) = {(read_results(n)["date"], read_results(n)["card"]) for n in names}
        assert card == rows[session]


def test_targets_on_a_gpu_are_of_the_results():
    """A target is reached narrowly by less than what the model's time in PyTorch varies by."""
    ours, theirs, sessions = times("maxfl"), best_times(), of_all_sessions()
    rows = rows_of(PAGE, "| target: times PyTorch's")
    targets = [target.split(": ") for target, *_ in rows]
    assert targets == [["mlp", "3"], ["cnn", "3"], ["resnet", "2"], ["transformer", "2"]]
    whole = {  # with nothing taken off
        (r["label"], r["cohort"]): r["ms_a_round"] + r["ms_taken_off"] / r["rounds"]
        for r in read_rounds("models-gpu")
    }
    for (model, least), (_, *cells) in zip(targets, rows, strict=True):
        both = [(model, cohort) for cohort in (10, 100)]
        varies = max(max(sessions[case]) / min(sessions[case]) for case in both)
        ratios = [theirs[case] / ours[case] for case in both]
        for case, ratio, cell in zip(both, ratios, cells, strict=True):
            verdict = "reached" if ratio > varies * int(least) else "reached narrowly"
            assert cell == f"{ratio:.2f}, {verdict if ratio >= int(least) else 'missed'}"
            with_evaluation = theirs[case] / whole[case]
            if (with_evaluation >= int(least)) != (ratio >= int(least)):
                assert case == ("mlp", 100)
                words = words_of(PAGE)
                assert f"the MLP with 100 clients would reach {with_evaluation:.2f}" in words


def test_layers_of_kernels_are_those_measured_and_as_exact_as_those_of_xla():
    layers = read_results("kernels-gpu")["layers"]
    rows = rows_of(PAGE, "| µs; XLA and kernels |")
    assert rows == [
        [layer["layer"], *(f"{us['xla']:,.0f} and {us['kernels']:,.0f}" for us in each.values())]
        for layer in layers
        for each in [layer["us"]]
    ]
    assert "which has no products, is exact to 2e-7" in words_of(PAGE)
    faster = [
        layer["layer"] for layer in layers
        if all(us["xla"] > 2 * us["kernels"] for us in layer["us"].values())
    ]  # fmt: skip
    assert faster == ["convolution: 16 channels", "attention: 80 positions, 32 features"]
    of_100 = [
        row["layer"] for row in layers if row["us"]["100"]["xla"] > 2 * row["us"]["100"]["kernels"]
    ]
    assert set(of_100) - set(faster) == {
        "convolution: 64 channels", "attention: 128 positions, 32 features",
    }  # fmt: skip
    assert "Convolutions of 16 channels and attention of 80 positions are." in words_of(PAGE)
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
    before, now = (
        {(r["method"], r["configurations"]): r["ms_a_round"] for r in read_rounds(name)}
        for name in ("sweeps-gpu", "sweeps-later-gpu")
    )
    words = words_of(PAGE)
    assert f"at 4.8 TB/s, that alone takes {bound:.3f} ms a round" in words
    assert "Each of a thousand MLPs takes less than the 0.040 ms that were the target" in words
    assert f"step by step it took {before['fedavg', 1000]:.3f}" in words
    assert max(now["fedavg", 1000], now["maxfl", 1000]) < 0.040


def test_most_weights_of_leafs_cnn_are_in_a_dense_layer():
    (parameters,) = {r["parameters"] for r in read_rounds("models-gpu") if r["label"] == "cnn-leaf"}
    dense = 7 * 7 * 64 * 2048
    text = f"{dense / 1e6:.1f} of its {parameters / 1e6:.1f} million weights"
    assert text in words_of(PAGE)


def test_what_bounds_models_on_a_gpu_is_of_their_profiles():
    now, later, earlier, of_cnn = (
        {(p["label"], p["cohort"]): p for p in read_results(f"profiles{name}-gpu")["profiles"]}
        for name in ("", "-later", "-earlier", "-cnn")
    )
    profiles = later | of_cnn | {
        ("transformer", 10): earlier["transformer", 10], ("resnet", 10): now["resnet", 10],
    }  # fmt: skip
    measured, words = times("maxfl"), words_of(PAGE)
    kernels = now["resnet", 10]["longest"]  # of a step that took longer than today's
    measured["resnet", 10] = sum(k["us_a_step"] for k in kernels if k["a_step"] >= 1) * 20 / 1000

    def share(case, *names, least=1.0):
        """Return the share of a step that kernels of these names take, of those not evaluating.

        A name between = is a whole one, others are a part of it.
        """
        kernels = [k for k in profiles[case]["longest"] if k["a_step"] >= least]
        named = sum(
            k["us_a_step"] for k in kernels if any(name in f"={k['kernel']}=" for name in names)
        )
        return named / (1000 * measured[case] / 20)

    launch, products, gathering = (
        {c: share(("mlp", c), *names, least=1 / 20) for c in (10, 100)}
        for names in (("_kernel",), ("gemm", "nvjet"), ("loop_convert_fusion_3",))
    )
    launches = next(k for k in later["mlp", 10]["longest"] if k["kernel"] == "_kernel")["a_step"]
    assert round(20 * launches) == 2
    assert (
        f"by two launches, one a group of steps, that take {100 * launch[10]:.0f} % of a round"
    ) in words
    assert (
        f"With 100 clients they take {100 * launch[100]:.0f} %, the large products "
        f"{100 * products[100]:.0f} % and gathering minibatches {100 * gathering[100]:.0f} %"
    ) in words
    fewer = profiles["mlp", 10]["kernels_a_step"] / now["mlp", 10]["kernels_a_step"]
    single = "of the kernels that it had with single steps"
    assert f"a block of rounds has {100 * fewer:.0f} % {single}" in words
    second, scaling, first, dense = (
        [round(100 * sum(share(("cnn", cohort), name) for name in names)) for cohort in (10, 100)]
        for names in (
            ("=_product_kernel=", "=_sum_kernel=", "=_pooling_kernel="),
            ("_largest", "_rounding", "_measuring", "_spreading"),
            ("_patch_pooling_kernel", "_sum_kernel__1"),
            ("gemm",),
        )
    )
    assert (
        f"of its second convolution take {second[0]} % of a step (with 100 clients {second[1]} %), "
        f"the scaling and rounding of their factors {scaling[0]} % ({scaling[1]} %), the first "
        f"convolution {first[0]} % ({first[1]} %) and the products of the dense layers {dense[0]} "
        f"% ({dense[1]} %)"
    ) in words
    by_patches, by_windows = (
        next(k["us_a_step"] for k in each["cnn", 100]["longest"] if k["kernel"] == "_sum_kernel__1")
        for each in (later, of_cnn)
    )
    assert f"takes {by_windows:.0f} µs a step so, and took {by_patches:.0f} by patches" in words
    assert share(("resnet", 10), "_product_kernel", "_sum_kernel") == pytest.approx(5 / 8, abs=0.02)
    normalisation = share(("resnet", 10), "_normalising_kernel", "_gradient_kernel")
    assert normalisation == pytest.approx(1 / 4, abs=0.04)
    assert "its convolutions, five eighths of its kernels' time, and by normalisation, a" in words
    large = share(("transformer", 10), "gemm", "sm90")
    assert share(("transformer", 10), "_mixing") == pytest.approx(1 / 7, abs=0.01)
    text = f"matrix products take {100 * large:.0f} % of a step, and attention a seventh"
    assert text in words
    longer = share(("transformer", 10), "")
    assert f"add up to {longer:.2f} times the time given here" in words
    theirs = min(ms for case, ms in shown_times("torch").items() if case[:2] == ("transformer", 10))
    corrected = theirs / (measured["transformer", 10] * longer)
    assert f"with that time, the factor would be {corrected:.2f} instead" in words


def test_the_share_of_the_tensor_cores_speed_is_counted():
    ours = {model: ms for (model, cohort), ms in shown_times("maxfl").items() if cohort == 100}
    words, width, length = words_of(PAGE), 128, 80

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


def test_memory_on_a_gpu_is_predicted_to_within_a_half():
    rows = read_results("memory-gpu")["rows"]
    shares = [row["used"] / row["predicted"] for row in rows]
    assert all(1 / 1.5 < share < 1.5 for share in shares)
    words = words_of(PAGE)
    ratios = f"{1 / max(shares):.3f} to {1 / min(shares):.2f} times"
    assert f"are {ratios} what the {len(rows)} cases of the models" in words
    (now,) = (row for row in rows if row["case"] == "mlp, 100 clients")
    used = f"used {now['used']:.2f} GiB, it predicts {now['predicted']:.2f}"
    assert used in words
    step_by_step, at_once = (
        [r["peak_gib"] for r in read_rounds(name) if r["configurations"] == 1000]
        for name in ("sweeps-gpu", "sweeps-later-gpu")
    )
    assert f"A thousand MLPs used {max(at_once):.1f} GiB in session B" in words
    assert "(step by step, {:.1f}, and {:.1f} with MaxFL)".format(*step_by_step) in words


@pytest.mark.slow
def test_recorded_predictions_of_memory_are_those_of_this_code(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    memory = importlib.import_module("memory")
    rows = read_results("memory-gpu")["rows"]
    assert [(r["case"], r["used"]) for r in rows] == [(c.name, c.used) for c in memory.comparable()]
    names = "mlp, 10 clients", "cnn, 100 clients", "transformer, 10 clients"
    recorded = {row["case"]: row["predicted"] for row in rows if row["case"] in names}
    found = {one.case: one.predicted for one in memory.predictions(*names)}
    assert found == pytest.approx(recorded, rel=1e-3), "run python benchmarks/memory.py"


def test_the_performance_page_agrees_with_precisions():
    found = read_results("precisions")
    words = words_of(PAGE)
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
    maxfl, torch = shown_times("maxfl"), shown_times("torch")
    found = "PyTorch {}, JAX {}".format(
        *(
            read_results(f"{name}-gpu")[framework].split("+")[0]
            for name, framework in (("torch", "torch"), ("models", "jax"))
        )
    )
    assert found in words_of(PAGE)
    assert read_results("torch-a-gpu")["torch"] == read_results("torch-gpu")["torch"]
    variants = [
        "one by one", "one by one, CUDA graph", "vmap", "vmap, CUDA graph",
        "vmap, torch.compile, CUDA graph",
    ]  # fmt: skip
    windows = {
        (f"{model} by windows{how}", cohort): ms
        for (model, cohort), ms in maxfl.items()
        for how in ("", ", channels last")
    }
    expected = {
        f"{case[0]}, {case[1]} clients": [shown(ours) if case in maxfl else "", *printed]
        for case, ours in (maxfl | windows).items()
        for theirs in [[torch.get((*case, variant)) for variant in variants]]
        for printed in [[f"{shown(ms)} ({ms / ours:.1f})" if ms else "" for ms in theirs]]
        if case in maxfl or any(theirs)
    }
    rows = rows_of(PAGE, "| ms a round (of maxfl's) |")
    assert {name: cells for name, *cells in rows} == expected
    assert len(rows) == len(expected)


def test_the_performance_page_agrees_with_adapters():
    lora = read_results("lora")["rows"][0]
    words = words_of(PAGE)
    assert f"{lora['frozen'] / 1e6:.1f} million frozen" in words
    assert f"{lora['trained'] / 1e6:.1f} million trained" in words
    assert f"took {lora['peak'] / 1e9:.2f} GB" in words
    assert f"{lora['bytes_of_100_bases'] / 1e9:.1f} GB" in words
    assert (lora["clients_at_once"], lora["batch"], lora["length"]) == (100, 1, 16)
    assert "100 clients at once, minibatches of one sequence of 16 tokens" in words
