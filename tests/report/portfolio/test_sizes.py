"""GM-Appeal by the number of models, worked by hand from made-up runs."""

import csv

import numpy as np
import pytest

from maxfl.report.portfolio.groups import groups_table
from maxfl.report.portfolio.section import portfolio_section
from maxfl.report.portfolio.sizes import Size, Sizes, enough, portfolio_sizes, sizes_table
from maxfl.report.series import all_series
from maxfl.report.source import read
from maxfl.report.statistics.bootstrap import Interval
from maxfl.report.statistics.compare import Results, read_traces
from maxfl.report.table import plain, to_markdown
from maxfl.report.write import write_report
from support.browser import Page, browser
from support.made_runs import make_history, settings_of, write_run

CLIENTS, SEEDS = 10, (0, 1)
SATISFIED = {1: (2, 4), 2: (6, 6), 3: (6, 7)}
"""By number of models: of the eight seen clients, how many are satisfied in each seed."""


def made_history(models, seed):
    """Return a run in which so many of the first clients are satisfied in the end."""
    history = make_history(CLIENTS, 2, unseen=2, seed=seed)
    happy = np.arange(CLIENTS) < SATISFIED[models][seed]
    loss = np.where(happy, 0.1, 3.0).astype(np.float32)[None, None].repeat(3, 1)
    picked = np.broadcast_to(np.arange(CLIENTS) % models, loss.shape).astype(np.int32)
    evaluation = history.evaluation._replace(
        judging_loss=loss, test_loss=loss, picked=picked if models > 1 else ()
    )
    trained = picked[:, :2, :4] if models > 1 else ()
    return history._replace(evaluation=evaluation, cohorts=history.cohorts._replace(model=trained))


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """One, two and three models, two seeds each."""
    root = tmp_path_factory.mktemp("sizes")
    return [
        write_run(
            root / f"{models}-{seed}", made_history(models, seed),
            settings_of("maxfl-auto") | {"portfolio": {"models": models, "patience": 5}},
            seed, f"federation {seed}",
        )
        for models in SATISFIED
        for seed in SEEDS
    ]  # fmt: skip


@pytest.fixture(scope="module")
def results(folders):
    source = read(folders)
    series = all_series(source)
    return Results(source, series, read_traces(source, series))


def test_sizes_of_one_method_are_put_together(results):
    (family,) = portfolio_sizes(results)
    assert family.method == "MaxFL auto"
    assert [size.models for size in family.sizes] == [1, 2, 3]
    means = [size.appeal["seen"].mean for size in family.sizes]
    assert means == pytest.approx([3 / 8, 6 / 8, 6.5 / 8])
    added = [size.added["seen"].mean for size in family.sizes[1:]]
    assert added == pytest.approx([3 / 8, 0.5 / 8])
    assert family.sizes[0].added == {}
    assert family.groups == ["seen", "unseen"]
    assert all(size.seeds == [0, 1] for size in family.sizes)
    low, high = family.sizes[1].appeal["seen"][1:]
    assert low < 6 / 8 < high


def test_the_table_says_what_is_enough(results):
    text = to_markdown(sizes_table(portfolio_sizes(results), results))
    assert "for MaxFL auto: not to be told: the largest portfolio, 3 models, satisfies 81 %" in text
    assert "| MaxFL auto | 2 | seen | 2 | 0.75" in text
    assert "+0.38" in text


def sizes(*appeal):
    """Return portfolios of 1, 2, ... models with these shares of satisfied clients."""
    each = [Interval(share, share, share) for share in appeal]
    return Sizes(
        "", "a method",
        [Size(k, "", [0], {"seen": one}, {}, {}, k, 1) for k, one in enumerate(each, 1)],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("appeal", "options", "models", "word"),
    [
        ((0.3, 0.6, 0.61, 0.62), {}, 2, "less than 0.02 each"),
        ((0.3, 0.6, 0.61, 0.9), {}, None, "try larger"),
        ((0.20, 0.22), {}, None, "adds 0.02 or more"),
        ((0.1, 0.1, 0.3), {}, None, "satisfies 30 %"),
        ((0.5, 0.51, 0.5), {}, 1, "one model: 50 %"),
        ((0.3, 0.6, 0.9), {"gain": 0.4}, 1, "less than 0.4"),
        ((0.3, 0.6, 0.9), {"share": 0.55}, 2, "55 % were asked for"),
        ((0.85, float(np.float32(0.9))), {"share": 0.9}, 2, "90 % of the seen"),
        ((0.3, 0.6, 0.5), {"share": 0.95}, None, "the best of them, 2 models, satisfies 60 %"),
    ],
)
def test_how_many_are_enough(appeal, options, models, word):
    found = enough(sizes(*appeal), **options)
    assert found.models == models
    assert word in found.why


def test_clients_of_each_model_and_what_they_share(results):
    table = groups_table(results.source, results.traces, results.source.metric)
    rows = {(row[0], row[2]): [plain(cell) for cell in row] for row in table.rows}
    first = dict(zip(table.headings, rows["MaxFL auto, 2 models", 0], strict=True))
    assert first["seen clients"] == "4"
    assert first["unseen clients"] == "1"
    assert first["satisfied, seen"] == "3", "clients 0, 2 and 4 of the first six"
    assert "1 of 5 contradict" in first["labels in common"], "client 0; 5 has the other"
    thirds = [rows["MaxFL auto, 3 models", model][-1] for model in range(3)]
    assert thirds[1].startswith("label 1: 100 % (all: 30 %)")
    assert not any(row[0] == "MaxFL auto, 1 model" for row in table.rows)


def test_reports_without_a_portfolio_say_nothing_of_it(tmp_path):
    folder = write_run(tmp_path / "one", make_history(6, 2), settings_of("fedavg"))
    source = read([folder])
    series = all_series(source)
    section = portfolio_section(Results(source, series, read_traces(source, series)))
    assert section.tables == []
    assert section.data == []


@pytest.mark.slow
def test_the_report_has_tables_figures_and_data_for_the_page(folders, tmp_path):
    made = write_report(folders, tmp_path / "report")
    with (made.folder / "tables/portfolio.csv").open() as file:
        header, *rows = csv.reader(file)
    assert all(len(row) == len(header) for row in rows)
    assert (made.folder / "tables/portfolio-groups.tex").is_file()
    assert (made.folder / "figures/portfolio.svg").is_file()
    assert (made.folder / "figures/portfolio-groups.png").is_file()
    with browser() as one:
        opened = Page(one, made.folder / "report.html", 900)
        page = opened.page
        assert page.locator("#portfolio-charts svg").count() == 1
        assert opened.column("table-portfolio", 2)[::2] == ["1", "2", "3"]
        page.select_option("#method", label="MaxFL auto, 3 models")
        page.select_option("#layer", "picked")
        page.select_option("#order", "model")
        assert page.locator("#heat-legend").inner_text().split("\n") == [
            "model 0", "model 1", "model 2",
        ]  # fmt: skip
        page.select_option("#method", label="MaxFL auto, 1 model")
        page.locator("#heat-legend", has_text="satisfied, willing").wait_for()
        assert page.input_value("#layer") == "state"
        assert opened.complaints == []
