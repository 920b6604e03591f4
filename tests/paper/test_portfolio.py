"""The studies of portfolios: what is declared, and what shares a program."""

from pathlib import Path

import pyarrow as pa

from maxfl.paper.catalogue import EXHIBITS
from maxfl.paper.compare import compare
from maxfl.paper.portfolio import PERSONAL_STUDY, PORTFOLIO_STUDY
from maxfl.paper.results import StudyResults
from maxfl.paper.study import configure
from maxfl.runs.build import group


def configs(study, part):
    return [configure(part, method, part.typical, {}, 0).config for method in study.methods]


def test_all_methods_face_one_requirement_and_schedule_and_as_many_points():
    assert PERSONAL_STUDY.grid == PORTFOLIO_STUDY.grid
    assert PERSONAL_STUDY.search_seeds == PORTFOLIO_STUDY.search_seeds
    for part in PERSONAL_STUDY.parts:
        found = configs(PORTFOLIO_STUDY, part) + configs(PERSONAL_STUDY, part)
        assert len({c.requirement for c in found}) == 1
        assert len({c.schedule for c in found}) == 1
        assert len({c.training for c in found}) == 1
        assert {c.participation.rule for c in found} == {"everyone"}


def test_sizes_stand_beside_each_other():
    """MaxFL's GM-Appeal is K tenths, IFCA's a tenth less, that of FedAvg and HypCluster none."""
    appeal = {"FedAvg": 0.0, "MaxFL auto": 0.1}
    for k in (2, 3, 5):
        appeal |= {f"MaxFL auto, {k} models": k / 10, f"IFCA, {k} models": (k - 1) / 10}
        appeal[f"HypCluster, {k} models"] = 0.0
    part = PORTFOLIO_STUDY.parts[0].label
    rows = [
        {"part": part, "method": method, "seed": seed, "round": 200, "clients": "unseen",
         "model": "global", "metric": "gm_appeal", "value": value + seed / 50}
        for method, value in appeal.items() for seed in (0, 1)
    ]  # fmt: skip
    summary = {"data": {part: "made up"}, "data_notes": {part: ""}, "chosen": {part: {}}}
    results = StudyResults(pa.Table.from_pylist(rows), summary, Path())
    (table,) = compare(EXHIBITS["portfolio"], results)
    assert table.headings[1:] == [
        "models", "IFCA", "HypCluster", "MaxFL auto", "MaxFL auto, lead over IFCA",
    ]  # fmt: skip
    cells = [[cell.split(" ±")[0] for cell in row] for row in table.rows]
    assert [row[:5] for row in cells] == [
        ["clusters", "1", "0.01", "0.01", "0.11"], ["", "2", "0.11", "0.01", "0.21"],
        ["", "3", "0.21", "0.01", "0.31"], ["", "5", "0.41", "0.01", "0.51"],
    ]  # fmt: skip
    assert [row[-1] for row in table.rows] == ["+0.10 [+0.10, +0.10]"] * 4
    assert table.remarks == [
        "clusters: MaxFL auto, ahead of one: 2, 3, 5 models.",
        "IFCA and HypCluster with one model: FedAvg.",
    ]


def test_portfolios_of_a_method_share_a_program_where_many_run_at_once():
    part = PORTFOLIO_STUDY.parts[0]
    names = [c.algorithm.name for c in configs(PORTFOLIO_STUDY, part)]
    assert names.count("ifca") == names.count("hypcluster") == 3
    assert names.count("maxfl-auto") == 4
    assert len(group(configs(PORTFOLIO_STUDY, part), mask_batches=True)) == 5
    assert len(group(configs(PORTFOLIO_STUDY, part), mask_batches=False)) == len(names)
