"""What docs/methods.md and README say of the temperature's rule is true of the runs."""

import re

import numpy as np

from maxfl.paper.catalogue import EXHIBITS
from maxfl.paper.declare import Column
from maxfl.paper.leads import interval_cell, lead
from maxfl.paper.results import read, reference_run
from support.commands import ROOT
from support.pages import read_csv, rows_of

SERVABLE = 0.5
"""GM-Appeal above which more than two of five clusters are served."""


def test_the_variants_of_the_temperatures_rule_are_those_of_the_search():
    page = (ROOT / "docs/methods.md").read_text(encoding="utf-8")
    (heading,) = re.findall(r"\| variant \|.*", page)
    settings = [cell.strip() for cell in heading.strip("|").split("|")][1:]
    found = {}
    for row in read_csv("docs/temperature-search.csv"):
        key = row["variant"], row["setting"]
        found.setdefault(key, []).append(float(row["appeal_unseen"]))
    means = {key: sum(values) / len(values) for key, values in found.items()}
    for variant, *cells in rows_of("docs/methods.md", heading):
        keys = [(variant, setting) for setting in settings]
        assert cells == [f"{means[key]:.2f}" if key in means else "—" for key in keys]
    others = ("FedAvg", "T = 0.3", "T = 1", "T = 3", "T from 3 to 0.3")
    best = {setting: max(means[v, setting] for v in others) for setting in settings}
    late, ours = "p = 0.25, c = 2.5, γ = 0.3", "p = 0.35, c = 1.5, γ = 0.3"
    assert max(best[s] - means[late, s] for s in settings[:-1]) < 0.025, "at most 0.02"
    assert max(best[s] - means[ours, s] for s in settings) < 0.025, "at most 0.02"
    assert [min(found[rule, "60 rounds"]) for rule in (late, ours)] == [0.0, 0.35]
    leads = [means[ours, s] - means["FedAvg", s] for s in settings[:2]]
    assert [f"{lead:.2f}" for lead in leads] == ["0.26", "0.30"]


def test_what_each_rule_for_the_temperature_loses_is_that_of_the_reference_run():
    rows = rows_of("docs/methods.md", "| rule | largest loss | where | mean loss |")
    found = read(reference_run("common"), "common")
    columns = [column for column in EXHIBITS["common"].columns if column.part in found.parts]
    means = {
        rule: [float(np.mean(found.final(rule, column))) for column in columns] for rule, *_ in rows
    }
    best = [max(values) for values in zip(*means.values(), strict=True)]
    assert len(best) == 15
    for rule, *cells in rows:
        losses = [b - value for b, value in zip(best, means[rule], strict=True)]
        largest = max(losses)
        where = columns[losses.index(largest)].part
        assert cells == [f"{largest:.2f}", where, f"{sum(losses) / len(losses):.2f}"]


def test_the_readmes_leads_are_those_of_the_reference_run():
    found = read(reference_run("common"), "common")
    columns = {column.part: column for column in EXHIBITS["common"].columns}
    rows = rows_of("README.md", "| GM-Appeal of unseen clients | FedAvg | MaxFL auto | lead |")
    assert len(rows) == 9
    for part, *cells in rows:
        means = [np.mean(found.final(m, columns[part])) for m in ("FedAvg", "MaxFL auto")]
        ahead = interval_cell(lead(found, "MaxFL auto", "FedAvg", columns[part]), columns[part])
        assert cells == [*(f"{mean:.2f}" for mean in means), ahead], part


def test_seeds_on_which_the_rule_serves_three_clusters_are_counted():
    rows = read_csv("docs/temperature-search.csv")
    ours = [
        float(row["appeal_unseen"])
        for row in rows
        if (row["variant"], row["setting"]) == ("p = 0.35, c = 1.5, γ = 0.3", "clusters 0.005")
    ]
    text = " ".join((ROOT / "docs/methods.md").read_text(encoding="utf-8").split())
    assert f"on {sum(a > SERVABLE for a in ours)} of the {len(ours)} seeds above" in text
    found = read(reference_run("common"), "common")
    column = EXHIBITS["common"].columns[0]
    shown = found.final("MaxFL auto", column)
    number = {4: "four", 10: "ten"}
    many = number[int((shown > SERVABLE).sum())], number[len(shown)]
    assert f"but on {many[0]} of the {many[1]} of" in text
    assert f"its lead there is {lead(found, 'MaxFL auto', 'FedAvg', column).mean:.2f}, not" in text


def test_what_readme_says_it_costs_is_that_of_the_reference_run():
    found = read(reference_run("common"), "common")
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())

    def mean(method, part, metric="gm_appeal"):
        return float(np.mean(found.final(method, Column(part, "unseen", metric))))

    first = "clusters: solo rate 0.005"
    accuracy = [mean(m, first, "test_accuracy") for m in ("FedAvg", "MaxFL auto")]
    assert (
        f"clients' mean accuracy falls from {accuracy[0]:.0f} to {accuracy[1]:.0f} % and less"
        in text
    )
    tweets = mean("FedAvg", "tweets: never leave") - mean("MaxFL auto", "tweets: never leave")
    assert f"if nobody leaves, FedAvg is {tweets:.2f} ahead" in text
    parts = [part for part in found.parts if part.startswith("EMNIST")]
    most = max(mean("SCAFFOLD", part) - mean("MaxFL auto", part) for part in parts)
    assert f"on EMNIST SCAFFOLD up to {most:.2f}" in text
