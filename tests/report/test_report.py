"""Reports from run folders: tables by hand, pairing, cards, and folders that can't be shown."""

import csv
import re
import shutil
import subprocess

import numpy as np
import pytest

from maxfl.paper.results import kept
from maxfl.report.comparison import comparison_table, pairs, standing
from maxfl.report.configurations import temperature
from maxfl.report.page_data import choose, pack
from maxfl.report.series import Key, Series, all_series
from maxfl.report.source import read
from maxfl.report.summary_tables import summary_table
from maxfl.report.table import Figure, Table, to_csv, to_html, to_latex, to_markdown
from maxfl.report.traces import read_trace
from maxfl.report.verdict import verdicts
from maxfl.report.write import write_report
from maxfl.runs.tables import to_parquet
from maxfl.utils.errors import InputError
from maxfl.utils.files import write_json
from support.made_runs import clients_table, make_history, settings_of, write_run

CLIENTS, ROUNDS = 12, 6


def write_two(folder, seeds=(0, 1)):
    """Two methods on the same clients, some seeds of each."""
    return [
        write_run(
            folder / f"{name}-{seed}",
            make_history(CLIENTS, ROUNDS, unseen=2, drift=drift, seed=seed),
            settings_of(name),
            seed,
            f"federation {seed}",
        )
        for name, drift in (("fedavg", 0.05), ("maxfl", 0.3))
        for seed in seeds
    ]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return write_two(tmp_path_factory.mktemp("two"))


@pytest.fixture(scope="module")
def report(folders, tmp_path_factory):
    return write_report(folders, tmp_path_factory.mktemp("out") / "report")


def test_figures_are_printed_alike_everywhere():
    figures = (Figure.of([0.1, 0.3], 2), Figure.of([0.5], 1, percent=True),
               Figure.of([-0.001], 2, signed=True), Figure.of([], 2))  # fmt: skip
    assert [f.printed for f in figures] == [("0.20", "0.14"), ("50.0", ""), ("+0.00", ""),
                                            ("n/a", "")]  # fmt: skip
    table = Table("t", "Title", ("who", "a", "b, %", "c", "d"), [("x | y_1", *figures)])
    assert "| x \\| y_1 | 0.20 ± 0.14 | 50.0 | +0.00 | n/a |" in to_markdown(table)
    assert to_csv(table).splitlines() == [
        'who,a,a (std),"b, %","b, % (std)",c,c (std),d,d (std)',
        "x | y_1,0.20,0.14,50.0,,+0.00,,,",
    ]
    assert r"x \textbar{} y\_1 & $0.20 \pm 0.14$ & $50.0$ & $+0.00$ & n/a \\" in to_latex(table)
    assert 'data-sort="0.20">0.20 <small>± 0.14</small>' in to_html(table)


def test_runs_that_differ_in_the_seed_are_one_method(folders):
    source = read(folders)
    assert source.cases == [""]
    assert source.methods("") == ["FedAvg", "MaxFL"]
    assert [c.seed for c in source.of("", "MaxFL")] == [0, 1]


def test_the_summary_has_the_means_worked_by_hand(folders):
    source = read(folders)
    table = summary_table(source, all_series(source))
    assert table.headings[:3] == ("method", "clients", "seeds")
    appeal = []
    for seed in (0, 1):
        history = make_history(CLIENTS, ROUNDS, unseen=2, drift=0.3, seed=seed)
        met = history.evaluation.test_loss[0, -1] < history.thresholds.test[0]
        appeal.append(met[:10].mean())
    (row,) = [r for r in table.rows if r[:2] == ("MaxFL", "seen")]
    assert row[2] == 2
    assert row[3].mean == pytest.approx(np.mean(appeal))
    assert row[3].deviation == pytest.approx(np.std(appeal, ddof=1))


def test_comparisons_are_paired_by_seed(folders):
    source = read(folders)
    series = all_series(source)
    traces = {("", c.method, c.seed): read_trace(c) for c in source.configurations}
    (pair,) = pairs(source, series)
    assert (pair.first, pair.second, pair.seeds) == ("MaxFL", "FedAvg", [0, 1])
    table = comparison_table(source, series, [pair], traces)
    (row,) = [r for r in table.rows if r[2] == "seen"]
    only, difference = [], []
    for seed in (0, 1):
        a, b = traces["", "MaxFL", seed], traces["", "FedAvg", seed]
        met = [np.array([t.satisfied[-1, k] for k in range(10)]) for t in (a, b)]
        only.append(sum(met[0] & ~met[1]))
        difference.append(met[0].mean() - met[1].mean())
    assert row[4].mean == pytest.approx(np.mean(difference))
    assert row[4].deviation == pytest.approx(np.std(difference, ddof=1), abs=1e-6)
    assert row[6].mean == pytest.approx(np.mean(only))


