"""Figures about kernels and what bounds models on a GPU are those of benchmarks/results."""

import pytest

from support.gpu_times import shown_times, times
from support.pages import read_results, read_rounds, rows_of, shown, words_of

PAGE = "docs/performance.md"


def test_the_performance_page_agrees_with_what_was_measured_without_kernels():
    before = {(r["label"], r["cohort"]): r["ms_a_round"] for r in read_rounds("no-kernels-gpu")}
    now = times("maxfl") | times("maxfl", session="-f")
    assert [*before.keys() - times("maxfl", session="-f").keys()] == [("transformer", 100)]
    assert [*before][-1] == ("transformer", 100), "the last row is said to be of session E"
    rows = rows_of(PAGE, "| ms a round | XLA alone |")
    assert rows == [
        [f"{label}, {cohort} clients", shown(ms), shown(ours), f"{ms / ours:.1f}"]
        for (label, cohort), ms in before.items()
        for ours in [now[label, cohort]]
    ]


def test_what_limits_a_sweep_of_cnns_is_of_the_results():
    rows = [r for r in read_rounds("sweeps-gpu") if case_of(r) == ("cnn", "fedavg")]
    (alone, at_once), words = (r["ms_a_round"] for r in rows), words_of(PAGE)
    whole = [  # with nothing taken off
        r["ms_a_round"] + r["ms_taken_off"] / r["rounds"] / r["configurations"] for r in rows
    ]
    share = 1 - at_once / whole[1]
    assert (
        f"Each takes {at_once:.2f} ms, and one alone {alone:.2f} ({alone / at_once:.1f} times; "
        f"with the evaluation, which is {100 * share:.0f} % of a block of 64 and is taken off "
        f"here, {whole[0] / whole[1]:.1f})"
    ) in words
    assert at_once > alone / 4, "a target that is called missed"
    now = times("maxfl")
    share, each = now["cnn", 100] / now["cnn", 10] / 10, (now["cnn", c] / c for c in (100, 10))
    assert f"with ten times as many, a client takes {share:.2f} of the time" in words
    assert "({:.3f} and {:.3f} ms, session E)".format(*each) in words


def case_of(row):
    """Return the model and the method of a sweep."""
    return row["model"], row["method"]


def test_layers_of_kernels_are_those_measured_and_as_exact_as_those_of_xla():
    layers = read_results("kernels-gpu")["layers"]
    rows = rows_of(PAGE, "| µs; XLA and kernels |")
    assert rows == [
        [layer["layer"], *(f"{us['xla']:,.0f} and {us['kernels']:,.0f}" for us in each.values())]
        for layer in layers
        for each in [layer["us"]]
    ]
    assert "which has no products, is exact to 2e-7" in words_of(PAGE)
    slower = {
        (layer["layer"], clients)
        for layer in layers
        for clients, us in layer["us"].items()
        if us["xla"] < 2 * us["kernels"]
    }
    normalised = {(r["layer"], c) for r in layers if "normalisation" in r["layer"] for c in r["us"]}
    assert slower - normalised == {("attention: 128 positions, 32 features", "10")}
    assert normalised < slower
    words = words_of(PAGE)
    assert (
        "and attention are, but for attention of 128 positions with 10 clients; those of" in words
    )
    for layer in layers:
        assert layer["keeps_nan"]
        ours, theirs = layer["error"]["kernels"], layer["error"]["xla"]
        if "normalisation" in layer["layer"]:
            assert ours < 2e-7
        else:
            assert ours == pytest.approx(theirs, rel=1e-3)


def test_most_weights_of_leafs_cnn_are_in_a_dense_layer():
    (parameters,) = {r["parameters"] for r in read_rounds("models-gpu") if r["label"] == "cnn-leaf"}
    dense = 7 * 7 * 64 * 2048
    text = f"{dense / 1e6:.1f} of its {parameters / 1e6:.1f} million weights"
    assert text in words_of(PAGE)


def test_what_bounds_models_on_a_gpu_is_of_their_profiles():
    profiles = {(p["label"], p["cohort"]): p for p in read_results("profiles-gpu")["profiles"]}
    measured, words = times("maxfl", session="-f"), words_of(PAGE)

    def share(case, *names, least=1.0):
        """Return the share of a step that kernels of these names take, of those not evaluating.

        A name between = is a whole one, others are a part of it.
        """
        kernels = [k for k in profiles[case]["longest"] if k["a_step"] >= least]
        named = sum(
            k["us_a_step"] for k in kernels if any(name in f"={k['kernel']}=" for name in names)
        )
        return named / (1000 * measured[case] / 20)

    def percents(model, *names, least=1.0):
        """Return shares with 10 and with 100 clients, as the page has them."""
        return [f"{100 * share((model, c), *names, least=least):.0f}" for c in (10, 100)]

    launch, products, gathering = (
        percents("mlp", *names, least=1 / 20)
        for names in (("_kernel",), ("gemm", "nvjet"), ("loop_convert_fusion_2",))
    )  # the last is XLA's name for gathering bytes as bfloat16, in these profiles
    (launches,) = (k["a_step"] for k in profiles["mlp", 10]["longest"] if k["kernel"] == "_kernel")
    assert round(20 * launches) == 2
    assert f"by two launches, one a group of steps, that take {launch[0]} % of a round" in words
    assert (
        f"With 100 clients they take {launch[1]} %, the large products {products[1]} % and "
        f"gathering minibatches {gathering[1]} %"
    ) in words
    second, scaling, first, dense = (
        percents("cnn", *names)
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
    for cohort in (10, 100):
        half = share(("resnet", cohort), "_product_kernel", "_sum_kernel")
        assert half == pytest.approx(1 / 2, abs=0.02)
    normalisation = percents("resnet", "_normalising_kernel", "_gradient_kernel")
    assert (
        "its convolutions, half of a step, and by normalisation, {} % of it with 10 clients and "
        "{} % with 100"
    ).format(*normalisation) in words
    case = "transformer", 10
    assert share(case, "_mixing") == pytest.approx(1 / 7, abs=0.01)
    large = f"matrix products take {100 * share(case, 'gemm', 'sm90'):.0f} % of a step, and"
    assert f"{large} attention a seventh" in words
    assert f"add up to {share(case, ''):.2f} times the time that it took without" in words


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
