"""What docs/reproduction.md says is true of the reference runs."""

import re
import runpy

import numpy as np
import pytest

from maxfl.paper.catalogue import EXHIBITS
from support.commands import ROOT
from support.data_files import need
from support.pages import read_csv, rows_of


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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["reproduction", "portfolio"])
def test_pages_show_the_reference_runs(name):
    page = (ROOT / f"docs/{name}.md").read_text(encoding="utf-8")
    fill = runpy.run_path(str(ROOT / "scripts/fill_reproduction_page.py"))["filled"]
    assert page == fill(page)


def test_the_page_names_the_parts_that_were_not_run():
    table = runpy.run_path(str(ROOT / "scripts/fill_reproduction_page.py"))["table"]
    whole = table.__globals__["reference_results"](EXHIBITS["when"])
    assert "Not run yet" not in table("when")
    some = dict(list(whole.summary["chosen"].items())[:23])
    cut = whole._replace(summary=whole.summary | {"chosen": some})
    table.__globals__["reference_results"] = lambda _: cut
    missing = (f"40 % in conflict: ρ = {multiple} × solo" for multiple in ("1", "0.8"))
    assert f"Not run yet: {', '.join(missing)}.\n" in table("when")


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
    from maxfl.paper.study import configure
    from maxfl.runs.build import build

    need(*FASHION_MNIST.values())
    study, moved = EXHIBITS["tab:unseen"].study, []
    for seed in range(3):
        small, large = (
            build([configure(study.parts[0], study.methods[0], {"training.batch_size": b}, {},
                             seed).config]).prepare().thresholds.judging
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
    from maxfl.paper.words import digits_of, our_cell

    page = (ROOT / "docs/reproduction.md").read_text(encoding="utf-8")
    text = " ".join(page[page.index("## In short") : page.index("## tab:testacc")].split())

    def figure(study, method, metric, digits, part="FMNIST", model="global"):
        results = read(reference_run(study), study)
        column = Column(part, "seen", metric, model)
        assert digits_of(column) == digits
        return our_cell(results.final(method, column), column)  # as in the tables of the page

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


def test_where_a_portfolio_of_maxfl_is_ahead_of_ifca():
    rows = rows_of("docs/portfolio.md", "|  | models | IFCA")
    leads, part = {}, ""
    for name, models, *_, lead in rows:
        part = name or part
        ends = lead.replace("−", "-").partition("[")[2][:-1].split(",")
        leads[part, models] = [float(end) for end in ends]
    few = {("clusters", "1"), ("clusters", "2"), ("skewed: 30 % flipped", "1")}
    many = {("tweets", "5"), ("skewed: nobody flipped", "5")}
    assert {where for where, (low, _) in leads.items() if low > 0} == few | many
    assert not [where for where, (_, high) in leads.items() if high < 0]


def test_what_keeps_the_models_of_a_portfolio_apart():
    appeal: dict[tuple[str, ...], list[float]] = {}
    unused: dict[tuple[str, ...], int] = {}
    for row in read_csv("docs/portfolio-starts.csv"):
        cell = row["method"], row["models"], row["variant"]
        appeal.setdefault(cell, []).append(float(row["appeal_unseen"]))
        unused[cell] = unused.get(cell, 0) + (int(row["models_picked"]) < int(row["models"]))

    def changed(models, variant):
        base = appeal["MaxFL auto", models, "as it is"]
        return sum(a != b for a, b in zip(appeal["MaxFL auto", models, variant], base, strict=True))

    off = "no model starts anew"
    assert unused["MaxFL auto", "5", off] == 3
    assert changed("2", off) == changed("3", off) == 0
    assert changed("5", "patience 40") == 2
    assert not any(count for (*_, variant), count in unused.items() if variant == "as it is")


def test_what_random_rounds_do_to_a_portfolio_is_that_of_the_search():
    rows = read_csv("docs/portfolio-random-rounds.csv")
    appeal = {tuple(row.values())[:-1]: float(row["appeal_unseen"]) for row in rows}
    changes: dict[str, dict[tuple[str, ...], list[float]]] = {}
    for (setting, method, rounds, models, seed), value in appeal.items():
        if rounds != "0":
            gained = value - appeal[setting, method, "0", models, seed]
            changes.setdefault(rounds, {}).setdefault((setting, method, models), []).append(gained)
    means = {way: {k: np.mean(v) for k, v in cells.items()} for way, cells in changes.items()}
    overall = [np.mean(list(cells.values())) for cells in means.values()]
    single = [value for cells in means.values() for value in cells.values()]
    text = " ".join((ROOT / "docs/portfolio.md").read_text(encoding="utf-8").split())
    assert len(means) == 6
    assert f"the best added {max(overall):.3f} to" in text
    assert f"the worst took {-min(overall):.3f} away" in text
    assert f"added up to {max(single):.2f} and took up to {-min(single):.2f} away" in text
