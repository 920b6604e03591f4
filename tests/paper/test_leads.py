"""Leads over a baseline: paired by seed, with intervals, in tables, in figures and in words."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from maxfl.paper.catalogue import EXHIBITS
from maxfl.paper.compare import compare
from maxfl.paper.declare import Column, Exhibit, Method, Part, Study
from maxfl.paper.leads import interval_cell, lead, leads_in
from maxfl.paper.plot import draw
from maxfl.paper.results import StudyResults
from maxfl.paper.words import gm_appeal_note, signed
from maxfl.report.statistics.bootstrap import Interval

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
    (remark,) = table.remarks
    assert remark == (
        "MaxFL auto is furthest behind the best of the others in many: strict: −0.10 [−0.10, −0.10]"
        " to MaxFL, T = 1."
    )
    only = exhibit("best")._replace(columns=COLUMNS[:1])
    (table,) = compare(only, results)
    assert table.remarks == ["MaxFL auto is behind none of the others."]


def test_phases_are_a_row_for_each_group(results):
    table, levels = compare(exhibit("phases"), results)
    assert table.title == "MaxFL auto, lead over FedAvg: unseen: GM-Appeal"
    assert table.headings == ["", "strict", "easy"]
    assert [row[0] for row in table.rows] == ["few", "many"]
    assert table.rows[1][2].startswith("−0.05 [−0.0")
    assert levels.title == "FedAvg → MaxFL auto: unseen: GM-Appeal"
    assert levels.rows == [
        ["few", "0.40 → 0.60", "0.40 → 0.40"],
        ["many", "0.40 → 0.60", "0.40 → 0.35"],
    ]


def test_a_part_that_was_not_run_leaves_its_cell_empty(results):
    some = {part: {} for part in PARTS[:3]}
    cut = results._replace(summary=results.summary | {"chosen": some})
    leads, levels = compare(exhibit("phases"), cut)
    assert (leads.rows[1][2], levels.rows[1][2]) == ("n/a", "n/a")


def test_each_metric_of_seen_or_unseen_clients_is_a_table(results):
    columns = tuple(
        Column(part, "seen", metric) for part in PARTS for metric in ("gm_appeal", "test_accuracy")
    )
    tables = compare(exhibit("leads")._replace(columns=columns), results)
    assert [table.title for table in tables] == [
        "few (toys): seen: GM-Appeal", "few (toys): seen: test accuracy, %",
        "many (toys): seen: GM-Appeal", "many (toys): seen: test accuracy, %",
    ]  # fmt: skip
    assert all(table.headings == ["", "strict", "easy"] for table in tables)
    assert tables[1].rows[0][1] == "40.0 ± 18.3"


@pytest.mark.parametrize("layout", ["leads", "phases"])
def test_leads_are_drawn(results, tmp_path, layout):
    draw(exhibit(layout), results, tmp_path / "toy.png")
    assert (tmp_path / "toy.png").stat().st_size > 10_000


def test_what_rounds_to_nothing_has_no_sign():
    assert [signed(v, 2) for v in (-0.001, 0.014, -0.5)] == ["0.00", "+0.01", "−0.50"]
    assert signed(-1.26, 1) == "−1.3"


def test_an_end_that_is_shown_as_0_is_0():
    def cell(*interval, metric="gm_appeal"):
        return interval_cell(Interval(*interval), Column("toy", "unseen", metric))

    assert cell(-0.014, -0.025, -0.004) == "−0.014 [−0.025, −0.004]", "behind"
    assert cell(0.015, -0.004, 0.035) == "+0.015 [−0.004, +0.035]", "not told apart"
    assert cell(0.026, 0.0, 0.052) == "+0.03 [0.00, +0.05]"
    assert cell(0.01, 0.0004, 0.02) == "+0.0100 [+0.0004, +0.0200]"
    assert cell(0.24, 0.14, 0.36) == "+0.24 [+0.14, +0.36]"
    assert cell(1.25, 0.04, 3.55, metric="test_accuracy") == "+1.25 [+0.04, +3.55]"
    assert cell(0.1, np.nan, np.nan) == "+0.10", "one seed"
    assert cell(np.nan, np.nan, np.nan) == "n/a"


def test_who_is_ahead_or_behind_is_seen_in_the_interval():
    ends = [sign * end for sign in (-1, 1) for end in (0.0, 1e-4, 4e-4, 4e-3, 6e-3, 0.3)]
    for low, high in combinations(sorted(ends), 2):
        for column in (COLUMNS[0], COLUMNS[0]._replace(metric="test_accuracy")):
            cell = interval_cell(Interval((low + high) / 2, low, high), column)
            shown = cell.partition("[")[2].strip("]").split(", ")
            assert (shown[0][0] == "+", shown[1][0] == "−") == (low > 0, high < 0)


def test_what_is_0_but_for_rounding_puts_nobody_ahead(results):
    # The shares differ by 0 on average; as float32, by −7e-9.
    shares = {"FedAvg": [0.85, 0.63, 0.51, 0.26], "MaxFL auto": [0.83, 0.65, 0.50, 0.27]}
    rows = [
        {
            "part": PARTS[0], "method": method, "clients": "unseen", "model": "global",
            "metric": "gm_appeal", "seed": seed, "round": 200, "value": float(np.float32(value)),
        }
        for method, values in shares.items()
        for seed, value in enumerate(values)
    ]  # fmt: skip
    table = pa.Table.from_pylist(rows)
    assert lead(results._replace(table=table), "MaxFL auto", "FedAvg", COLUMNS[0]).mean == 0


def test_a_note_says_what_clients_are_held_to():
    assert gm_appeal_note(EXHIBITS["common"]).endswith("is below that of a model trained alone")
    assert gm_appeal_note(EXHIBITS["when"]).endswith(
        "with the global model is below ρ, 2 to 0.8 times that of a model trained alone"
    )
    assert "global model, fine-tuned, is below" in gm_appeal_note(EXHIBITS["tab:local"])
    assert not gm_appeal_note(EXHIBITS["common-accuracy"]), "it shows none"
