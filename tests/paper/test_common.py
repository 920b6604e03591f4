"""Studies with one requirement for all methods: what is declared, searched and shared."""

from maxfl.paper.common import COMMON_STUDY, LEAVING, WHEN_STUDY
from maxfl.paper.study import SCALES, configure, search_grid
from maxfl.runs.build import group

FULL = SCALES["full"]


def configs(study, parts, seeds=(0,)):
    return [
        configure(part, method, part.typical, {}, seed).config
        for part in parts
        for method in study.methods
        for seed in seeds
    ]


def test_all_methods_face_one_requirement_and_one_schedule():
    for study in (COMMON_STUDY, WHEN_STUDY):
        for part in study.parts:
            found = configs(study, [part])
            assert {c.requirement.judge for c in found} == {"held-out"}
            assert len({c.requirement for c in found}) == 1
            assert {(c.schedule.server, c.schedule.server_end) for c in found} == {
                ("exponential", 0.18)
            }
            assert {(c.training.rounds, c.training.local_steps) for c in found} == {(200, 10)}


def test_every_group_of_parts_differs_in_its_heading_alone():
    labels = [part.label for part in COMMON_STUDY.parts]
    assert len(set(labels)) == len(labels) == 15
    groups = list(dict.fromkeys(part.group for part in COMMON_STUDY.parts))
    assert groups == ["clusters", "skewed", "EMNIST", "tweets", "synthetic"]
    assert COMMON_STUDY.parts[0].heading == "solo rate 0.005"


def test_those_who_leave_and_those_who_never_do_share_a_program():
    both = [part for part in COMMON_STUDY.parts if part.group == "synthetic"]
    assert [part.heading for part in both] == list(LEAVING)
    fixed = [m for m in COMMON_STUDY.methods if m.settings["algorithm.name"] == "maxfl"]
    assert len(fixed) == 3
    assert len(group(configs(COMMON_STUDY, both), mask_batches=True)) == 9, "one for each algorithm"


def test_a_row_of_the_phase_diagram_is_one_program():
    row = [part for part in WHEN_STUDY.parts if part.group == "30 % in conflict"]
    assert [part.settings["requirement.multiple"] for part in row] == [2.0, 1.5, 1.2, 1.0, 0.8]
    assert len(group(configs(WHEN_STUDY, row, seeds=(0, 1)), mask_batches=True)) == 2 * 2


def test_points_are_chosen_on_seeds_that_are_not_shown():
    study = COMMON_STUDY._replace(parts=COMMON_STUDY.parts[:1], methods=COMMON_STUDY.methods[:2])
    grid = search_grid(study, FULL)
    assert {values["seed"] for values in grid.values} == set(range(100, 105))
    assert len(grid.values) == 2 * 6 * 5
    assert list(FULL.final_seeds(study)) == list(range(10))
    assert FULL.describe(study) == (
        "full: 10 seeds, hyper-parameters chosen by seen clients' judging data of 5 other seeds"
    )
    assert FULL.describe(WHEN_STUDY) == "full: 10 seeds, no search"
    few = FULL._replace(seeds=2)
    assert list(few.search_seeds(study)) == [100, 101]
    assert list(few.final_seeds(study)) == [0, 1]
