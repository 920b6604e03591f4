"""The paper's exhibits: declarations, choice, comparison, and the reference runs."""

import csv
import runpy
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import maxfl
from maxfl.paper.catalogue import EXHIBITS
from maxfl.paper.compare import compare
from maxfl.paper.declare import Column, Method, Part, Study, data_config, with_paper_data
from maxfl.paper.results import (
    STUDY_SEARCH,
    StudyResults,
    paper_values,
    read,
    read_search,
    reference_run,
)
from maxfl.paper.settings import PROTOCOL
from maxfl.paper.study import best_point, configure
from maxfl.utils.errors import InputError
from maxfl.utils.files import write_json
from maxfl.utils.paths import STUDY, STUDY_RESULTS

ROOT = Path(__file__).parents[2]
STUDIES = {e.study.name: e.study for e in EXHIBITS.values()}
PAPER_VALUES = Path(maxfl.__file__).parent / "paper/paper_values.csv"


def test_every_exhibit_is_declared_as_the_settings_expect_it():
    for study in STUDIES.values():
        points = study.points
        assert len(points) in (1, 5, 6, 36, 45)
        for part, method in product(study.parts, study.methods):
            for point in (part.typical, points[0], points[-1]):
                config = configure(part, method, point, {}, 0).config
                assert config.training.rounds == 200
            if method.rounds_key:
                assert config.algorithm.hparams["rounds"] == 200
            if study.baseline:
                continue
            # The product of the rates is one that the paper searched.
            rates = {config.training.local_lr * p.get("training.server_lr", 1.0) for p in points}
            if "training.server_lr" in study.grid and part.label == "FMNIST":
                assert sorted(rates) == pytest.approx([0.005, 0.01, 0.05, 0.1])


def test_every_printed_figure_has_its_place():
    with PAPER_VALUES.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    places = [
        (name, method, column)
        for name, e in EXHIBITS.items()
        for (method, column) in paper_values(e)
        if method in e.method_labels
    ]
    assert len(places) == len(set(places)) == len(rows) == 214


def test_some_printed_figures():
    seen = Column("FMNIST", "seen", "test_accuracy")
    table = paper_values(EXHIBITS["tab:testacc"])
    assert table["MaxFL", seen] == ("70.86", "2.18")
    assert table["FedAvg", seen] == ("43.70", "0.02")
    unseen = paper_values(EXHIBITS["tab:unseen"])
    assert unseen["MaxFL", Column("Sent140", "unseen", "gm_appeal")] == ("0.43", "0.05")
    assert paper_values(EXHIBITS["fig:syn"]) == {}


PART = Part("toy", {}, {})
TOY = Study("toy", (PART,), (Method("A", {}), Method("B", {})), {"x": (1, 2, 3)}, "gm_appeal")


def found(rows):
    """A search's table of (method, x, seed, metric, value)."""
    names = ("method", "x", "seed", "metric", "value")
    columns = {
        name: list(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)
    }
    count = len(rows)
    return pa.table({
        "part": ["toy"] * count, "clients": ["seen"] * count, "model": ["global"] * count,
        **columns,
    })  # fmt: skip


def test_the_best_point_is_that_of_the_largest_mean():
    values = {1: (0.2, 0.4), 2: (0.1, 0.7), 3: (0.9, 0.9)}
    rows = [
        ("A", x, seed, metric, value)
        for x, pair in values.items()
        for seed, value in enumerate(pair)
        for metric in ("gm_appeal", "preferred_accuracy", "judging_loss")
    ]
    diverged = [*rows[:-1], (*rows[-1][:4], np.nan)]  # 3 has appeal, but once no loss
    assert best_point(TOY, found(rows), "toy", "A") == {"x": 3}
    assert best_point(TOY, found(diverged), "toy", "A") == {"x": 2}
    tied = [
        (m, x, s, metric, 0.0 if metric == "gm_appeal" else float(x)) for m, x, s, metric, _ in rows
    ]
    assert best_point(TOY, found(tied), "toy", "A") == {"x": 3}, "ties by preferred accuracy"
    judged = TOY._replace(chosen_by="gm_appeal_judging")
    tied = [
        ("A", x, 0, metric, value)
        for x, appeal, loss in ((1, 0.5, 0.3), (2, 0.7, 0.2), (3, 0.7, 0.1))
        for metric, value in (("gm_appeal_judging", appeal), ("judging_loss", loss))
    ]
    assert best_point(judged, found(tied), "toy", "A") == {"x": 3}, "ties by judging loss"
    with pytest.raises(InputError, match="every configuration of A on toy diverged"):
        best_point(TOY, found([(*row[:4], np.nan) for row in rows]), "toy", "A")