def test_runs_on_other_clients_are_not_paired(tmp_path):
    runs = [
        write_run(tmp_path / name, make_history(5, 2), settings_of(name), 0, digest)
        for name, digest in (("fedavg", "one"), ("maxfl", "other"))
    ]
    source = read(runs)
    assert pairs(source, all_series(source)) == []


def test_other_data_are_another_case(tmp_path):
    settings = [settings_of("fedavg"), {**settings_of("fedavg"), "data": {"alpha": 0.1}}]
    runs = [write_run(tmp_path / str(i), make_history(5, 2), s) for i, s in enumerate(settings)]
    assert read(runs).cases == ["alpha 0.5", "alpha 0.1"]


def test_tables_agree_with_the_page_to_the_printed_digit(report):
    page = (report.folder / "report.html").read_text()
    for name in ("summary", "comparison"):
        markdown = (report.folder / f"tables/{name}.md").read_text()
        rows = [line.strip("| ").split(" | ") for line in markdown.splitlines()
                if line.startswith("| ")][2:]  # fmt: skip
        with (report.folder / f"tables/{name}.csv").open() as file:
            in_csv = [[cell for cell in row if cell] for row in list(csv.reader(file))[1:]]
        own = page[page.index(f'id="table-{name}"') :].split("</table>")[0]
        in_page = [
            [re.sub("<.*?>", "", cell) for cell in re.findall("<td.*?>(.*?)</td>", row)]
            for row in re.findall("<tr>(.*?)</tr>", own.split("<tbody>")[1])
        ]
        assert rows
        assert in_page == rows
        assert in_csv == [[c for cell in row for c in cell.split(" ± ")] for row in rows]


def test_every_figure_comes_in_three_forms(report):
    names = {path.name for path in (report.folder / "figures").iterdir()}
    kinds = ("curves", "clients", "gaps", "weights", "partition")
    assert names == {f"{kind}.{end}" for kind in kinds for end in ("png", "pdf", "svg")}


def test_the_card_says_for_whom_the_model_does_not_work(folders):
    from maxfl.report.model_card import cards

    history = make_history(CLIENTS, ROUNDS, unseen=2, drift=0.05, seed=0)
    lost = int((~history.satisfied()[0, -1, :10]).sum())
    text = cards(read(folders[:1]))
    assert text.startswith("# Model card: FedAvg, seed 0")
    assert f"It does not meet the requirement of {lost} of 10 seen clients" in text
    gap = (history.evaluation.test_loss[0, -1] - history.thresholds.test[0])[:10]
    assert f"client {gap.argmax()} (gap {gap.max():.2f})" in text


def test_latex_tables_compile(report, tmp_path):
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed")
    tables = [(report.folder / f"tables/{n}.tex").read_text() for n in ("summary", "comparison")]
    strange = Table("odd", "50 % & more_of {this} ± ~^", ("η_l \\ #", "a $b"), [("<|>", 1)])
    document = "\n".join(
        [r"\documentclass{article}\usepackage{booktabs}\begin{document}", *tables,
         to_latex(strange), r"\end{document}"]
    )  # fmt: skip
    (tmp_path / "t.tex").write_text(document)
    made = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "t.tex"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stdout[-800:]


def test_packed_clients_come_back(folders):
    import base64
    import zlib

    trace = read_trace(read(folders[:1]).configurations[0])
    small = pack(trace)
    whole = np.frombuffer(zlib.decompress(base64.b64decode(small.text)), np.uint8)
    shape = (CLIENTS, ROUNDS + 1)
    size = CLIENTS * (ROUNDS + 1)
    flags = whole[:size].reshape(shape).T
    assert np.array_equal(flags & 1 > 0, trace.satisfied)
    assert np.array_equal(flags & 4 > 0, trace.sampled)
    low, high = (whole[size + i * size :][:size].reshape(shape).astype(np.uint16) for i in (0, 1))
    gap = (low | high << 8).cumsum(1, dtype=np.uint16).view(np.int16).T * small.scale
    np.testing.assert_allclose(gap, trace.gap, atol=small.scale)


