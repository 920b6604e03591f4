"""Leads over a baseline: paired by seed, with intervals, in tables, in figures and in words."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from maxfl.paper.compare import compare
from maxfl.paper.declare import Column, Exhibit, Method, Part, Study
from maxfl.paper.leads import lead, leads_in
from maxfl.paper.plot import draw
from maxfl.paper.results import StudyResults
from maxfl.paper.words import signed

PARTS = ("few: strict", "few: easy", "many: strict", "many: easy")
STUDY = Study(
    "toy",
    tuple(Part(label, {}, {}) for label in PARTS),
    tuple(Method(label, {}) for label in ("FedAvg", "MaxFL, T = 1", "MaxFL auto")),
    {}, "gm_appeal_judging", seeds=4, baseline="FedAvg",
)  # fmt: skip
COLUMNS = tuple(Column(label, "unseen", "gm_appeal") for label in PARTS)
SEEDS = np.array([0.2, 0.5, 0.3, 0.6])
"""FedAvg's GM-Appeal: seeds differ far more than methods do."""
AHEAD = {
    "MaxFL, T = 1": {"few: strict": 0.1, "few: easy": 0.0, "many: strict": 0.3, "many: easy": -0.1},
    "MaxFL auto": {"few: strict": 0.2, "few: easy": 0.0, "many: strict": 0.2, "many: easy": -0.05},
}
NOISE = np.array([0.01, -0.01, 0.02, -0.02])


@pytest.fixture(scope="module")
def results():
    rows = [
        {
            "part": part, "method": method, "clients": clients, "model": "global",
            "metric": metric, "seed": seed, "round": 200, "value": value,
        }
        for part in PARTS
        for method in ("FedAvg", *AHEAD)
        for clients in ("seen", "unseen")
        for metric in ("gm_appeal", "test_accuracy", "preferred_accuracy")
        for seed, value in enumerate(
            SEEDS + (AHEAD[method][part] + NOISE if method in AHEAD else 0.0)
        )
    ]  # fmt: skip
    summary = {
        "data": dict.fromkeys(PARTS, "toys"), "data_notes": dict.fromkeys(PARTS, ""),
        "chosen": {part: {} for part in PARTS}, "scale": "full", "troubles": [],
    }  # fmt: skip
    return StudyResults(pa.Table.from_pylist(rows), summary, Path("nowhere"))


def exhibit(layout):
    axes = ("conflict", "demand")
    return Exhibit("toy", "a toy", STUDY, COLUMNS, is_figure=True, layout=layout, axes=axes)


def test_a_lead_is_paired_by_seed(results):
    mean, low, high = lead(results, "MaxFL auto", "FedAvg", COLUMNS[0])
    assert mean == pytest.approx(0.2)
    assert 0.15 < low < 0.2 < high < 0.25, "seeds that differ by 0.4 leave a narrow interval"
    assert np.isnan(lead(results, "a method that was not run", "FedAvg", COLUMNS[0])).all()


def test_leads_are_written_down(results):
    found = leads_in(STUDY, results)
    assert list(found) == list(PARTS)
    first = next(e for e in found["many: easy"] if e["clients"] == "unseen")
    assert (first["method"], first["metric"], first["mean"]) == ("MaxFL, T = 1", "gm_appeal", -0.1)
    assert first["low"] < -0.1 < first["high"] < 0
    assert len(found["many: easy"]) == 2 * 2 * 3


def test_each_group_of_parts_is_a_table(results):
    few, many = compare(exhibit("leads"), results)
    assert few.title == "few (toys): unseen: GM-Appeal"
    assert few.headings == ["", "strict", "easy"]
    assert [row[0] for row in few.rows] == [
        "FedAvg", "MaxFL, T = 1", "   lead", "MaxFL auto", "   lead"
    ]  # fmt: skip
    assert few.rows[0][1] == "0.40 ± 0.18"
    assert few.rows[-1][1].startswith("+0.20 [+0.1")
    assert few.remarks == [
        "strict: ahead of FedAvg: MaxFL, T = 1 · MaxFL auto.",
        "easy: no method is told apart from FedAvg.",
    ]
    assert many.remarks[1] == "easy: behind FedAvg: MaxFL, T = 1 · MaxFL auto."


def test_the_last_method_is_shown_beside_the_best_of_the_others(results):
    (table,) = compare(exhibit("best"), results)
    assert table.headings[1:3] == ["MaxFL auto", "lead over FedAvg"]
    by_part = {row[0]: row[1:] for row in table.rows}
    assert by_part["few: strict"][2].startswith("MaxFL, T = 1: 0.50")
    assert by_part["many: easy"][2].startswith("FedAvg: 0.40")
    assert table.remarks == ["Least of all: −0.10 to MaxFL, T = 1, many: strict."]


def test_phases_are_a_row_for_each_group(results):
    (table,) = compare(exhibit("phases"), results)
    assert table.title == "MaxFL auto, lead over FedAvg: unseen: GM-Appeal"
    assert table.headings == ["", "strict", "easy"]
    assert [row[0] for row in table.rows] == ["few", "many"]
    assert table.rows[1][2].startswith("−0.05 [−0.0")


@pytest.mark.parametrize("layout", ["leads", "phases"])
def test_leads_are_drawn(results, tmp_path, layout):
    draw(exhibit(layout), results, tmp_path / "toy.png")
    assert (tmp_path / "toy.png").stat().st_size > 10_000


def test_what_rounds_to_nothing_has_no_sign():
    accuracy = Column("toy", "seen", "test_accuracy")
    assert [signed(v, COLUMNS[0]) for v in (-0.001, 0.014, -0.5)] == ["0.00", "+0.01", "−0.50"]
    assert signed(-1.26, accuracy) == "−1.3"