def results(figures):
    """A finished study of {method: (value of each seed)} for one column of tab:unseen."""
    rows = [(m, s, v) for m, values in figures.items() for s, v in enumerate(values)]
    methods, seeds, values = zip(*rows, strict=True)
    count = len(rows)
    words = {"part": "FMNIST", "clients": "unseen", "model": "global", "metric": "gm_appeal"}
    table = pa.table({
        "method": methods, "seed": seeds, "value": np.array(values, np.float32),
        "round": [200] * count, **{k: [w] * count for k, w in words.items()},
    })  # fmt: skip
    summary = {
        "data": {"FMNIST": "toy data"},
        "chosen": {"FMNIST": {}},
        "scale": "a toy",
        "troubles": [],
        "data_notes": {"FMNIST": ""},
    }
    return StudyResults(table, summary, Path("nowhere"))


def only_appeal(name):
    exhibit = EXHIBITS[name]
    return exhibit._replace(columns=tuple(c for c in exhibit.columns if c.metric == "gm_appeal"))


def remarks(figures):
    """What is said of the methods' order."""
    (table,) = compare(only_appeal("tab:unseen"), results(figures))
    return table.remarks


def test_ours_stands_above_the_papers():
    figures = {"FedAvg": (0.1, 0.3), "MaxFL": (0.5, 0.5)}
    (table,) = compare(only_appeal("tab:unseen"), results(figures))
    assert table.rows == [
        ["FedAvg", "0.20 ± 0.14"], ["   paper", "0.08 ± 0.01"],
        ["MaxFL", "0.50 ± 0.00"], ["   paper", "0.55 ± 0.0"],
    ]  # fmt: skip
    assert table.remarks == ["unseen, GM-Appeal: the same order as in the paper."]


def test_a_lead_within_the_spread_of_seeds_is_said():
    assert remarks({"FedAvg": (0.1, 0.5), "MaxFL": (0.4, 0.4)}) == [
        "unseen, GM-Appeal: the same order as in the paper (no further ahead than seeds differ)."
    ]


def test_another_order_is_said_plainly():
    (remark,) = remarks({"FedAvg": (0.6, 0.7), "MaxFL": (0.5, 0.5), "MW-Fed": (0.5, 0.5)})
    assert "THE ORDER DIFFERS: here FedAvg > MW-Fed = MaxFL; in the paper MaxFL > " in remark


def test_a_winner_that_is_not_ahead_is_said_plainly():
    (remark,) = remarks({"FedAvg": (0.0, 0.0), "MaxFL": (0.001, 0.0)})
    assert "THE PAPER'S FIRST, MaxFL, IS NOT AHEAD: here FedAvg = MaxFL" in remark


def test_a_winner_that_shares_the_first_place_is_not_ahead():
    (remark,) = remarks({"FedAvg": (0.5, 0.5), "MaxFL": (0.5, 0.5), "MW-Fed": (0.1, 0.1)})
    assert "THE PAPER'S FIRST, MaxFL, IS NOT AHEAD: here FedAvg = MaxFL > MW-Fed" in remark


def test_one_seed_makes_no_order():
    (remark,) = remarks({"FedAvg": (0.6,), "MaxFL": (0.5,)})
    assert remark == "unseen, GM-Appeal: one seed, so no order of methods."


def test_reference_runs_are_whole():
    folders = [p.parent for p in reference_run("").glob("*/" + STUDY)]
    assert {f.name for f in folders} == set(STUDIES)
    for folder in folders:
        found = read(folder, folder.name)
        assert found.summary["scale"].startswith("full")
        columns = [c for e in EXHIBITS.values() if e.study.name == folder.name for c in e.columns]
        for part in found.parts:
            for method in found.summary["chosen"][part]:
                column = next(c for c in columns if c.part == part)
                assert len(found.final(method, column)) == STUDIES[folder.name].seeds


