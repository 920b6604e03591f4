"""The paper's experiments: declarations, choice, comparison, and the runs that are kept."""

import csv
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import maxfl
from maxfl.paper.catalogue import EXPERIMENTS
from maxfl.paper.compare import compare
from maxfl.paper.declare import Column, Method, Part, Study, data_of, with_the_papers_data
from maxfl.paper.results import Outcome, kept, printed, read
from maxfl.paper.study import ABOUT, SEARCH, best, case
from maxfl.utils.errors import InputError

PRINTED = Path(maxfl.__file__).parent / "paper/paper_values.csv"


def test_every_experiment_is_declared_as_the_settings_want_it():
    for study in {e.study.name: e.study for e in EXPERIMENTS.values()}.values():
        points = study.points
        assert len(points) in (1, 5, 36, 45)
        for part, method in product(study.parts, study.methods):
            for point in (part.typical, points[0], points[-1]):
                config = case(part, method, point, {}, 0).config
                assert config.training.rounds == 200
            if method.paced:
                assert config.algorithm.numbers["rounds"] == 200
            # The product of the rates is one that the paper searched.
            rates = {config.training.local_lr * p.get("training.server_lr", 1.0) for p in points}
            if "training.server_lr" in study.grid and part.label == "FMNIST":
                assert sorted(rates) == pytest.approx([0.005, 0.01, 0.05, 0.1])


def test_every_printed_figure_has_its_place():
    with PRINTED.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    places = [
        (name, method, column)
        for name, e in EXPERIMENTS.items()
        for (method, column) in printed(e)
        if method in e.shown
    ]
    assert len(places) == len(set(places)) == len(rows) == 214


def test_some_printed_figures():
    seen = Column("FMNIST", "seen", "test_accuracy")
    table = printed(EXPERIMENTS["tab:testacc"])
    assert table["MaxFL", seen] == ("70.86", "2.18")
    assert table["FedAvg", seen] == ("43.70", "0.02")
    unseen = printed(EXPERIMENTS["tab:unseen"])
    assert unseen["MaxFL", Column("Sent140", "unseen", "gm_appeal")] == ("0.43", "0.05")
    assert printed(EXPERIMENTS["fig:syn"]) == {}


PART = Part("toy", {}, {})
STUDY = Study("toy", (PART,), (Method("A", {}), Method("B", {})), {"x": (1, 2, 3)}, "gm_appeal")


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
        for metric in ("gm_appeal", "preferred_accuracy", "train_loss")
    ]
    diverged = [*rows[:-1], (*rows[-1][:4], np.nan)]  # 3 has appeal, but once no loss
    assert best(STUDY, found(rows), "toy", "A") == {"x": 3}
    assert best(STUDY, found(diverged), "toy", "A") == {"x": 2}
    tied = [
        (m, x, s, metric, 0.0 if metric == "gm_appeal" else float(x)) for m, x, s, metric, _ in rows
    ]
    assert best(STUDY, found(tied), "toy", "A") == {"x": 3}, "ties by preferred accuracy"
    with pytest.raises(InputError, match="every configuration of A on toy diverged"):
        best(STUDY, found([(*row[:4], np.nan) for row in rows]), "toy", "A")


def outcome(figures):
    """A finished study of {method: (figure of each seed)} for one column of tab:unseen."""
    rows = [(m, s, v) for m, values in figures.items() for s, v in enumerate(values)]
    methods, seeds, values = zip(*rows, strict=True)
    count = len(rows)
    words = {"part": "FMNIST", "clients": "unseen", "model": "global", "metric": "gm_appeal"}
    table = pa.table({
        "method": methods, "seed": seeds, "value": np.array(values, np.float32),
        "round": [200] * count, **{k: [w] * count for k, w in words.items()},
    })  # fmt: skip
    about = {
        "data": {"FMNIST": "toy data"},
        "chosen": {"FMNIST": {}},
        "scale": "a toy",
        "troubles": [],
        "data_notes": {"FMNIST": ""},
    }
    return Outcome(table, about, "nowhere")


def only_appeal(name):
    experiment = EXPERIMENTS[name]
    return experiment._replace(
        columns=tuple(c for c in experiment.columns if c.metric == "gm_appeal")
    )


def remarks(figures):
    """What is said of the methods' order."""
    (table,) = compare(only_appeal("tab:unseen"), outcome(figures))
    return table.remarks


def test_ours_stands_above_the_papers():
    figures = {"FedAvg": (0.1, 0.3), "MaxFL": (0.5, 0.5)}
    (table,) = compare(only_appeal("tab:unseen"), outcome(figures))
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


def test_one_seed_makes_no_order():
    (remark,) = remarks({"FedAvg": (0.6,), "MaxFL": (0.5,)})
    assert remark == "unseen, GM-Appeal: one seed, so no order of methods."


def test_what_is_kept_is_whole():
    folders = [p.parent for p in kept("").glob("*/" + ABOUT)]
    assert folders
    for folder in folders:
        outcome = read(folder, folder.name)
        assert outcome.about["scale"].startswith("full")
        shown = [c for e in EXPERIMENTS.values() if e.study.name == folder.name for c in e.columns]
        for part in outcome.parts:
            for method in outcome.about["chosen"][part]:
                column = next(c for c in shown if c.part == part)
                assert len(outcome.final(method, column)) == 3


def test_what_was_chosen_is_the_best_of_what_was_searched():
    for study in {e.study.name: e.study for e in EXPERIMENTS.values()}.values():
        if not (kept(study.name) / SEARCH).is_file():
            continue
        found = pq.read_table(kept(study.name) / SEARCH)
        for part, own in read(kept(study.name), study.name).about["chosen"].items():
            for method, point in own.items():
                assert best(study, found, part, method) == point


def test_the_papers_own_data_are_taken_where_they_are(tmp_path, monkeypatch):
    study = EXPERIMENTS["tab:testacc"].study
    monkeypatch.setattr("maxfl.paper.declare.find", lambda *_: None)
    assert with_the_papers_data(study) == study
    monkeypatch.setattr("maxfl.paper.declare.find", lambda *_: tmp_path)
    fmnist, emnist = with_the_papers_data(study).parts
    assert fmnist == study.parts[0]
    assert (emnist.settings["data.part"], emnist.note) == ("both", "")
    _, tweets = with_the_papers_data(EXPERIMENTS["tab:unseen"].study).parts
    data = data_of(tweets)
    assert (data.source, data.partition, data.unseen) == ("sent140", "by-owner", 619)
