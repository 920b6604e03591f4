"""Whole reports: their files agree, repeat to the byte, and overwrite nothing."""

import csv
import re
import shutil
import subprocess
from html import unescape

import numpy as np
import pytest

from maxfl.core.metrics import MetricInfo
from maxfl.paper.results import reference_run
from maxfl.report.table import Table, to_latex
from maxfl.report.write import write_report
from maxfl.utils.errors import InputError
from support.made_runs import REGRESSION, make_history, settings_of, write_run


@pytest.fixture(scope="module")
def report(folders, tmp_path_factory):
    return write_report(folders, tmp_path_factory.mktemp("out") / "report")


def test_tables_agree_with_the_page_to_the_printed_digit(report):
    page = (report.folder / "report.html").read_text()
    for name in ("summary", "comparison"):
        markdown = (report.folder / f"tables/{name}.md").read_text()
        rows = [line.strip("| ").split(" | ") for line in markdown.splitlines()
                if line.startswith("| ")][2:]  # fmt: skip
        with (report.folder / f"tables/{name}.csv").open() as file:
            in_csv = [[cell for cell in row if cell] for row in list(csv.reader(file))[1:]]
        table = page[page.index(f'id="table-{name}"') :].split("</table>")[0]
        in_page = [
            [unescape(re.sub("<.*?>", "", cell)) for cell in re.findall("<td.*?>(.*?)</td>", row)]
            for row in re.findall("<tr>(.*?)</tr>", table.split("<tbody>")[1])
        ]
        assert rows
        assert in_page == rows
        assert in_csv == [
            [c for cell in row for c in re.split(r" ± | \(| to |\)", cell) if c] for row in rows
        ]


def test_every_figure_comes_in_three_forms(report):
    names = {path.name for path in (report.folder / "figures").iterdir()}
    kinds = ("curves", "clients", "gaps", "weights", "partition")
    assert names == {f"{kind}.{end}" for kind in kinds for end in ("png", "pdf", "svg")}


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


@pytest.mark.slow
def test_means_only_are_shown_as_such(tmp_path):
    made = write_report([reference_run("synthetic")], tmp_path / "report")
    assert any("means over clients only" in line for line in made.missing)
    names = {path.name for path in (tmp_path / "report/tables").iterdir()}
    assert "clients.csv" not in names
    assert "MaxFL, annealed (ours)" in (tmp_path / "report/tables/summary.md").read_text()


def test_one_folder_may_be_named_by_itself(folders, tmp_path):
    made = write_report(str(folders[0]), str(tmp_path / "report"), figures=False)
    assert (made.folder / "report.html").is_file()
    with pytest.raises(InputError, match="there is no folder to report on"):
        write_report([])


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


@pytest.mark.slow
def test_a_diverged_run_is_shown(tmp_path):
    history = make_history(6, 3)
    for field in (history.evaluation.judging_loss, history.evaluation.test_loss):
        field[:, 1:] = np.nan
        field[:, 2, ::2] = np.inf
    run = write_run(tmp_path / "run", history, settings_of("maxfl"))
    made = write_report([run])
    assert (made.folder / "figures/gaps.png").is_file()


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


@pytest.mark.slow
def test_the_same_report_is_the_same_files(report, folders, tmp_path):
    again = write_report(folders, tmp_path / "again").folder
    for path in sorted(report.folder.rglob("*.*")):
        assert path.read_bytes() == (again / path.relative_to(report.folder)).read_bytes()


def test_a_report_of_a_regression_never_says_accuracy(tmp_path):
    runs = [
        write_run(
            tmp_path / name,
            make_history(12, 4, unseen=2, drift=drift, metrics=REGRESSION),
            settings_of(name),
        )
        for name, drift in (("fedavg", 0.05), ("maxfl", 0.3))
    ]
    made = write_report(runs, tmp_path / "report", figures=False).folder
    texts = {path.name: path.read_text() for path in made.rglob("*") if path.is_file()}
    assert not [name for name, text in texts.items() if "accuracy" in text.lower()]
    assert "| test mae | preferred-model mae | willing, % |" in texts["summary.md"]
    assert "Preferred-model mae (lower is better): if" in texts["summary.md"]
    assert "test mae, A − B (lower is better)" in texts["comparison.md"]
    assert ",test mae,test mae (std),solo mae," in texts["clients.csv"]
    assert "Test mae (lower is better), mean over clients" in texts["report.html"]
    assert re.search(r"its mae is [0-9.]+ higher \(worse\) for them", texts["model-cards.md"])


def test_a_model_whose_only_metric_is_its_loss(tmp_path):
    """Of test_loss there is one column."""
    loss = (MetricInfo("loss", higher_is_better=False),)
    run = write_run(tmp_path / "run", make_history(6, 2, metrics=loss), settings_of("maxfl"))
    made = write_report([run], tmp_path / "report", figures=False).folder
    assert "| test loss | preferred-model loss |" in (made / "tables/summary.md").read_text()
