"""Figures about CPUs, scale and methods are those of the results."""

import re
import runpy
from datetime import date
from statistics import median

import table

from support.commands import ROOT
from support.pages import read_csv, read_results, read_rounds, rows_of, shown, words_of

PAGE = "docs/performance.md"
MACHINES = table.ARCHITECTURES
"""Of the records beside other simulators: x86 and ARM."""
SECOND = "x86_64-second"
"""Another whole run, on other x86 cores, with more disturbed passes than the record."""


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
    text = words_of("docs/portfolio.md")
    assert f"each takes 1/{alone / at_once:.0f} of the time that it takes alone" in text


def test_the_readmes_table_of_speed_is_of_the_results():
    filled = runpy.run_path(str(ROOT / "scripts/fill_speed_table.py"))["filled"]
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert filled(page) == page, "run python scripts/fill_speed_table.py"


def test_the_seconds_of_the_demo_are_those_measured():
    both = [read_results(f"demo-{machine}")["seconds"] for machine in MACHINES]
    rows = rows_of(PAGE, "| part of make demo, s | x86 | ARM |")
    for column, seconds in enumerate(both, 1):
        assert {row[0]: int(row[column]) for row in rows} == seconds
    x86, arm = (sum(seconds.values()) for seconds in both)
    words = words_of(PAGE)
    assert f"takes {x86} s with the installation on the x86 cores and {arm} s on the ARM" in words


def test_the_page_of_frameworks_has_the_peers_record():
    rows = rows_of("docs/frameworks.md", "| time of a round | maxfl | Flower's simulation |")
    assert [row[0] for row in rows] == ["x86", "ARM, the version of 17 November"]
    for (_, ours, *others), machine in zip(rows, MACHINES, strict=True):
        assert ours == "1"
        spreads = [spread(machine, peer) for peer in ("flower", "fedjax", "pfl")]
        assert others[:3] == [f"{min(each):.1f} to {max(each):.1f}" for each in spreads]
        # Where the page says that the gap is widest.
        names = [*read_results(f"peers-{machine}")["workloads"]]
        widest = [names[each.index(max(each))] for each in spreads]
        assert widest == ["mlp", "mlp-evaluated", "mlp"]
        assert all(each[names.index("cnn")] < 2.1 for each in spreads)
    peers = "flower", "fedjax", "pfl"
    records = [times(machine, "cnn", peer) for machine in MACHINES for peer in peers]
    most = max(times(SECOND, "cnn", peer) for peer in peers)
    words = f"with the CNN, it is {min(records):.1f} to {max(records):.1f}, and up to {most:.1f} in"
    assert words in words_of("docs/frameworks.md")


def spread(machine, peer):
    """Return how many times as long as maxfl a peer takes, by workload."""
    return [times(machine, name, peer) for name in read_results(f"peers-{machine}")["workloads"]]


def times(machine, workload, peer):
    """Return how many times as long as maxfl a peer takes."""
    peers = read_results(f"peers-{machine}")["workloads"][workload]["peers"]
    return peers[peer]["ms"] / peers["maxfl"]["ms"]


def test_the_table_of_targets_is_that_of_the_sections():
    """Which are read from the results themselves."""
    found = {
        target: (reached, verdict)
        for target, reached, verdict in rows_of(PAGE, "| target | reached | |")
    }
    on_gpu = rows_of(PAGE, "| target: times PyTorch's")
    for (ratio, *cells), target in zip(on_gpu, found, strict=False):
        reached, verdict = found[target]
        model, aim = ratio.split(": ")
        assert target.lower().startswith(f"one h200: {model}")
        assert f", {aim} times" in target
        ratios, verdicts = zip(*(cell.split(", ") for cell in cells), strict=True)
        assert reached == ", ".join(ratios)
        assert verdict == ", ".join(dict.fromkeys(verdicts))
    words = words_of(PAGE)
    (mlps,) = (row[3] for row in rows_of(PAGE, "| | 1 configuration |") if row[0] == "MLP, FedAvg")
    layers = [us for layer in read_results("kernels-gpu")["layers"] for us in layer["us"].values()]
    gains = [us["xla"] / us["kernels"] for us in layers]
    memory = re.search(r"version are (.*?) times what the", words)[1]
    sixty_four = re.search(r"one alone [\d.]+ \((.*?) times", words)[1]
    others = {
        "one H200: a thousand MLPs at once, 0.040 ms a round of FedAvg each":
            (mlps, verdict_of(float(mlps) <= 0.040)),
        "one H200: 64 CNNs at once, 4 times cheaper each than one alone":
            (sixty_four, verdict_of(float(sixty_four) >= 4)),
        "one H200: a kernel only where it is twice as fast as XLA, layer by layer":
            (f"{min(gains):.1f} to {max(gains):.1f}", verdict_of(min(gains) >= 2)),
        "one H200: memory predicted to within 1.5 times":
            (memory, verdict_of(all(1 / 1.5 < float(x) < 1.5 for x in memory.split(" to ")))),
    }  # fmt: skip
    for target, *cells in on_two_cores():
        reached, verdicts = zip(*(said(cell) for cell in cells), strict=True)
        others[f"two cores, x86 and ARM: {target.replace(': ', ', ')}"] = (
            ", ".join(reached), ", ".join(dict.fromkeys(verdicts))
        )  # fmt: skip
    assert dict([*found.items()][len(on_gpu) :]) == others


