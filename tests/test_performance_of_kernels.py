"""Figures about kernels and what bounds models on a GPU are those of benchmarks/results."""

import pytest

from support.gpu_times import shown_times, times
from support.pages import read_results, read_rounds, rows_of, shown, words_of

PAGE = "docs/performance.md"


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