def test_large_pages_show_fewer_seeds_then_fewer_rounds(folders):
    source = read(folders)
    traces = {("", c.method, c.seed): read_trace(c) for c in source.configurations}
    whole = choose(traces)
    assert len(whole.packed) == 4
    assert whole.note == ""
    size = sum(len(p.text) for p in whole.packed.values())
    fewer = choose(traces, size - 1)
    assert [key[2] for key in fewer.packed] == [0, 0]
    assert "one seed of each method" in fewer.note
    least = choose(traces, size // 3)
    rounds = next(iter(least.packed.values())).rounds
    assert rounds[0] == 0
    assert rounds[-1] == ROUNDS
    assert len(rounds) < ROUNDS + 1
    assert choose(traces, 10).packed == {}


def test_means_only_are_shown_as_such(tmp_path):
    made = write_report([kept("synthetic")], tmp_path / "report")
    assert any("means over clients only" in line for line in made.missing)
    names = {path.name for path in (tmp_path / "report/tables").iterdir()}
    assert "clients.csv" not in names
    assert "MaxFL, annealed (ours)" in (tmp_path / "report/tables/summary.md").read_text()


def test_nothing_is_overwritten_silently(folders, tmp_path):
    out = tmp_path / "report"
    write_report(folders[:1], out, figures=False)
    with pytest.raises(InputError, match="already holds a report: add --force"):
        write_report(folders[:1], out)
    write_report(folders[:1], out, force=True, figures=False)
    (out / "mine.txt").write_text("keep me")
    with pytest.raises(InputError, match=r"holds other things than a report \(mine.txt\)"):
        write_report(folders[:1], out, force=True)
    assert (out / "mine.txt").read_text() == "keep me"
    (tmp_path / "mine/figures").mkdir(parents=True)
    with pytest.raises(InputError, match=r"holds other things than a report \(figures\)"):
        write_report(folders[:1], tmp_path / "mine", force=True)
    assert (tmp_path / "mine/figures").is_dir()


def damaged(tmp_path, what):
    """A run folder with something wrong."""
    folder = write_run(tmp_path / "run", make_history(4, 2), settings_of("fedavg"))
    if what == "unfinished":
        (folder / "summary.json").unlink()
    elif what == "cut off":
        path = folder / "metrics.parquet"
        path.write_bytes(path.read_bytes()[:200])
    elif what == "no history":
        (folder / "history.parquet").unlink()
    elif what == "half of the clients":
        half = clients_table(make_history(4, 2)).slice(0, 3)
        (folder / "clients.parquet").write_bytes(to_parquet(half))
    elif what == "foreign":
        (folder / "experiment.json").unlink()
    elif what == "no JSON":
        (folder / "summary.json").write_text("{")
    elif what == "other JSON":
        write_json(folder / "experiment.json", ["a list"])
    return folder


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("unfinished", "is not finished: go on with --resume"),
        ("cut off", "metrics.parquet can't be read"),
        ("no history", "history.parquet can't be read"),
        ("half of the clients", "do not fit: the folder is damaged"),
        ("foreign", "holds no run: experiment.json is not there"),
        ("no JSON", "summary.json can't be read"),
        ("other JSON", "is not what a run of maxfl writes"),
    ],
)
def test_broken_folders_are_told(tmp_path, what, words):
    with pytest.raises(InputError, match=re.escape(words)):
        write_report([damaged(tmp_path, what)], tmp_path / "report")


def test_more_mistakes_are_told(folders, tmp_path):
    with pytest.raises(InputError, match="is no folder"):
        read([tmp_path / "nowhere"])
    with pytest.raises(InputError, match="named twice"):
        read([folders[0], folders[0]])
    copy = shutil.copytree(folders[0], tmp_path / "copy")
    with pytest.raises(InputError, match="FedAvg with seed 0 on the same data as"):
        read([folders[0], copy])


def test_an_unfinished_sweep_shows_what_is_done(tmp_path):
    write_run(tmp_path / "groups/0000", make_history(4, 2), settings_of("fedavg"))
    write_json(tmp_path / "experiment.json", {"configurations": {"0": {}, "1": {}}, "groups": {}})
    made = write_report([tmp_path], figures=False)
    assert made.missing == [f"Not finished, and so not shown: 1 of 2 configurations of {tmp_path}."]


def test_a_verdict_only_where_one_can_be_given(tmp_path):
    def first_words(*runs):
        source = read([
            write_run(
                tmp_path / f"{i}-{len(list(tmp_path.iterdir()))}",
                make_history(20, 3, drift=drift, seed=seed), settings_of(name), seed, digest,
            )
            for i, (name, drift, seed, digest) in enumerate(runs)
        ])  # fmt: skip
        return verdicts(source, all_series(source))[0]

    ahead = first_words(("fedavg", 0, 0, "x"), ("maxfl", 0.6, 0, "x"))
    assert ahead.startswith("MaxFL satisfies the most clients: it meets the requirement of")
    tie = first_words(("fedavg", 0, 0, "x"), ("maxfl", 0, 0, "x"))
    assert tie.startswith("FedAvg and MaxFL are no further apart than seeds differ.")
    apart = first_words(("fedavg", 0, 0, "x"), ("maxfl", 0.6, 0, "y"))
    assert apart.startswith("These methods never met the same clients")
    uneven = first_words(("fedavg", 0, 0, "x"), ("maxfl", 0.6, 0, "x"), ("maxfl", 0.6, 1, "z"))
    assert "(on the 1 of 2 seeds that all have)" in uneven
    assert first_words(("fedavg", 0, 0, "x")).startswith("The model meets the requirement of")


