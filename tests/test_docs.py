"""What the documents say is true."""

import csv
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from maxfl import algorithms
from maxfl.cli.terminal import spread
from maxfl.core.model_check import check_model
from maxfl.runs import tables
from support.data_files import need
from support.small import SMALL, train

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_readme_example_runs_and_is_short(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert len(code.strip().splitlines()) <= 20
    exec(compile(code, "README.md", "exec"), {})
    fedavg, maxfl = capsys.readouterr().out.strip().splitlines()
    shares = [
        [float(number) for number in re.findall(r"0?\.\d+", line)] for line in (fedavg, maxfl)
    ]
    # README says 20 to 45 % and 75 to 80 %; other machines round sums in another order.
    assert [len(by_seed) for by_seed in shares] == [3, 3]
    assert max(shares[0]) < 0.6 < min(shares[1])


def skeleton():
    """The code of a new method."""
    page = (ROOT / "docs/new-algorithm.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.S)
    return code


MODELS_PAGE = re.findall(
    r"```python\n(.*?)```", (ROOT / "docs/models.md").read_text(encoding="utf-8"), re.S
)


def of_library(block):
    return re.search(r"^(?:import|from) (flax|equinox)\b", block, re.M)


def run_models_page(blocks, train=None):
    """Run blocks of the page after its first, with another ``train`` if one is given."""
    names = {}
    exec(compile(MODELS_PAGE[0], "models.md", "exec"), names)
    names["train"] = train or names["train"]
    for block in blocks:
        assert len(block.strip().splitlines()) <= 12
        exec(compile(block, "models.md", "exec"), names)


def test_the_models_of_the_page_fit_their_data():
    own = [block for block in MODELS_PAGE[1:] if not of_library(block)]
    tried = []

    def check(data, model):
        check_model(model, data)
        tried.append(model)

    run_models_page(own, check)
    assert len(tried) == len(own) == 6


@pytest.mark.extras
@pytest.mark.parametrize(
    "block", [*filter(of_library, MODELS_PAGE)], ids=lambda b: of_library(b)[1]
)
def test_models_of_libraries_train(block):
    pytest.importorskip(of_library(block)[1])
    run_models_page([block])


@pytest.mark.parametrize("command", [["check"], ["format", "--check"]], ids=lambda words: words[0])
def test_the_skeleton_of_a_new_method_passes_ruff(command):
    ruff = [sys.executable, "-m", "ruff", *command]
    place = ["--stdin-filename", "src/maxfl/algorithms/lossweighted.py", "-"]
    done = subprocess.run(
        [*ruff, *place], input=skeleton(), capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_skeleton_of_a_new_method_runs_and_sweeps():
    names = {"__name__": "skeleton"}
    exec(compile(skeleton(), "new-algorithm.md", "exec"), names)
    history, plain = train(names["lossweighted"]((0.0, 2.0))), train(algorithms.fedavg())
    ours, theirs = history.params[0].weight, plain.params[0].weight
    np.testing.assert_allclose(ours[0], theirs[0], atol=1e-6)
    assert abs(ours[1] - theirs[0]).max() > 1e-5


def test_the_configuration_page_is_up_to_date():
    page = runpy.run_path(str(ROOT / "scripts/make_configuration_page.py"))["page"]()
    assert page == (ROOT / "docs/configuration.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", [ROOT / "CONTRIBUTING.md", *PAGES], ids=lambda path: path.name)
def test_paths_in_code_style_exist(page):
    """A path may go on after a space, as that of a script with its options."""
    folders = "src|tests|docs|scripts|benchmarks|examples"
    text = page.read_text(encoding="utf-8")
    for path in re.findall(rf"`[^`\n]*?((?<![\w/.])(?:{folders})/[\w./-]*)", text):
        assert (ROOT / path.rstrip(".")).exists(), f"{page.name} names {path}"


def test_the_functions_of_a_round_are_where_the_design_says():
    page = (ROOT / "docs/design.md").read_text(encoding="utf-8")
    section = page[page.index("## What happens in a round") :].split("\n## ")[0]
    links = re.findall(r"\[(.+?)\]\(\.\./(.+?)\)", section)
    assert len(links) > 20
    for words, path in links:
        name = words.strip("`")
        assert words == f"`{name}`", f"{words} names no function"
        assert re.search(rf"^(def|class) {name}\b", (ROOT / path).read_text(), re.M), (name, path)


def test_every_folder_is_in_the_picture_of_the_design():
    page = (ROOT / "docs/design.md").read_text(encoding="utf-8")
    picture = re.search(r"```\n(.*?)```", page, re.S)[1]
    for path in (ROOT / "src/maxfl").glob("*/__init__.py"):
        assert re.search(rf"^.*\b{path.parent.name}\b", picture, re.M), path.parent.name


def test_the_results_page_names_every_column():
    history, labels = train(algorithms.fedavg()), tables.Labels().of(1)
    sizes = SMALL.names, SMALL.train_sizes, SMALL.test_sizes
    text = (ROOT / "docs/results.md").read_text(encoding="utf-8")
    for table in (
        tables.history_table(history, [0]),
        tables.rounds_table(history, [0]),
        tables.clients_table(history, *sizes, [0]),
        tables.metrics_table(history, labels, [0]),
    ):
        for column in table.column_names:
            assert f"`{column}`" in text, column


def rows_of(page, heading):
    """Cells of the rows of the table with a heading in its first line, without ** and `."""
    text = (ROOT / page).read_text(encoding="utf-8").replace("**", "").replace("`", "")
    lines = text[text.index(heading) :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def read_csv(name):
    with (ROOT / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_readmes_table_is_the_demos():
    results = read_csv("docs/demo-results.csv")

    def cell(values, digits, **options):
        return spread(values, digits, **options).replace("\N{NO-BREAK SPACE}", " ")

    rows = rows_of("README.md", "| after 60 rounds, 5 seeds")
    assert len(rows) == 3
    for method, seen, unseen, accuracy, stalled in rows:
        runs = [r for r in results if r["method"] == method]
        assert len(runs) == 5
        assert seen == cell([float(r["appeal_seen"]) for r in runs], 2)
        assert unseen == cell([float(r["appeal_unseen"]) for r in runs], 2)
        assert accuracy == cell([float(r["accuracy_seen"]) for r in runs], 1, percent=True)
        assert stalled == f"{sum(r['stalled_from_round'] != '' for r in runs)} of 5 runs"


def test_the_methods_times_are_those_measured():
    measured = {
        r["method"]: (r["ms_a_round"], r["of_fedavg"]) for r in read_csv("docs/methods-times.csv")
    }
    rows = rows_of("docs/methods.md", "| method | ms a round")
    assert {name: (ms, ratio) for name, ms, ratio, _ in rows} == measured


def test_the_three_clients_are_those_of_the_numbers():
    numbers = {r["case"]: r for r in read_csv("docs/theory/three-clients.csv")}
    rows = rows_of("docs/theory.md", "| case | FedAvg | MaxFL |")
    assert len(rows) == len(numbers) == 3
    for case, fedavg, maxfl in rows:
        measured = numbers[case.split(":")[0]]
        assert fedavg == f"{float(measured['fedavg']):.3f}"
        assert maxfl == f"{float(measured['maxfl']):.3f}"


def test_the_demo_page_agrees_with_its_search():
    """Every cell of the table, recomputed from the CSV file."""
    with (ROOT / "docs/demo-search.csv").open() as file:
        results = list(csv.DictReader(file))
    page = (ROOT / "docs/demo.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (FedAvg|MaxFL, T = [\d.]+) \|(.*)\|$", page, re.M)
    assert len(rows) == 4
    rates = ("0.005", "0.01", "0.02", "0.05", "0.1")
    for method, cells in rows:
        temperature = str(float(method.split("=")[1])) if "=" in method else ""
        for rate, cell in zip(rates, cells.split("|"), strict=True):
            wanted = {
                "alpha": "0.5", "flipped_fraction": "0.3", "local_steps": "30",
                "local_lr": rate, "temperature": temperature,
            }  # fmt: skip
            runs = [r for r in results if wanted.items() <= r.items()]
            mean = sum(float(r["seen_appeal"]) for r in runs) / len(runs)
            stalled = sum(r["stalled_from_round"] != "" for r in runs)
            assert cell.strip() == f"{mean:.2f} ({stalled})", (method, rate)


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
        "mlp": ("mlp", "product"), "cnn (3 × 3, 128 units)": ("cnn", "product"),
        "the same with XLA's convolution": ("cnn", "lax.conv"),
        "cnn-leaf (5 × 5, 2048 units)": ("cnn-leaf", "product"),
        "resnet (20 layers)": ("resnet", "product"),
    }  # fmt: skip
    for name, (label, convolution) in rows.items():
        times = [
            row["ms_a_round"]
            for row in found["rounds"]
            if row["label"] == label and row["convolution"] == convolution
        ]
        assert f"| {name} | {times[0]:.3g} | {times[1]:.3g} |" in page
    torch = json.loads((ROOT / "benchmarks/results/models-gpu-torch.json").read_text())["torch"]
    graph = [row["ms_a_round"] for row in torch if row["variant"] == "vmap, CUDA graph"]
    assert f"| PyTorch's vmap in a CUDA graph on it | {graph[0]:.3g} | {graph[1]:.3g} |" in page
    (lora,) = json.loads((ROOT / "benchmarks/results/lora.json").read_text())["rows"]
    assert f"{lora['frozen'] / 1e6:.1f} million frozen" in page
    assert f"took\n{lora['peak'] / 1e9:.2f} GB" in page
    assert (
        f"{lora['bytes_of_100_bases'] / 1e9:.1f} GB; {lora['predicted'] / 1e9:.1f} GB were" in page
    )


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


def test_the_reproduction_page_agrees_with_the_annealing_search():
    from maxfl.algorithms import maxfl_annealed

    found = [
        {name: float(value) for name, value in row.items()}
        for row in read_csv("docs/annealing-search.csv")
    ]
    assert len(found) == 1152
    ours = maxfl_annealed(rounds=200).hparams._asdict() | {"rounds": 200, "server_lr": 10}
    place, setting = next(
        (i, row) for i, row in enumerate(found, 1) if all(row[n] == ours[n] for n in list(row)[:6])
    )
    text = " ".join((ROOT / "docs/reproduction.md").read_text(encoding="utf-8").split())
    places = {13: "thirteenth"}
    best = found[0]
    ours = f"{setting['seen_appeal']:.2f} ± {setting['seen_spread']:.2f}"
    assert f"has ours {places[place]}, {ours}" in text
    assert f"the best has {best['seen_appeal']:.2f} ± {best['seen_spread']:.2f}" in text


def test_the_reproduction_page_shows_the_reference_runs():
    page = (ROOT / "docs/reproduction.md").read_text(encoding="utf-8")
    fill = runpy.run_path(str(ROOT / "scripts/fill_reproduction_page.py"))["filled"]
    assert page == fill(page)


def test_the_sentences_on_single_rates_are_true():
    text = " ".join((ROOT / "docs/reproduction.md").read_text(encoding="utf-8").split())
    fill = runpy.run_path(str(ROOT / "scripts/fill_reproduction_page.py"))

    def rates(part):
        """Accuracy and GM-Appeal by training loss: a row per method, a column per η_l."""
        lines = fill["rates"]("opt-out", part).splitlines()[2:]
        cells = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines if line)
        found = {}
        for method, *row in cells:
            pairs = [re.fullmatch(r"([\d.]+); [\d.]+, ([\d.]+)", cell).groups() for cell in row]
            found[method] = np.array(pairs, float)
        return found

    fmnist, emnist = rates("FMNIST"), rates("EMNIST")
    stay = min(fmnist[m][2:, 1].min() for m in fmnist if m not in ("q-FFL", "MW-Fed"))
    assert f"at least {100 * stay:.0f} % of the clients stay with every method but q-FFL" in text
    assert max(fmnist[m][2, 1] for m in ("q-FFL", "MW-Fed")) < 0.5
    apart = np.abs(fmnist["MaxFL"] - fmnist["FedAvg"])[:, 0].max()
    assert f"within {apart:.1f} points of FedAvg's accuracy at every η_l" in text
    ahead = (emnist["MaxFL"] - emnist["FedAvg"])[:, 0]
    assert f"up to {-ahead.min():.1f} points behind where everybody leaves" in text
    assert f"up to {ahead.max():.1f} ahead where η_l is small" in text
    assert (emnist["MaxFL"][:4, 1] == 0).all()


@pytest.mark.processes
def test_what_is_said_of_requirements_and_batch_sizes_is_true():
    from maxfl.data.registry import FASHION_MNIST
    from maxfl.paper.catalogue import EXHIBITS
    from maxfl.paper.study import configure
    from maxfl.runs.build import build

    need(*FASHION_MNIST.values())
    study, moved = EXHIBITS["tab:unseen"].study, []
    for seed in range(3):
        small, large = (
            build([configure(study.parts[0], study.methods[0], {"training.batch_size": b}, {},
                             seed).config]).prepare().thresholds.train
            for b in (32, 128)
        )  # fmt: skip
        moved.append(np.abs(small / large - 1))
    text = " ".join((ROOT / "docs/reproduction.md").read_text(encoding="utf-8").split())
    mean, most = 100 * np.mean(moved), 100 * np.max(moved)
    assert f"moves ρ_k by {mean:.1f} % on average and {most:.0f} % at most" in text


def test_the_reproductions_summary_quotes_the_reference_runs():
    from maxfl.paper.cluster_limit_study import limit_rows, read_limit
    from maxfl.paper.declare import Column
    from maxfl.paper.results import read, reference_run

    page = (ROOT / "docs/reproduction.md").read_text(encoding="utf-8")
    text = " ".join(page[page.index("## In short") : page.index("## tab:testacc")].split())

    def figure(study, method, metric, digits, part="FMNIST", model="global"):
        results = read(reference_run(study), study)
        values = results.final(method, Column(part, "seen", metric, model))
        return spread(values.tolist(), digits).replace("\N{NO-BREAK SPACE}", " ")

    def mean(*what, **more):
        return figure(*what, **more).split(" ± ")[0]

    annealed, plain, fedavg = (
        figure("clusters", m, "gm_appeal", 2) for m in ("MaxFL, annealed (ours)", "MaxFL", "FedAvg")
    )
    assert f"is reached, {annealed}, by annealed MaxFL" in text
    assert f"T = 1, the paper's, reaches {plain}, FedAvg {fedavg}" in text
    limits = {row[0]: row for row in limit_rows(read_limit(reference_run("limit")))}
    assert f"the best of 31 centrally trained models satisfies {limits['0.005'][2]}" in text
    assert f"solo models reach {limits['0.005'][1]} %" in text
    for method in ("MaxFL", "FedAvg"):
        accuracy, appeal = (
            mean("opt-out", method, *m) for m in (("test_accuracy", 1), ("gm_appeal", 2))
        )
        assert f"{accuracy} % and {appeal}" in text
        accuracy, appeal = (
            mean("flipped", method, *m, part="FMNIST, 30 % flipped")
            for m in (("test_accuracy", 1), ("gm_appeal", 2))
        )
        assert f"{method} {accuracy} % and {appeal}" in text
    alone, few, many = (
        round(float(mean(study, "MW-Fed", "test_accuracy", 1, part)))
        for study, part in (
            ("opt-out", "FMNIST"), ("byzantine", "FMNIST, 5 % Byzantine"),
            ("byzantine", "FMNIST, 10 % Byzantine"),
        )
    )  # fmt: skip
    assert f"MW-Fed's accuracy from {alone} to {few} and {many} %" in text
    accuracy = [
        float(mean("clusters", m, "test_accuracy", 1)) for m in ("MaxFL, annealed (ours)", "FedAvg")
    ]
    assert accuracy[0] < accuracy[1], "annealing has its price"
    for method in ("MaxFL", "FedAvg", "SCAFFOLD"):
        assert f"{mean('opt-out', method, 'test_accuracy', 1, 'EMNIST')} %" in text
    (maxfl, satisfied), (fedavg, satisfied_too) = (
        [
            mean("larger-steps", m, *metric, "EMNIST")
            for metric in (("test_accuracy", 1), ("gm_appeal", 2))
        ]
        for m in ("MaxFL", "FedAvg")
    )
    assert f"MaxFL reaches {maxfl} % and satisfies {satisfied} of the clients" in text
    assert f"FedAvg {fedavg} % and {satisfied_too}" in text
    kept_clients = [mean("opt-out", m, "gm_appeal", 2, "EMNIST") for m in ("MaxFL", "FedAvg")]
    assert f"the most clients, {kept_clients[0]} (FedAvg {kept_clients[1]};" in text
    by_requirement = ", ".join(
        mean("requirement", "MaxFL, annealed (ours)", "gm_appeal", 2, f"FMNIST, {n} solo steps")
        for n in (50, 100, 150)
    )
    assert f"50, 100 and 150 solo steps ({by_requirement})" in text
    for method in ("FedAvg", "SCAFFOLD", "MaxFL"):
        assert mean("finetuned", method, "gm_appeal", 2, model="personal") == "1.00"