def test_reference_runs_are_of_what_is_declared():
    for path in reference_run("").glob("*/" + STUDY):
        study = STUDIES[path.parent.name]
        declared = read(path.parent, study.name).summary.get("declaration", {})
        parts = {part.label: part.settings | {"typical": part.typical} for part in study.parts}
        for label, settings in declared.get("parts", {}).items():
            assert parts[label] == settings, label


def test_reference_runs_have_the_names_of_today():
    convert = runpy.run_path(str(ROOT / "scripts/convert_reference_runs.py"))
    for path in reference_run("").glob("*/" + STUDY):
        assert not convert["_convert_study"](path.parent)
    for name in convert["HEADINGS"]:
        assert not convert["_convert_headings"](ROOT / "docs" / name)


def test_a_study_of_version_0_1_is_read(tmp_path):
    old, new = "FMNIST, 5 % liars", "FMNIST, 5 % Byzantine"
    words = {"clients": "seen", "model": "global", "metric": "gm_appeal", "method": "MaxFL"}
    row = words | {"part": old, "seed": 0, "round": 4, "value": 0.5, "server.trim": 0.1}
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / STUDY_RESULTS)
    plan = {"parts": {old: {"adversary.share": 0.05}}}
    summary = {"study": "liars", "chosen": {old: {"MaxFL": {"server.trim": 0.1}}}, "plan": plan}
    write_json(tmp_path / STUDY, summary)
    found = read(tmp_path, "byzantine")
    assert found.parts == [new]
    assert found.final("MaxFL", Column(new, "seen", "gm_appeal")).tolist() == [0.5]
    assert "server.trim_fraction" in found.table.column_names
    assert found.summary["chosen"][new]["MaxFL"] == {"server.trim_fraction": 0.1}
    settings = PROTOCOL | {"attack.fraction": 0.05}
    assert found.summary["declaration"] == {"parts": {new: settings}}, "it knew no other protocol"


def test_what_was_chosen_is_the_best_of_what_was_searched():
    for study in STUDIES.values():
        folder = reference_run(study.name)
        if not (folder / STUDY_SEARCH).is_file():
            continue
        found = read_search(folder)
        for part, chosen in read(folder, study.name).summary["chosen"].items():
            for method, point in chosen.items():
                assert best_point(study, found, part, method) == point


def test_the_papers_own_data_are_taken_where_they_are(tmp_path, monkeypatch):
    study = EXHIBITS["tab:testacc"].study
    monkeypatch.setattr("maxfl.paper.declare.find", lambda *_: None)
    assert with_paper_data(study) == study
    monkeypatch.setattr("maxfl.paper.declare.find", lambda *_: tmp_path)
    fmnist, emnist = with_paper_data(study).parts
    assert fmnist == study.parts[0]
    assert (emnist.settings["data.part"], emnist.note) == ("both", "")
    _, tweets = with_paper_data(EXHIBITS["tab:unseen"].study).parts
    data = data_config(tweets)
    assert (data.source, data.partition, data.unseen) == ("sent140", "by-owner", 619)


def test_parts_that_were_run_one_by_one_make_one_reference_run():
    merge = runpy.run_path(str(ROOT / "scripts/add_reference_run.py"))["_merge_summaries"]

    def run(part, seconds):
        by_part = {key: {part: {}} for key in ("data", "data_notes", "chosen", "leads")}
        declared = {"declaration": {"parts": {part: {"seed": 0}}, "grid": {}}}
        sealed = {"files": {}, "digest": "of the run's own tables"}
        return {"seconds": seconds, "troubles": [], **by_part, **declared, **sealed}

    first = merge(None, run("clusters: strict", 10.0))
    assert first["times"] == {"clusters": 10.0}
    assert "digest" not in first
    both = merge(first, run("skewed: strict", 5.0))
    labels = ["clusters: strict", "skewed: strict"]
    assert all(list(both[key]) == labels for key in ("data", "chosen", "leads"))
    assert list(both["declaration"]["parts"]) == labels
    assert both["seconds"] == 15.0
    assert merge(both, run("EMNIST: strict", None))["seconds"] is None, "in several sittings"