@pytest.mark.parametrize(
    ("fedavg", "maxfl", "first", "ahead"),
    [
        ([0.4, 0.6], [0.5, 0.7], "MaxFL", True),  # a lead of 0.1 ± 0
        ([0.1, 0.9], [0.5, 0.7], "MaxFL", False),  # 0.1 ± 0.42
        ([0.5, 0.5], [0.5, 0.5], "FedAvg", False),
        ([0.9, 0.8], [0.1, np.nan], "FedAvg", True),  # a diverged run satisfies nobody
    ],
)
def test_a_lead_counts_if_it_exceeds_its_deviation_over_seeds(folders, fedavg, maxfl, first, ahead):
    series = {
        Key("", method, "seen", "global", "gm_appeal"): Series(
            np.arange(2), np.array([[0.0, value] for value in values])
        )
        for method, values in (("FedAvg", fedavg), ("MaxFL", maxfl))
    }
    found = standing(read(folders), series, "")
    assert (found.ranked[0][0], found.ahead, found.seeds) == (first, ahead, [0, 1])


def test_liars_count_on_neither_side(tmp_path):
    runs = [
        write_run(tmp_path / name, make_history(10, 3, drift=1.0, liars=liars), settings_of(name))
        for name, liars in (("fedavg", ()), ("maxfl", (2, 5)))
    ]
    source = read(runs)
    series = all_series(source)
    traces = {("", c.method, 0): read_trace(c) for c in source.configurations}
    (row,) = comparison_table(source, series, pairs(source, series), traces).rows
    assert [cell.mean for cell in row[4:]] == [0, 0, 0, 0]  # the same losses but for who lies


def test_a_diverged_run_is_shown(tmp_path):
    history = make_history(6, 3)
    for field in (history.evaluation.train_loss, history.evaluation.test_loss):
        field[:, 1:] = np.nan
        field[:, 2, ::2] = np.inf
    run = write_run(tmp_path / "run", history, settings_of("maxfl"))
    made = write_report([run])
    assert (made.folder / "figures/gaps.png").is_file()


def test_splits_are_seeds_too(tmp_path):
    data = [{**settings_of("fedavg"), "data": {"seed": split}} for split in (4, 7)]
    runs = [write_run(tmp_path / str(i), make_history(5, 2), s) for i, s in enumerate(data)]
    assert [c.seed for c in read(runs).of("", "FedAvg")] == [4, 7]


def test_only_the_best_methods_are_drawn_and_all_are_listed(tmp_path):
    names = ("fedavg", "fedprox", "scaffold", "mwfed", "qffl", "afl", "ditto", "maxfl", "pfedme")
    runs = [
        write_run(tmp_path / n, make_history(12, 3, drift=0.1 * i), settings_of(n))
        for i, n in enumerate(names)
    ]
    made = write_report(runs, tmp_path / "report", figures=False)
    summary = (made.folder / "tables/summary.md").read_text()
    assert all(f"| {n} |" in summary for n in ("FedAvg", "Ditto", "pFedMe"))
    clients = (made.folder / "tables/clients.csv").read_text()
    assert "pFedMe" in clients
    assert "FedAvg" not in clients
    page = (made.folder / "report.html").read_text()
    assert "shown for the 7 methods with the highest GM-Appeal of 9" in page


def test_names_can_do_no_harm(tmp_path):
    name = '<script>alert(1)</script>{{data}}"'
    run = write_run(tmp_path / "{{script}}", make_history(4, 2), settings_of(name))
    page = (write_report([run], tmp_path / "out", figures=False).folder / "report.html").read_text()
    assert page.count("<script") == 2
    assert page.count('id="data"') == 1
    assert "&lt;script&gt;alert(1)&lt;/script&gt;{{data}}&quot;" in page


def test_temperatures_are_the_methods_own():
    named = {"algorithm.name": "maxfl-annealed", "algorithm.rounds": 100}
    assert [round(temperature(named, t), 4) for t in (0, 50, 100, 150)] == [3, 0.5477, 0.1, 0.1]
    assert temperature({"algorithm.name": "maxfl", "algorithm.temperature": 0.3}, 5) == 0.3
    assert temperature({"algorithm.name": "fedavg"}, 5) == 1


def test_the_same_report_is_the_same_files(folders, tmp_path):
    one, other = (write_report(folders[:1], tmp_path / name).folder for name in ("a", "b"))
    for path in sorted(one.rglob("*.*")):
        assert path.read_bytes() == (other / path.relative_to(one)).read_bytes(), path.name