def on_two_cores():
    """Return what was aimed at on two cores, with what x86 and ARM reached; the demo last.

    What the second run missed, the first has reached narrowly.
    """
    rows = []
    for target, x86, second, arm, _why in rows_of(PAGE, "| target | x86 | second x86 run | ARM |"):
        is_narrow = "missed" in second and said(x86)[1] == "reached"
        rows.append([target, x86 + ", narrowly" * is_narrow, arm])
    demo = [sum(read_results(f"demo-{machine}")["seconds"].values()) for machine in MACHINES]
    return [*rows, ["make demo in 80 s", *(str(s) + ", missed" * (s > 80) for s in demo)]]


def said(cell):
    """Return the figure and the verdict of a cell like '1.31 (1.28 to 1.35), missed'."""
    figure, *verdict = re.sub(r" \(.*\)", "", cell).split(", ")
    return figure, {"": "reached", "narrowly": "reached narrowly", "missed": "missed"}[
        verdict[0] if verdict else ""
    ]


def verdict_of(is_reached):
    """What the tables say of a target."""
    return "reached" if is_reached else "missed"


def test_what_was_aimed_at_on_two_cores_is_of_the_peers_records():
    rows = rows_of(PAGE, "| target | x86 | second x86 run | ARM |")
    aims = {
        "CNN: 1.5 times NumPy": ("cnn", "numpy", 1.5),
        "CNN: 1.5 times Flower with NumPy clients": ("cnn", "flower", 1.5),
        "unequal clients: 1.3 times NumPy": ("unequal", "numpy", 1.3),
        "MLP: 10 times Flower's simulation": ("mlp", "flower", 10),
    }
    compiled = {
        "the default program compiled in 6 s": ("cold", 6),
        "the same from the cache in 1.5 s": ("cached", 1.5),
    }
    assert [row[0] for row in rows] == [*aims, *compiled]
    for i, machine in enumerate([MACHINES[0], SECOND, MACHINES[1]], 1):
        seconds = read_results(f"peers-{machine}")["compile_seconds"]
        expected = [aimed_at(machine, *aim) for aim in aims.values()]
        for start, limit in compiled.values():
            expected.append(f"{seconds[start]:.2f}" + ", missed" * (seconds[start] > limit))
        assert [row[i] for row in rows] == expected
    slower = " and ".join(f"{times(machine, 'mlp', 'numpy'):.2f}" for machine in MACHINES)
    assert f"which itself is {slower} times as slow as maxfl" in rows[3][-1]
    shares = " and ".join(f"{100 * evaluation_share(machine):.0f}" for machine in MACHINES)
    assert f"evaluation, without which a round takes {shares} % less" in rows[2][-1]


def test_the_second_run_is_whole_and_was_disturbed_more():
    first, second = (read_results(f"peers-{name}") for name in (MACHINES[0], SECOND))
    assert not table.why_no_record(second)
    assert second["machine"]["architecture"] == first["machine"]["architecture"]
    counts = [len(re.findall(r"\(\d", table.disturbed(run)[0])) for run in (first, second)]
    assert counts[0] < counts[1]
    every = sum(len(workload["peers"]) for workload in first["workloads"].values())
    words = f"for {counts[0]} of its {every} times, and for {counts[1]} of the second's"
    assert words in words_of(PAGE)


