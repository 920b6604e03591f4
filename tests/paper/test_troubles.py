"""What was not run and what went wrong is said once, of what is shown."""

from pathlib import Path

import pyarrow as pa
import pytest

from maxfl.paper.declare import Column, Exhibit, Method, Part, Study
from maxfl.paper.results import StudyResults
from maxfl.paper.troubles import describe_trouble, not_run, trouble_lines

PARTS = ("few: strict", "few: easy", "many: strict", "many: easy")
METHODS = ("FedAvg", "FedProx", "MaxFL")
STUDY = Study(
    "toy",
    tuple(Part(label, {}, {}) for label in PARTS),
    tuple(Method(label, {}) for label in METHODS),
    {}, "gm_appeal_judging", seeds=3,
)  # fmt: skip
EXHIBIT = Exhibit("toy", "a toy", STUDY, tuple(Column(p, "seen", "gm_appeal") for p in PARTS))


def results(parts, *troubles):
    """A study of three seeds: (part, method, seed, from which round nobody was willing)."""
    rows = [
        {
            "part": part, "method": method, "clients": "seen", "model": "global",
            "metric": "gm_appeal", "seed": seed, "round": 200, "value": 0.0,
        }
        for part in parts
        for method in METHODS
        for seed in range(3)
    ]  # fmt: skip
    told = [
        {"part": part, "method": method, "seed": seed, "what": describe_trouble(stalled)}
        for part, method, seed, stalled in troubles
    ]
    summary = {"chosen": {part: {} for part in parts}, "troubles": told}
    return StudyResults(pa.Table.from_pylist(rows), summary, Path("nowhere"))


MISHAPS = (
    ("many: strict", "MaxFL", 1, None),
    ("many: strict", "FedProx", 0, 11),
    ("many: strict", "MaxFL", 0, 11),
    ("few: easy", "FedProx", 2, 37),
    ("few: easy", "FedAvg", 0, 12),
    ("few: easy", "FedProx", 0, 11),
    ("few: easy", "FedProx", 1, 15),
)


def test_each_part_has_a_line_in_the_order_of_the_tables():
    assert trouble_lines(EXHIBIT, results(PARTS, *MISHAPS)) == [
        "few: easy: everybody left: FedAvg in 1 of 3 seeds (round 12); "
        "FedProx in 3 of 3 seeds (rounds 11 to 37)",
        "many: strict: everybody left: FedProx · MaxFL in 1 of 3 seeds (round 11)",
        "many: strict: diverged: MaxFL in 1 of 3 seeds",
    ]


def test_what_is_not_shown_had_no_trouble():
    found = results(PARTS, *MISHAPS)
    assert trouble_lines(EXHIBIT._replace(methods=("FedAvg",)), found) == [
        "few: easy: everybody left: FedAvg in 1 of 3 seeds (round 12)"
    ]
    assert not trouble_lines(EXHIBIT._replace(columns=EXHIBIT.columns[:1]), found)


@pytest.mark.parametrize(
    ("parts", "missing"),
    [
        (PARTS, []),
        (PARTS[:2], ["many"]),
        (PARTS[:3], ["many: easy"]),
        (PARTS[3:], ["few", "many: strict"]),
    ],
)
def test_parts_that_were_not_run_are_named(parts, missing):
    assert not_run(EXHIBIT, results(parts)) == missing