def test_the_version_on_arm_cores_is_named_by_its_day():
    made = date.fromisoformat(read_results("peers-aarch64")["made"][:10])
    for page in (PAGE, "docs/frameworks.md", "README.md"):
        assert f"the version of {made.day} {made:%B}" in words_of(page)


def aimed_at(machine, workload, peer, aim):
    """Return what the table says of a ratio: its median, least and most of the passes, verdict."""
    peers = read_results(f"peers-{machine}")["workloads"][workload]["peers"]
    passes = zip(peers[peer]["passes"], peers["maxfl"]["passes"], strict=True)
    ratios = [theirs / ours for theirs, ours in passes]
    ratio, digits = times(machine, workload, peer), 1 if aim == 10 else 2
    verdict = ", missed" if ratio < aim else ", narrowly" if min(ratios) < aim else ""
    return f"{ratio:.{digits}f} ({min(ratios):.{digits}f} to {max(ratios):.{digits}f}){verdict}"


def test_evaluating_the_cnn_is_nearly_half_of_a_block():
    for machine in MACHINES:
        ours = read_results(f"peers-{machine}")["workloads"]["cnn"]["peers"]["maxfl"]
        rounds = read_results(f"peers-{machine}")["workloads"]["cnn"]["rounds"]
        assert rounds == 3
        evaluation = median(ours["evaluation_passes"])
        assert 0.4 < evaluation / (evaluation + rounds * ours["ms"]) < 0.5
    assert "for the CNN it is nearly half of the block" in words_of(PAGE)


def evaluation_share(machine):
    """Return how much of a round of unequal clients is not in one without evaluation."""
    workloads = read_results(f"peers-{machine}")["workloads"]
    mlp, unequal = (workloads[name]["peers"]["maxfl"]["ms"] for name in ("mlp", "unequal"))
    return 1 - mlp / unequal


def test_a_round_takes_as_long_at_the_end_of_a_long_run():
    found = read_results("long_run")
    later = found["seconds"][1:]
    words = f"{found['rounds']:,} rounds of a tiny federation"
    assert words in words_of(PAGE)
    assert f"take {min(later):.1f} to {max(later):.1f} s a thousand after the first" in (
        words_of(PAGE)
    )


def test_the_performance_page_agrees_with_the_models_on_two_cores():
    measured = [r for r in read_rounds("models-cpu") if r["cohort"] == 10]
    torch = {(r["model"], r["variant"]): r["ms_a_round"] for r in read_rounds("torch-cpu")}
    printed = rows_of(PAGE, "| two cores |")
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
    found = read_results("million")["rounds"]
    table = rows_of(PAGE, "| ms a round; memory |")
    assert len(table) * 2 == len(found) == 6
    for case, *cells in table:
        small, large = (r for r in found if r["case"] == case)
        assert cells == [f"{r['ms']:.0f}; {r['memory_gib']:.2f} GiB" for r in (small, large)]
        sizes = f"{small['data_gib']:.1f} GiB | 1,000,000 clients, {large['data_gib']:.1f} GiB"
        assert sizes in words_of(PAGE)
        assert (small["clients"], large["clients"]) == (10_000, 1_000_000)
        assert large["memory_gib"] < 4
        if "first sampled" not in case:
            assert large["ms"] < 1.2 * small["ms"]


def test_the_performance_page_agrees_with_several_devices():
    found = read_results("devices")
    rows = rows_of(PAGE, "| ms a round | 1 configuration |")
    printed = {re.sub(r" of .*", "", name): cells for name, *cells in rows}
    ms = found["ms_by_configurations"]
    measured = {name: [f"{times[n]:.0f}" for n in ("1", "2")] for name, times in ms.items()}
    assert printed == measured
    ratio = ms["1 device"]["1"] / ms["2 devices"]["1"]
    page = words_of(PAGE)
    assert f"share one device, which takes about {ratio:.1f} times as long here" in page


def test_the_performance_page_agrees_with_how_cost_grows():
    found = read_results("growth")["rounds"]
    base = found[0] | {"ms": None}
    table = rows_of(PAGE, "| changed | ms a round |")
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
